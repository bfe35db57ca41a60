"""The fast search: candidates by profiles, for every kind of query."""

from collections.abc import Iterator
from unittest.mock import patch

import numpy as np
import pytest
import torch.nn.functional as F
from torch import Tensor

from cxrtext.index import Archive, Query, open_index
from cxrtext.index.features import candidates
from cxrtext.index.search import ranking
from cxrtext.models import ImageTextModel
from tests.index.conftest import MakeArchive

K = 10


@pytest.fixture(autouse=True)
def few_candidates() -> Iterator[None]:
    """So few that an archive of 3,000 images has more."""
    with patch.object(candidates, "DEPTH", 100), patch.object(ranking, "DEPTH", 100):
        yield


@pytest.fixture(scope="module")
def large(
    make_archive: MakeArchive, model: ImageTextModel, tmp_path_factory: pytest.TempPathFactory
) -> Archive:
    with patch.object(candidates, "EXACT_BYTES", 0):
        folder = make_archive(tmp_path_factory.mktemp("large") / "index", 3000, batch=500)
    return open_index(folder, model)


def sentences(model: ImageTextModel) -> Tensor:
    said = ["Left pleural effusion.", "The lungs are clear.", "Right pneumothorax."]
    return model.embed_sentences(said).cpu()


@pytest.mark.parametrize("kind", ["text", "texts", "not", "nots", "text and image"])
def test_candidates_hold_the_best_of_every_kind_of_query(
    large: Archive, model: ImageTextModel, kind: str
) -> None:
    texts = sentences(model)
    image = F.normalize(large.regions(7).mean(0), dim=0)
    query = {
        "text": Query(texts=texts[:1]),
        "texts": Query(texts=texts[:2]),
        "not": Query(texts=texts[:1], without=texts[1:2]),
        "nots": Query(texts=texts[:1], without=texts[1:]),
        "text and image": Query(texts=texts[:1], image=image),
    }[kind]
    exact = large.search(query, K, mode="exact")
    fast = large.search(query, K, mode="fast")
    assert exact.exact
    assert not fast.exact
    assert fast.scored < 1000
    same = {hit.image.image for hit in exact.hits} & {hit.image.image for hit in fast.hits}
    assert len(same) >= 9
    scores = [hit.score for hit in fast.hits]
    assert scores == sorted(scores, reverse=True)


def test_a_page_behind_the_candidates_goes_on(large: Archive, model: ImageTextModel) -> None:
    query = Query(texts=sentences(model)[:1])
    every = large.search(query, 5000, mode="fast").hits
    assert len({hit.image.image for hit in every}) == 3000
    assert large.search(query, 40, offset=30, mode="fast").hits == every[30:70]


def test_candidates_come_from_what_a_filter_leaves(large: Archive, model: ImageTextModel) -> None:
    query = Query(texts=sentences(model)[:1])
    names = [f"'i{i}.png'" for i in np.random.default_rng(0).permutation(3000)[:200]]
    where = f"image in ({', '.join(names)})"
    exact = large.search(query, K, where=where, mode="exact").hits
    fast = large.search(query, K, where=where, mode="fast").hits
    assert len({h.image.image for h in exact} & {h.image.image for h in fast}) >= 9
