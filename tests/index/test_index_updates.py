"""Adding, replacing, deleting, compacting, rebuilding, moving; and searching meanwhile."""

import os
import shutil
import tempfile
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from PIL import Image

from cxrtext.errors import DataError, NotFoundError, WorkError
from cxrtext.evaluation import Prompts
from cxrtext.index import (
    Archive,
    Query,
    build_index,
    delete,
    keep_labels,
    label_archive,
    open_index,
    rewrite,
)
from cxrtext.index.changes import NewReports, add_reports
from cxrtext.index.maintain import traces
from cxrtext.index.store.catalogue import Catalogue
from cxrtext.index.store.writer import writing
from cxrtext.models import ImageTextModel, load_model
from cxrtext.pausing import finish
from tests.index.conftest import MakeArchive, first_said, in_fork, wrong
from tests.service.conftest import calibration_of

EFFUSION = {"Effusion": Prompts(("Left pleural effusion.",), ("The lungs are clear.",))}


def test_a_deleted_study_is_found_no_more(small: Path, model: ImageTextModel) -> None:
    with pytest.raises(DataError, match="holds no study 'nobody'; nothing was deleted"):
        delete(small, ["s3", "nobody"])
    with open_index(small, model) as index:
        query = first_said(index)
        before = index.search(query, 1000).hits
        assert len(before) == index.images == 120
        assert delete(small, ["s3", "s4"]) == 4
        after = index.search(query, 1000).hits  # though the open index has not changed
        assert index.images == 120
        assert after == [hit for hit in before if hit.image.study_id not in ("s3", "s4")]
        now = index.renewed()
        assert now is not None
        assert now.images == 116
        assert now.renewed() is now
        assert len(now.search(query, 1000, mode="fast").hits) == 116
        assert index.catalogue.report("s3") == []
    assert wrong(small) == []


