"""An index is turned to another model: as if built by it, at once, whatever happens meanwhile."""

import os
import shutil
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cxrtext.errors import DataError, HeldError
from cxrtext.evaluation import CHEX5_PROMPTS
from cxrtext.index import Query, build_index, delete, keep_labels, open_index, reembed
from cxrtext.index.store.writer import writing
from cxrtext.models import ImageTextModel, load_model
from cxrtext.models.checkpoint import save_checkpoint
from tests.index.conftest import Upload, in_fork, wrong

pytestmark = pytest.mark.usefixtures("one_thread")

QUERY = "Left pleural effusion."


def other_model(checkpoint: Path, folder: Path, seed: int = 1, **spec: object) -> Path:
    known = load_model(checkpoint)
    torch.manual_seed(seed)
    made = ImageTextModel(replace(known.spec, **spec), known.tokenizer)  # type: ignore[arg-type]
    save_checkpoint(folder, made, {})
    return folder


@pytest.fixture(scope="module")
def new_checkpoint(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return other_model(checkpoint, tmp_path_factory.mktemp("new") / "model", dimension=24)


@pytest.fixture(scope="module")
def fresh(
    data_folder: Path, new_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """What an index says that the new model built."""
    folder = tmp_path_factory.mktemp("fresh") / "index"
    build_index(data_folder / "manifest.csv", new_checkpoint, folder)
    return said_by(folder)


def said_by(folder: Path) -> dict[str, Any]:
    with open_index(folder) as index:
        text = index.model.embed_sentences([QUERY])
        hits = index.search(Query(texts=text), 1000).hits
        part = index
        regions = {hit.image.image: part.regions(hit.image.number) for hit in hits}
        return {
            "model": index.model.fingerprint,
            "scores": {hit.image.image: round(hit.score, 5) for hit in hits},
            "regions": {name: value.numpy().tobytes() for name, value in regions.items()},
            "labels": {h.image.image: {k: round(v, 5) for k, v in h.labels.items()} for h in hits},
            "metadata": {hit.image.image: dict(hit.image.metadata) for hit in hits},
            "sentences": {s.sentence: s.studies for s in index.search_sentences(9, text=text[0])},
        }


def at_another_place(index: Path, data_folder: Path, to: Path) -> Path:
    """A copy of the data folder that the index has its images from."""
    with writing(index) as catalogue, catalogue.transaction(write=True) as database:
        database.execute("UPDATE roots SET path = ?", (str(to),))
    return Path(shutil.copytree(data_folder, to))


def check_whole(folder: Path) -> None:
    assert wrong(folder) == []
    assert not (folder / "next").exists()


def test_it_is_as_if_the_new_model_had_built_it(
    index_copy: Path, new_checkpoint: Path, fresh: dict[str, Any], model: ImageTextModel
) -> None:
    counts: list[tuple[int, int]] = []
    with open_index(index_copy, model) as old:
        query = Query(texts=model.embed_sentences([QUERY]))
        before = old.search(query, 48).hits
        summary = reembed(index_copy, new_checkpoint, progress=lambda *done: counts.append(done))
        assert (summary.images, summary.rejected) == (48, None)
        assert counts[-1] == (48, 48)
        assert old.renewed() is None
        after = old.search(query, 48).hits  # the open index answers as before
        assert [(h.image, h.score) for h in after] == [(h.image, h.score) for h in before]
        assert all(not hit.labels for hit in after)  # they are the new model's
        assert len(old.search(query, 48, where="age > 60").hits) < 48
        with pytest.raises(HeldError, match="was given another model"):
            old.search(query, 48, where="label.Pneumothorax > 0.5")
    assert said_by(index_copy) == fresh
    check_whole(index_copy)
    assert len(before) == 48
    assert len(list(index_copy.glob("*.vectors"))) == 5


def test_what_would_change_it_meanwhile_is_held_off_and_searches_go_on(
    index_copy: Path, new_checkpoint: Path
) -> None:
    before = said_by(index_copy)

    def change(*_: int) -> None:
        with pytest.raises(DataError, match="another process is writing this index"):
            delete(index_copy, ["s01"])
        assert said_by(index_copy) == before

    assert reembed(index_copy, new_checkpoint, progress=change).images == 48


@pytest.mark.parametrize("labels", ["other labels", ""])
def test_what_changed_since_a_run_was_stopped_is_followed(
    index_copy: Path,
    data_folder: Path,
    new_checkpoint: Path,
    model: ImageTextModel,
    tmp_path: Path,
    labels: str,
) -> None:
    def stop(count: int, _: int) -> None:
        if count >= 20:
            raise KeyboardInterrupt

    more = tmp_path / "more"
    (more / "images").mkdir(parents=True)
    shutil.copy(data_folder / "images/s05.png", more / "images/added.png")
    (more / "manifest.csv").write_text(
        "image,study_id,patient_id,split,age\nimages/added.png,new,pn,test,33\n"
    )
    (more / "reports.csv").write_text("study_id,findings\nnew,A new sentence of a new study.\n")
    with pytest.raises(KeyboardInterrupt):
        reembed(index_copy, new_checkpoint, progress=stop)
    delete(index_copy, ["s01", "s40"])
    build_index(more / "manifest.csv", model.folder or Path(), index_copy)
    if labels:
        with open_index(index_copy, model) as index:
            keep_labels(index, {"Edema": CHEX5_PROMPTS["Edema"]})
    reembed(index_copy, new_checkpoint)
    check_whole(index_copy)
    found = said_by(index_copy)
    scores, kept = found["scores"], found["labels"]
    assert len(scores) == 47
    assert {"images/s01.png", "images/s40.png"}.isdisjoint(scores)
    assert scores["images/added.png"] == scores["images/s05.png"]
    assert ({tuple(of_image) for of_image in kept.values()} == {("Edema",)}) == bool(labels)
    assert "A new sentence of a new study." in str(found["sentences"])


def test_an_image_that_is_deleted_after_it_could_not_be_read_is_no_loss(
    index_copy: Path, data_folder: Path, new_checkpoint: Path, tmp_path: Path
) -> None:
    (at_another_place(index_copy, data_folder, tmp_path / "data") / "images/s40.png").unlink()
    with pytest.raises(DataError, match="1 images cannot be read"):
        reembed(index_copy, new_checkpoint)
    delete(index_copy, ["s40"])
    assert reembed(index_copy, new_checkpoint).images == 47
    check_whole(index_copy)


def test_a_loss_is_refused_unless_it_is_borne(
    index_copy: Path, data_folder: Path, new_checkpoint: Path, fresh: dict[str, Any], tmp_path: Path
) -> None:
    lost = at_another_place(index_copy, data_folder, tmp_path / "data") / "images/s09.png"
    lost.rename(tmp_path / "s09.png")
    before = said_by(index_copy)
    with pytest.raises(DataError, match=r"1 images cannot be read .*--max-rejected 1"):
        reembed(index_copy, new_checkpoint)
    assert said_by(index_copy) == before
    assert "s09.png" in (tmp_path / "index.rejected.csv").read_text()
    counts: list[int] = []
    (tmp_path / "s09.png").rename(lost)
    reembed(index_copy, new_checkpoint, progress=lambda done, _: counts.append(done))
    assert counts[0] == 48  # only the one that was missing
    check_whole(index_copy)
    # Its vectors are the last, though its number is not: it is found by its number all the same.
    now = said_by(index_copy)
    for name, data in now["regions"].items():  # it was embedded in other company: other last bits
        other = np.frombuffer(fresh["regions"][name], np.float32)
        np.testing.assert_allclose(np.frombuffer(data, np.float32), other, atol=2e-3)
    assert now | {"regions": fresh["regions"]} == fresh
    with open_index(index_copy) as index:
        query = Query(texts=index.model.embed_sentences([QUERY]))
        hits = index.search(query, 48).hits
        (found,) = (hit.image for hit in hits if hit.image.image == "images/s09.png")
        others = index.search(query, 48, exclude_patients=[found.patient_id]).hits
        assert [hit.image.image for hit in others] == [
            hit.image.image for hit in hits if hit.image.patient_id != found.patient_id
        ]
    lost.unlink()
    with pytest.raises(DataError, match="1 images cannot be read"):
        reembed(index_copy, other_model(new_checkpoint, tmp_path / "third", seed=2))
    summary = reembed(index_copy, tmp_path / "third", max_rejected=1)
    assert summary.images == 47
    assert summary.rejected == tmp_path / "index.rejected.csv"
    check_whole(index_copy)


def _killed(work: Callable[[], object], calls: int) -> bool:
    """Whether work in a fork was killed at so many calls of functions, before it was done."""
    left = iter(range(calls))

    def kill_at_the_last(*_: object) -> None:
        if next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    def counted() -> None:
        sys.setprofile(kill_at_the_last)
        work()
        sys.setprofile(None)

    return os.WIFSIGNALED(os.waitpid(in_fork(counted), 0)[1])


def test_a_killed_rebuild_goes_on_and_the_index_answers(
    index_copy: Path, new_checkpoint: Path, fresh: dict[str, Any], tmp_path: Path
) -> None:
    whole, old, kills = 0, said_by(index_copy), 0

    def count(*_: object) -> None:
        nonlocal whole
        whole += 1

    shutil.copytree(index_copy, tmp_path / "counted")
    sys.setprofile(count)
    reembed(tmp_path / "counted", new_checkpoint)
    sys.setprofile(None)
    # A run that goes on from a kill has less to do; the first ones cannot reach their end.
    while _killed(lambda: reembed(index_copy, new_checkpoint), int(whole * (0.15 + 0.12 * kills))):
        kills += 1
        assert said_by(index_copy) in (old, fresh)
    assert kills >= 3
    assert said_by(index_copy) == fresh
    check_whole(index_copy)


def test_a_damaged_upload_is_a_loss_and_no_other_picture(
    index_copy: Path, new_checkpoint: Path, upload: Upload, tmp_path: Path
) -> None:
    upload(index_copy, tmp_path / "uploads", 1)
    (path,) = (tmp_path / "uploads").iterdir()
    path.write_bytes(path.read_bytes() + b"x")  # which a decoder does not mind
    with pytest.raises(DataError, match="1 images cannot be read"):
        reembed(index_copy, new_checkpoint)
    assert "put it back from a backup" in (tmp_path / "index.rejected.csv").read_text()


def test_a_link_where_the_new_index_would_grow_is_not_followed(
    data_folder: Path, checkpoint: Path, new_checkpoint: Path, tmp_path: Path
) -> None:
    build_index(data_folder / "manifest.csv", checkpoint, tmp_path / "index")
    (tmp_path / "other").mkdir()
    (tmp_path / "index/next").symlink_to("../other")
    with pytest.raises(DataError, match="next: is a link"):
        reembed(tmp_path / "index", new_checkpoint)
    assert not list((tmp_path / "other").iterdir())
