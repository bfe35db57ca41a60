from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file

from cxrtext.errors import CheckpointError
from cxrtext.models import ImageTextModel, load_model
from cxrtext.models.reference import (
    REFERENCE,
    Reference,
    choose_reference,
    load_reference,
    reference_of,
    save_reference,
)


def _regions(count: int, dimension: int = 16) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return F.normalize(torch.randn(count, 4, dimension, generator=generator), dim=-1)


def test_a_patient_gives_a_second_image_only_when_every_patient_gave_one() -> None:
    names = [f"{i}.png" for i in range(12)]
    patients = ["a"] * 6 + ["b"] * 3 + ["c"] * 2 + ["d"]
    first = choose_reference(names, patients, 4)
    assert sorted(patients[i] for i in first) == ["a", "b", "c", "d"]
    assert set(first) < set(choose_reference(names, patients, 7))
    assert sorted(patients[i] for i in choose_reference(names, patients, 7)) == list("aabbccd")
    assert choose_reference(names, patients) == list(range(12))


def test_the_choice_does_not_depend_on_the_order() -> None:
    names = [f"{i}.png" for i in range(50)]
    patients = [f"p{i // 3}" for i in range(50)]
    order = np.random.default_rng(0).permutation(50)
    chosen = {names[i] for i in choose_reference(names, patients, 20)}
    shuffled = choose_reference([names[i] for i in order], [patients[i] for i in order], 20)
    assert {names[order[i]] for i in shuffled} == chosen


def test_it_comes_back_as_it_was(tmp_path: Path, model: ImageTextModel) -> None:
    regions = _regions(5)
    reference = reference_of([regions[:3], regions[3:]])
    path = save_reference(tmp_path, reference, model.fingerprint)
    assert path == tmp_path / REFERENCE
    found = load_reference(tmp_path, model)
    assert found is not None
    assert (len(found), found.side, found.source) == (5, 2, "validation")
    torch.testing.assert_close(found.regions(0, 5), regions, atol=0.005, rtol=0)
    assert path.stat().st_size < 5 * 4 * 18 + 500
    assert path.read_bytes() == save_reference(tmp_path, found, model.fingerprint).read_bytes()


def test_training_keeps_the_validation_images(
    checkpoint: Path, run_folder: Path, model: ImageTextModel
) -> None:
    found = load_reference(checkpoint, model)
    assert found is not None
    assert len(found) == 8
    best = load_model(run_folder / "checkpoint-best")
    assert load_reference(run_folder / "checkpoint-best", best) is not None


def test_what_is_refused(tmp_path: Path, model: ImageTextModel) -> None:
    assert load_reference(tmp_path, model) is None
    save_file({"other": np.zeros(3)}, tmp_path / REFERENCE)
    with pytest.raises(CheckpointError, match="keep-reference"):
        load_reference(tmp_path, model)
    save_reference(tmp_path, reference_of([_regions(2)]), "0" * 64)
    with pytest.raises(CheckpointError, match=r"made by another model \(000000000000…"):
        load_reference(tmp_path, model)
    rows = reference_of([_regions(2)]).rows
    spoilt = rows.copy()
    spoilt[0, 0, -2:] = np.array([np.nan], dtype=np.float16).view(np.int8)
    for given, says in (
        (reference_of([_regions(2, 8)]).rows, "expected int8"),
        (rows[:, :3], "that no model gives"),
        (spoilt, "that no model gives"),
    ):
        save_reference(tmp_path, Reference(given, "validation"), model.fingerprint)
        with pytest.raises(CheckpointError, match=says):
            load_reference(tmp_path, model)
