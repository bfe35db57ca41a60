"""Sentences that fit an image: ranked by their lift over the archive's images."""

import math
from pathlib import Path

import pytest
import torch

from cxrtext.index import open_index
from cxrtext.index.changes import NewReports, add_reports
from cxrtext.index.maintain import delete
from cxrtext.index.search.sentences import BACKGROUND, choose_background
from cxrtext.index.store.writer import writing
from cxrtext.models import ImageTextModel
from tests.index.conftest import MakeArchive, regions_of


def lifts_by_hand(
    model: ImageTextModel, image: torch.Tensor, others: torch.Tensor, sentences: list[str]
) -> dict[str, float]:
    """γ² s less the logarithm of the mean of exp(γ² s) over other images."""
    with torch.inference_mode():
        vectors, gamma_sq = model.embed_sentences(sentences), model.gamma_sq.item()
        own = gamma_sq * model.scores(image[None], vectors)[:, 0].double()
        every = gamma_sq * model.scores(others, vectors).double()
    usual = every.exp().mean(dim=1).log()
    return dict(zip(sentences, (own - usual).tolist(), strict=True))


def test_lifts_are_what_they_are_said_to_be(small: Path, model: ImageTextModel) -> None:
    image = regions_of(1, seed=9)[0]
    every = regions_of(120, seed=0)
    with open_index(small, model) as index:
        first = index.search_sentences(5, image=image)
        assert [hit.lift for hit in first] == sorted((h.lift or 0 for h in first), reverse=True)
        by_hand = lifts_by_hand(model, image, every, [hit.sentence for hit in first])
        assert len(by_hand) == 3
        for hit in first:
            assert hit.lift == pytest.approx(by_hand[hit.sentence], abs=0.02)  # kept in 16 bits
        # What was computed once serves a sentence and a study that come and go.
        delete(small, ["s3"])
        new = "Small right effusion."
        with writing(small) as catalogue:
            vectors = model.embed_sentences([new]).numpy()
            add_reports(small, catalogue, NewReports([new], vectors, [("s1", "findings", 9, new)]))
        left = torch.cat([every[:6], every[8:]])
        index = index.renewed() or index
        again = index.search_sentences(5, image=image)
        by_hand = lifts_by_hand(model, image, left, [hit.sentence for hit in again])
        assert new in by_hand
        for hit in again:
            assert hit.lift == pytest.approx(by_hand[hit.sentence], abs=0.02)
        assert index.search_sentences(1, image=image, min_score=max(h.score for h in again)) == [
            max(again, key=lambda hit: hit.score)
        ]
        assert index.search_sentences(5, image=image, offset=1) == again[1:]


def test_a_sentence_is_looked_for_by_likeness_and_few_images_tell_no_lift(
    make_archive: MakeArchive, tmp_path: Path, model: ImageTextModel
) -> None:
    few = make_archive(tmp_path / "few", 12)
    with open_index(few, model) as index:
        hits = index.search_sentences(5, image=regions_of(1, seed=9)[0])
        assert [hit.lift for hit in hits] == [None] * len(hits)
        assert [h.score for h in hits] == sorted((h.score for h in hits), reverse=True)
        said = index.search_sentences(1, text=model.embed_sentences(["The lungs are clear."])[0])
        assert said[0].lift is None


def test_the_background_hardly_moves(
    make_archive: MakeArchive, tmp_path: Path, model: ImageTextModel
) -> None:
    folder = make_archive(tmp_path / "index", 400)
    with open_index(folder, model) as index:
        chosen = choose_background(index.snapshot)
        assert len(set(chosen)) == BACKGROUND
        hits = index.search_sentences(3, image=regions_of(1, seed=9)[0])
        assert all(hit.lift is not None and math.isfinite(hit.lift) for hit in hits)
        delete(folder, ["s0"])
        now = index.renewed()
        assert now is not None
        assert len(set(chosen) - set(choose_background(now.snapshot))) <= 2
