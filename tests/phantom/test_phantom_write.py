import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pydicom
import pytest
from PIL import Image

from cxrtext.errors import DataError
from cxrtext.images import read_image
from cxrtext.phantom import write_phantoms
from cxrtext.phantom.render import draw
from cxrtext.phantom.tables import TABLES
from cxrtext.records import CHEX5, read_labels, read_manifest, read_reports, read_table
from tests.waiting import PATIENCE_S

COUNT = 36
SET: dict[str, Any] = {"studies": COUNT, "size": 64, "seed": 3}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("phantoms") / "set"
    write_phantoms(out, **SET, workers=1)
    return out


def digest(folder: Path) -> dict[str, bytes]:
    names = [*TABLES, *(f"images/{path.name}" for path in (folder / "images").iterdir())]
    return {name: (folder / name).read_bytes() for name in names}


def test_two_processes_give_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    two = tmp_path / "two"
    write_phantoms(two, **SET, workers=2, progress=lambda *told: seen.append(told))
    assert digest(two) == digest(folder)
    assert seen[0] == (0, COUNT)
    assert seen[-1] == (COUNT, COUNT)
    assert seen == sorted(seen)


def test_tables_read_back(folder: Path) -> None:
    records = read_manifest(folder / "manifest.csv")
    assert len(records) == COUNT
    for record in records:
        assert record.path.is_file()
        assert record.metadata["view"] in ("AP", "PA")
        assert record.metadata["sex"] in ("F", "M")
        assert 18 <= int(record.metadata["age"]) <= 92
        with Image.open(record.path) as image:
            assert (image.size, image.mode) == ((64, 64), "L")
    assert {record.split for record in records} == {"train", "val", "test"}
    studies = read_reports(folder / "reports.csv")
    assert [study.study_id for study in studies] == [record.study_id for record in records]
    labels = read_labels(folder / "labels.csv")
    assert {value for row in labels.values() for value in row.values()} == {0, 1}
    assert list(labels) == [record.study_id for record in records]


def test_truth_counts_the_sentences_of_each_section(folder: Path) -> None:
    truth = read_table(folder / "truth.csv").rows
    for study in read_reports(folder / "reports.csv"):
        for section in ("findings", "impression"):
            place = study.study_id, section
            rows = [row for row in truth if (row["study_id"], row["section"]) == place]
            assert [int(row["position"]) for row in rows] == list(range(len(rows)))
            assert " ".join(row["sentence"] for row in rows) == study.sections[section]
    rho_of: dict[str, set[str]] = {}
    for row in truth:
        assert 0.0 < float(row["rho"]) < 1.0
        rho_of.setdefault(row["class"], set()).add(row["rho"])
    assert all(len(values) == 1 for values in rho_of.values())


def test_boxes_have_their_sentence_and_lie_in_the_image(folder: Path) -> None:
    boxes = json.loads((folder / "boxes.json").read_text())
    texts = {study.study_id: study.sections for study in read_reports(folder / "reports.csv")}
    study_of = {r.name: r.study_id for r in read_manifest(folder / "manifest.csv")}
    labels = read_labels(folder / "labels.csv")
    names = {image["id"]: image["file_name"] for image in boxes["images"]}
    kinds = {category["id"]: category["name"] for category in boxes["categories"]}
    boxed = set()
    for box in boxes["annotations"]:
        study_id = study_of[names[box["image_id"]]]
        sections = texts[study_id]
        assert box["label_text"] in sections["findings"] + " " + sections["impression"]
        kind = kinds[box["category_id"]]
        if kind in CHEX5:
            assert labels[study_id][kind] == 1
            boxed.add((study_id, kind))
        x, y, w, h = box["bbox"]
        assert min(x, y) >= 0
        assert min(w, h) >= 1
        assert max(x + w, y + h) <= 64
    present = {(s, name) for s, row in labels.items() for name in CHEX5 if row[name]}
    assert boxed == present


def test_second_run_draws_only_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "set"
    write_phantoms(out, studies=12, size=64, seed=1, workers=1)
    before = digest(out)
    (out / "images" / "s000005.png").unlink()
    (out / "truth.csv").unlink()
    log = out / "phantom.boxes.jsonl"
    lines = log.read_text().splitlines()
    # The process was killed in the middle of noting the last image.
    log.write_text("\n".join(lines[:-1]) + "\n" + lines[-1][:20])
    drawing = Mock(wraps=draw)
    monkeypatch.setattr("cxrtext.phantom.write.draw", drawing)
    for _ in range(2):
        write_phantoms(out, studies=12, size=64, seed=1, workers=1)
        assert [call.args[0].study_key[-1] for call in drawing.call_args_list] == [4, 11]
        assert digest(out) == before