def test_a_file_that_is_no_upload_is_not_removed(small: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with writing(small) as catalogue, catalogue.transaction(write=True) as database:
        database.execute("INSERT INTO roots (path) VALUES (?)", (str(tmp_path),))
        database.execute(
            "INSERT INTO leftovers SELECT root, 'thesis.txt' FROM roots WHERE path = ?",
            (str(tmp_path),),
        )
    delete(small, ["s3"])
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_a_sentence_that_nobody_says_any_more_is_gone(small: Path, model: ImageTextModel) -> None:
    delete(small, [f"s{i}" for i in range(50)])
    with open_index(small, model) as index:
        assert (index.images, index.sentences) == (20, 0)
        with pytest.raises(NotFoundError, match="holds no sentences"):
            index.search_sentences(5, text=torch.ones(16))
    assert b"Left pleural effusion." not in (small / "catalogue.sqlite").read_bytes()


def test_a_replaced_report_leaves_neither_its_sentence_nor_its_vector(
    small: Path, model: ImageTextModel
) -> None:
    said, vector = "A planted azygos lobe.", np.ones((1, 16), np.float32)
    with writing(small) as catalogue:
        add_reports(small, catalogue, NewReports([said], vector, [("s59", "findings", 0, said)]))
        assert said in catalogue.known_sentences()
        add_reports(small, catalogue, NewReports([], vector[:0], [], silent=["s59"]))
        assert said not in catalogue.known_sentences()
        assert traces(small, catalogue) == 1  # its vector, until the index is written anew
    rewrite(small, model, rebuild=False)
    with Catalogue(small / "catalogue.sqlite") as catalogue:
        assert traces(small, catalogue) == 0


@pytest.mark.parametrize("rebuild", [False, True])
def test_compacting_keeps_every_answer(small: Path, model: ImageTextModel, rebuild: bool) -> None:
    delete(small, ["s0", "s7", "s59"])
    with open_index(small, model) as index:
        query = first_said(index)
        before = index.search(query, 1000).hits
        regions = index.regions(before[0].image.number)
        summary = rewrite(small, model, rebuild=rebuild)
        assert summary.images == 114
        now = index.renewed()
        assert now is not None
        assert index.search(query, 1000).hits == before
        after = now.search(query, 1000).hits
        assert [h.image for h in after] == [h.image for h in before]
        assert [h.score for h in after] == pytest.approx([h.score for h in before], abs=1e-6)
        assert torch.equal(now.regions(after[0].image.number), regions)
        assert len(now.snapshot.numbers) == 114
    assert wrong(small) == []
    assert {p.name.split(".")[1] for p in small.glob("*.vectors")} == {"000002"}


def test_a_search_under_way_outlives_a_compaction(small: Path, model: ImageTextModel) -> None:
    with open_index(small, model) as index:
        work = index.search_pausing(first_said(index), 1000)
        for _ in range(3):
            next(work)
        delete(small, ["s0"])
        rewrite(small, model, rebuild=False)
        found = [hit.image.study_id for hit in finish(work).hits]
        assert len(found) == 118
        assert "s0" not in found


def test_numbers_are_not_used_again(
    small: Path, model: ImageTextModel, make_archive: MakeArchive
) -> None:
    delete(small, ["s59"])  # the last two
    make_archive(small, 4, prefix="new", seed=9)
    with open_index(small, model) as index:
        assert index.find("new0.png").number == 120


def test_images_that_the_structure_does_not_know_are_found(
    small: Path, model: ImageTextModel, make_archive: MakeArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cxrtext.index.features.candidates.EXACT_BYTES", 0)
    rewrite(small, model, rebuild=False)
    make_archive(small, 8, prefix="new", seed=9)
    with open_index(small, model) as index:
        structure = index.snapshot.structure
        assert structure is not None
        assert structure.places == 120
        found = index.search(first_said(index), 1000, mode="fast").hits
        assert {f"new{i}.png" for i in range(8)} <= {hit.image.image for hit in found}


def test_an_emptied_index_is_filled_again(
    small: Path, model: ImageTextModel, make_archive: MakeArchive
) -> None:
    delete(small, [f"s{i}" for i in range(60)])
    for rebuild in (None, False, True):
        if rebuild is not None:
            rewrite(small, model, rebuild=rebuild)
        with open_index(small, model) as index:
            assert index.images == 0
            query = Query(texts=model.embed_sentences(["Effusion."]))
            assert index.search(query, 5).hits == []
            assert index.search(query, 5, mode="fast").hits == []
    make_archive(small, 30)
    assert wrong(small) == []
    with open_index(small, model) as index:
        query = first_said(index)
        assert len(index.search(query, 50, mode="fast").hits) == 30


def test_damaged_derived_files_are_mended_by_a_rebuild_and_regions_are_not_built_upon(
    small: Path, model: ImageTextModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cxrtext.index.features.candidates.EXACT_BYTES", 0)
    rewrite(small, model, rebuild=False)
    for ending in ("sketch.*.vectors", "profiles.*.faiss"):
        (path,) = small.glob(ending)
        path.write_bytes(b"\1" * path.stat().st_size)
    assert len(wrong(small)) >= 2
    rewrite(small, model, rebuild=True)
    assert wrong(small) == []
    with open_index(small, model) as index:
        assert index.images == 120
    (path,) = small.glob("regions.*.vectors")
    path.write_bytes(b"\1" * path.stat().st_size)
    with pytest.raises(Exception, match="regions.*damaged; these cannot be derived"):
        rewrite(small, model, rebuild=True)


def test_a_replaced_image_has_its_new_vectors(
    index_copy: Path, data_copy: Path, checkpoint: Path
) -> None:
    pixels = np.arange(6400, dtype=np.uint8).reshape(80, 80)
    Image.fromarray(pixels).save(data_copy / "images/s01.png")
    (data_copy / "one.csv").write_text("image,study_id,age\nimages/s01.png,s01,99\n")
    with open_index(index_copy) as index:
        before = index.find("images/s01.png")
        old = index.regions(before.number)
        summary = build_index(data_copy / "one.csv", checkpoint, index_copy, replace=True)
        assert (summary.images, summary.added, summary.replaced) == (48, 0, 1)
        after = index.find("images/s01.png")
        assert after.metadata["age"] == "99"
        now = index.renewed()
        assert now is not None
        assert not torch.equal(now.regions(after.number), old)
        with pytest.raises(DataError, match="no image number"):
            now.regions(before.number)
        assert now.images == 48


def test_changed_metadata_and_reports_are_taken_over(
    index_copy: Path, data_copy: Path, checkpoint: Path
) -> None:
    manifest = data_copy / "manifest.csv"
    manifest.write_text("image,study_id,patient_id,weight\nimages/s01.png,s01,q,70.5\n")
    (data_copy / "reports.csv").write_text("study_id,report\ns01,A new sentence.\n")
    build_index(manifest, checkpoint, index_copy)
    with open_index(index_copy) as index:
        query = first_said(index)
        (hit,) = index.search(query, 10, where="weight = 70.5").hits
        assert (hit.image.image, hit.image.patient_id) == ("images/s01.png", "q")
        assert index.search(query, 10, where="image = 'images/s01.png' and age > 0").hits == []
        assert index.catalogue.report("s01") == [("report", "A new sentence.")]


def test_an_archive_is_labeled_without_its_images(index_copy: Path) -> None:
    with open_index(index_copy) as index:
        labeled = list(label_archive(index, EFFUSION))
        assert len(labeled) == 48
        effusions = [x.scores["Effusion"] for x in labeled if int(x.image.study_id[1:]) % 3 == 1]
        others = [x.scores["Effusion"] for x in labeled if int(x.image.study_id[1:]) % 3 != 1]
        assert np.mean(effusions) > np.mean(others)
        keep_labels(index, EFFUSION)
        query = first_said(index)
        limit = sorted(x.probabilities["Effusion"] for x in labeled)[-5]
        found = index.search(query, 48, where=f"label.effusion >= {limit!r}").hits
        assert len(found) == sum(x.probabilities["Effusion"] >= limit for x in labeled)
        assert all(set(hit.labels) == {"Effusion"} for hit in found)
        assert all(hit.labels["Effusion"] >= limit for hit in found)


def test_kept_labels_are_calibrated_all_alike(
    index_copy: Path, checkpoint: Path, data_folder: Path, tmp_path: Path
) -> None:
    """A calibration made later changes no label, and none added to it, until labels are kept."""
    own = Path(shutil.copytree(checkpoint, tmp_path / "checkpoint"))
    with open_index(index_copy, load_model(own)) as index:
        keep_labels(index, EFFUSION)
        plain = kept_labels(index)
        fitted = calibration_of(index.model.fingerprint, EFFUSION, scale=3.0, shift=-0.5)
        fitted.save(own)
        delete(index_copy, [next(iter(label_archive(index, EFFUSION))).image.study_id])
    build_index(data_folder / "manifest.csv", own, index_copy)
    with open_index(index_copy, load_model(own)) as index:
        assert kept_labels(index) == pytest.approx(plain, abs=1e-5)
        labeled = {x.image.image: x for x in label_archive(index, EFFUSION)}
        found = {name: one.probabilities["Effusion"] for name, one in labeled.items()}
        logits = {name: 3 * one.scores["Effusion"] - 0.5 for name, one in labeled.items()}
        expected = {name: 1 / (1 + np.exp(-logit)) for name, logit in logits.items()}
        assert found == pytest.approx(expected, abs=1e-6)
        keep_labels(index, EFFUSION)
        now = kept_labels(index)
        assert now == pytest.approx(found, abs=1e-6)
        assert now != pytest.approx(plain, abs=1e-3)


def kept_labels(index: Archive) -> dict[str, float]:
    hits = index.search(first_said(index), 1000).hits
    return {hit.image.image: hit.labels["Effusion"] for hit in hits}


def test_two_writers_queue_or_are_refused(small: Path, data_folder: Path, checkpoint: Path) -> None:
    with writing(small):
        with pytest.raises(DataError, match="another process"):
            build_index(data_folder / "manifest.csv", checkpoint, small)
        with pytest.raises(DataError, match="another process is writing.*when it has ended"):
            delete(small, ["s0"])
        with pytest.raises(DataError, match="another process"):
            delete(small, ["s0"], wait_s=0.3)
    assert delete(small, ["s0"], wait_s=0.3) == 2


def test_a_full_disk_loses_nothing(
    small: Path, model: ImageTextModel, make_archive: MakeArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = Mock(side_effect=OSError(28, "No space left on device", str(small / "regions")))
    with monkeypatch.context() as patch:
        patch.setattr("cxrtext.index.store.vectors.os.fsync", full)
        with pytest.raises(WorkError, match="No space left on device; the index holds what was"):
            make_archive(small, 8, prefix="new")
    assert wrong(small) == []
    make_archive(small, 8, prefix="new")
    with open_index(small, model) as index:
        assert index.images == 128


def test_a_read_only_index_is_searched(small: Path, model: ImageTextModel) -> None:
    with tempfile.TemporaryDirectory() as base:
        folder = Path(shutil.copytree(small, Path(base) / "index"))
        for path in [*folder.iterdir(), folder, Path(base)]:
            path.chmod(0o555 if path.is_dir() else 0o444)

        def as_nobody() -> None:
            if os.getuid() == 0:
                os.setuid(65534)
            with open_index(folder, model) as index:
                assert len(index.search(first_said(index), 5).hits) == 5
            with pytest.raises(WorkError):
                delete(folder, ["s0"])

        assert os.waitpid(in_fork(as_nobody), 0)[1] == 0
        folder.chmod(0o755)
        Path(base).chmod(0o755)
