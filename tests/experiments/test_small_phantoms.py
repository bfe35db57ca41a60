"""Drawn radiographs as small sets: what is known of them fits what is drawn."""

from pathlib import Path

import numpy as np
import pytest

from cxrtext.errors import DataError
from cxrtext.experiments.data.images import read_set, write_set
from cxrtext.experiments.data.phantoms import KINDS, SEVERAL, attributes, finding_kind, phantom_set
from cxrtext.phantom.state import State
from cxrtext.phantom.studies import draw_studies
from tests.experiments.conftest import STUDIES


def test_attributes_of_a_state() -> None:
    state = State(effusion=(0, 3), pneumonia=(1, ("right lower lobe", "lingula")))
    yes = {name for name, value in attributes(state).items() if value}
    assert yes == {
        "pleural effusion", "pleural effusion, left", "pleural effusion, at least moderate",
        "pleural effusion, severe", "pneumonia", "pneumonia, right", "pneumonia, lower",
        "pneumonia, lingula",
    }  # fmt: skip
    assert {name for name, value in attributes(State()).items() if value} == {"no finding"}
    assert list(attributes(State())) == list(attributes(state))
    kinds = (*KINDS, SEVERAL)
    assert kinds[finding_kind(state)] == SEVERAL
    assert kinds[finding_kind(State(cardiomegaly=2))] == "Cardiomegaly"
    assert kinds[finding_kind(State())] == "no finding"


@pytest.mark.parametrize(
    ("kind", "columns"), [("age-sex", 2), ("site", 1), ("attributes", len(attributes(State())))]
)
def test_a_set(drawn: Path, kind: str, columns: int, tmp_path: Path) -> None:
    held = phantom_set(drawn, STUDIES, 32, kind)
    assert len(held.train.images) + len(held.test.images) == STUDIES
    assert held.train.images.shape[1:] == (1, 32, 32)
    assert not set(held.train.units) & set(held.test.units)  # no patient in both
    assert held.metadata is not None
    assert held.metadata.shape == (len(held.train.images), columns)
    train = [study for study in draw_studies(STUDIES, 0) if study.split == "train"]
    edema = [study.patient.state.edema[0] > 0 for study in train]
    assert held.train.targets["findings"][:, 1].tolist() == edema
    if kind == "age-sex":
        ages = np.array([study.age for study in train])
        assert np.corrcoef(held.metadata[:, 0], ages)[0, 1] == pytest.approx(1)
        assert held.metadata[:, 0].std() == pytest.approx(1, abs=1e-5)
        assert held.metadata[:, 1].tolist() == [study.patient.sex == "F" for study in train]
    if kind == "site":
        assert held.metadata[:, 0].tolist() == held.train.targets["site"].tolist()
    write_set(tmp_path / "set.npz", held)
    back = read_set(tmp_path / "set.npz")
    assert (back.kinds, back.columns, back.names) == (held.kinds, held.columns, held.names)
    np.testing.assert_array_equal(back.train.images, held.train.images)
    np.testing.assert_array_equal(back.test.targets["site"], held.test.targets["site"])
    assert back.eta is None


def test_a_damaged_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "set.npz").write_bytes(b"PK\x03\x04")
    with pytest.raises(DataError, match=r"set.npz: not readable .* makes it again"):
        read_set(tmp_path / "set.npz")
    first = next(study for study in draw_studies(STUDIES, 0) if study.split == "train")
    picture = tmp_path / f"images/{first.study_id}.png"
    picture.parent.mkdir()
    picture.write_bytes(b"no picture")
    with pytest.raises(DataError, match=f"{picture.name}: not readable .Unidentified"):
        phantom_set(tmp_path, STUDIES, 64, "site")
