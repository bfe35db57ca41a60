"""Marks: forgotten with their patient, backed up, and made into labels and boxes."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cxrtext.index import open_index
from cxrtext.index.backup import back_up, restore
from cxrtext.models import ImageTextModel
from cxrtext.records.boxes import Box, iter_boxes
from cxrtext.records.labels import read_labels
from cxrtext.records.marks import Mark, add_mark, marks_beside, read_marks
from cxrtext.records.tables import write_table
from cxrtext.service import Service
from cxrtext.service.forget.forget import forget
from cxrtext.service.marking import box_rows, label_rows, mark_of


@pytest.fixture
def marked(model: ImageTextModel, index_copy: Path) -> Service:
    """A service with its own index, in which two images of two patients were marked."""
    service = Service(model, open_index(index_copy, model))
    for name in ("images/s01.png", "images/s25.png"):
        mark = mark_of(service, "ward", name, "finding", "wrong", text="Edema", said=True)
        add_mark(marks_beside(index_copy), mark)
    return service


def marks(folder: Path) -> list[Mark]:
    return read_marks(marks_beside(folder))


def test_marks_go_with_their_patient_alone(marked: Service, index_copy: Path) -> None:
    gone, kept = marks(index_copy)
    assert gone.model == marked.model.fingerprint
    done = forget([index_copy.parent], patient=gone.patient_id)
    assert ("marks of readers", 1, True) in [(p.what, p.entries, p.done) for p in done.places]
    assert marks(index_copy) == [kept]
    name = gone.patient_id.encode()
    assert name not in marks_beside(index_copy).read_bytes()


def test_marks_are_backed_up_and_survive_the_index(
    marked: Service, index_copy: Path, tmp_path: Path
) -> None:
    made = back_up(index_copy, tmp_path / "backup", model=False)
    before = marks(index_copy)
    shutil.rmtree(index_copy)
    assert marks(index_copy) == before
    assert made.marks
    restore(tmp_path / "backup", tmp_path / "restored")
    assert marks(tmp_path / "restored/index") == before


MARK = Mark("w", "t", "m", "i", "s", "p", "sentence", "No pneumothorax.", True, "right")


@pytest.mark.parametrize(
    ("change", "value"),
    [({}, {"Pneumothorax": 0}), ({"verdict": "wrong"}, {"Pneumothorax": 1}),
     ({"text": "Left pneumothorax."}, {"Pneumothorax": 1}),
     ({"text": "Left pneumothorax.", "verdict": "wrong"}, {}), ({"verdict": "unclear"}, {}),
     ({"kind": "box", "box": (0, 0, 1, 1)}, {}),
     ({"kind": "finding", "text": "Edema", "said": False, "verdict": "wrong"}, {"Edema": 1}),
     ({"kind": "finding", "text": "Fracture"}, {})],
)  # fmt: skip
def test_what_a_mark_says_of_findings(change: dict[str, Any], value: dict[str, int]) -> None:
    rows = label_rows([replace(MARK, **change)], ["Pneumothorax", "Edema"])
    found = {name: int(cell) for row in rows for name, cell in row.items() if cell and cell != "s"}
    assert found == value


def test_marks_become_labels_and_boxes(tmp_path: Path) -> None:
    other = replace(MARK, who="night", verdict="wrong")
    edema = replace(MARK, kind="finding", text="Edema", study_id="r", image="j")
    box = replace(MARK, kind="box", text="nodule", box=(1.0, 2.5, 3.0, 4.0))
    some = [MARK, other, edema, box, replace(box, verdict="wrong", text="mass")]
    findings = ["Edema", "Pneumothorax"]
    write_table(tmp_path / "l.csv", ["study_id", *findings], label_rows(some, findings))
    assert read_labels(tmp_path / "l.csv", tuple(findings)) == {
        "r": {"Edema": 1, "Pneumothorax": None}, "s": {"Edema": None, "Pneumothorax": -1},
    }  # fmt: skip
    write_table(tmp_path / "b.csv", ["image", "label_text", *"xywh"], box_rows(some))
    (found,) = iter_boxes(tmp_path / "b.csv")
    assert isinstance(found, Box)
    assert (found.image, found.label_text, found.bbox) == ("i", "nodule", (1.0, 2.5, 3.0, 4.0))
