"""Marks: forgotten with their patient, and backed up."""

import shutil
from pathlib import Path

import pytest

from cxrtext.index import open_index
from cxrtext.index.backup import back_up, restore
from cxrtext.models import ImageTextModel
from cxrtext.records.marks import Mark, add_mark, marks_beside, page_of_marks
from cxrtext.service import Service
from cxrtext.service.forget.forget import forget
from cxrtext.service.marking import mark_of


@pytest.fixture
def marked(model: ImageTextModel, index_copy: Path) -> Service:
    """A service with its own index, in which two images of two patients were marked."""
    service = Service(model, open_index(index_copy, model))
    for name in ("images/s01.png", "images/s25.png"):
        mark = mark_of(service, "ward", name, "finding", "wrong", text="Edema", said=True)
        add_mark(marks_beside(index_copy), mark)
    return service


def marks(folder: Path) -> list[Mark]:
    return page_of_marks(marks_beside(folder))[0]


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