def test_an_interrupt_leaves_a_set_that_goes_on(tmp_path: Path) -> None:
    seen: list[int] = []

    def stop(done: int, _total: int) -> None:
        if done >= 4:
            raise KeyboardInterrupt

    out = tmp_path / "set"
    with pytest.raises(KeyboardInterrupt):
        write_phantoms(out, studies=12, size=64, workers=1, progress=stop)
    assert len(list((out / "images").iterdir())) == 4
    assert not (out / "manifest.csv").exists()
    write_phantoms(out, studies=12, size=64, workers=1, progress=lambda done, _: seen.append(done))
    assert seen == [*range(4, 13)]
    assert len(read_manifest(out / "manifest.csv")) == 12


DRAW = """
import sys
from pathlib import Path
from cxrtext.phantom import write_phantoms
def told(done, total):
    print(done, flush=True)
if __name__ == "__main__":
    write_phantoms(Path(sys.argv[1]), studies=4000, size=64, workers=2, progress=told)
"""


@contextmanager
def drawing(folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """A process, in a group of its own, that draws with two more, and says how many it has."""
    script = folder / "draw.py"
    script.write_text(DRAW)
    with subprocess.Popen(
        [sys.executable, script, folder / "set"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Started from a background job, as by a CI, it would inherit that SIGINT is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stdout is not None
        while process.stdout.readline().strip() in ("", "0"):
            assert process.poll() is None
        yield process


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT to a process group")
def test_ctrl_c_stops_all_processes(tmp_path: Path) -> None:
    with drawing(tmp_path) as process:
        for _ in range(2):
            os.killpg(process.pid, signal.SIGINT)
            time.sleep(0.1)
        # The pipes close only when the last of the processes, which share them, has ended.
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode != 0
    assert errors.rstrip().rstrip(":").endswith("KeyboardInterrupt")


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_the_processes_of_one_that_was_killed_end(tmp_path: Path) -> None:
    with drawing(tmp_path) as process:
        process.kill()
        process.communicate(timeout=PATIENCE_S)  # as above


@pytest.mark.parametrize("changed", [{"seed": 4}, {"size": 65}, {"studies": 35}])
def test_other_parameters_are_refused(folder: Path, changed: dict[str, float]) -> None:
    with pytest.raises(DataError, match="other parameters"):
        write_phantoms(folder, **SET | changed)


def test_a_foreign_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "manifest.csv").write_text("mine")
    with pytest.raises(DataError, match="not empty"):
        write_phantoms(tmp_path, studies=1)
    assert (tmp_path / "manifest.csv").read_text() == "mine"
    with pytest.raises(DataError, match="is a file"):
        write_phantoms(tmp_path / "manifest.csv", studies=1)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"studies": 0}, "studies is 0"),
        ({"size": 63}, "size is 63"),
        ({"seed": -1}, "seed is -1"),
        ({"image_format": "tiff"}, "'tiff'"),
    ],
)
def test_wrong_parameters(tmp_path: Path, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        write_phantoms(tmp_path / "set", **{"studies": 2, **wrong})
    assert not (tmp_path / "set").exists()


@pytest.mark.parametrize(("count", "splits"), [(1, 1), (10, 3)])
def test_small_sets(tmp_path: Path, count: int, splits: int) -> None:
    summary = write_phantoms(tmp_path / "set", studies=count, size=64, workers=1)
    assert summary.studies == count
    assert len(summary.splits) == splits


def test_dicom_shows_the_same_picture(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "dicom"
    write_phantoms(out, **SET, image_format="dicom", workers=1)
    uids = set()
    pngs, records = (read_manifest(each / "manifest.csv") for each in (folder, out))
    for record, png in zip(records, pngs, strict=True):
        file = pydicom.dcmread(record.path)
        uids.add(file.SOPInstanceUID)
        assert str(file.PatientName) == f"PHANTOM^{int(record.patient_id[1:]):04d}"
        assert (file.PatientSex, file.ViewPosition) == (
            record.metadata["sex"],
            record.metadata["view"],
        )
        assert file.PatientAge == f"{int(record.metadata['age']):03d}Y"
        assert file.Modality in ("CR", "DX")
        assert pydicom.uid.UID(file.StudyInstanceUID).is_valid
        shown = read_image(record.path)[0] * 255.0
        with Image.open(png.path) as image:
            assert shown == pytest.approx(np.asarray(image, float), abs=0.7)
    assert len(uids) == COUNT
    for name in ("reports.csv", "labels.csv", "truth.csv"):
        assert (out / name).read_bytes() == (folder / name).read_bytes()
