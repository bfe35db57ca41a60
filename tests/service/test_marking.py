"""Marks and the archive: forgotten with their patient, backed up, and the next film to mark."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from cxrtext.errors import InputError
from cxrtext.index import keep_labels, label_archive, open_index
from cxrtext.index.backup import back_up, restore
from cxrtext.models import ImageTextModel
from cxrtext.records.marks import Mark, add_mark, marks_beside, read_marks
from cxrtext.service import Service
from cxrtext.service.forget.forget import forget
from cxrtext.service.marking import mark_of, next_film, spread, threshold_of


@pytest.fixture
def marked(model: ImageTextModel, index_copy: Path) -> Service:
    """A service with its own index, in which two images of two patients were marked."""
    service = Service(model, open_index(index_copy, model))
    keep_labels(service.archive, service.prompts)
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


def test_each_film_comes_once_the_least_certain_first(marked: Service) -> None:
    far = {
        one.image.image: abs(one.probabilities["Edema"] - threshold_of(marked, "Edema"))
        for one in label_archive(marked.archive, marked.prompts)
    }
    seen: list[str] = []
    while (found := next_film(marked, "Edema", seen)) is not None:
        seen.append(found.image)
    assert sorted(seen) == sorted(far)
    assert far[seen[0]] == pytest.approx(min(far.values()), abs=1e-6)
    with pytest.raises(InputError, match="Edema"):
        next_film(marked, "Effusions", seen)


def test_the_farthest_of_the_nearest_is_chosen() -> None:
    known = [np.array([1.0, 0.0], dtype=np.float32)]
    some = [np.array(v, dtype=np.float32) for v in ([0.9, 0.1], [0.0, 1.0], [0.5, 0.5])]
    assert spread(some, known) == 1
    assert spread(some, []) == 0
