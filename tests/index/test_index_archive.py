"""Several indexes searched as one."""

from pathlib import Path

import pytest
import torch

from cxrtext.errors import CheckpointError
from cxrtext.index import Query, open_index
from cxrtext.models import ImageTextModel
from tests.index.conftest import MakeArchive


@pytest.fixture
def folders(make_archive: MakeArchive, tmp_path: Path) -> list[Path]:
    return [
        make_archive(tmp_path / str(i), 80 + i, seed=i, start=100 * i, prefix="i") for i in range(3)
    ]


@pytest.mark.parametrize("threads", [1, 2])
def test_shards_give_what_all_together_give(
    folders: list[Path], model: ImageTextModel, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.get_num_threads", lambda: threads)
    text = model.embed_sentences(["Left pleural effusion."])
    every = []
    for folder in folders:
        with open_index(folder, model) as index:
            every += index.search(Query(texts=text), 1000).hits
    best = sorted(every, key=lambda hit: -hit.score)
    with open_index(folders, model) as shards:
        assert shards.images == 243
        found = shards.search(Query(texts=text), 25, offset=5)
        assert found.hits == best[5:30]
        assert (found.searched, found.exact) == (243, True)
        patients = shards.search(Query(texts=text), 1000, unique="patient").hits
        assert len({hit.image.patient_id for hit in patients}) == len(patients)
        said = shards.search_sentences(2, text=text[0])
        assert said[0].sentence == "Left pleural effusion."
        assert (len(said), said[0].studies) == (2, 3 * 50)
        assert said[0].score == pytest.approx(1.0, abs=1e-5)
        assert len(shards.search_sentences(10, image=torch.ones(16, 16))) == 3
        every_said = shards.search_sentences(3, text=text[0])
        assert shards.search_sentences(1, text=text[0], offset=1) == every_said[1:2]
        assert shards.search_sentences(3, text=text[0], min_score=0.9999) == said[:1]


def test_a_shard_twice_is_refused(folders: list[Path], model: ImageTextModel) -> None:
    with pytest.raises(CheckpointError, match="each index once"):
        open_index([folders[0], folders[0]], model)
