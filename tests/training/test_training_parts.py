from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from cxrtext.config import load_config
from cxrtext.models import load_model
from cxrtext.training.data.loader import Examples, batch_rows
from cxrtext.training.initialization import center_projections
from cxrtext.training.loop.optimization import TrainingArguments
from cxrtext.training.objectives.shared.objective import as_objective
from cxrtext.training.validation import validate
from tests.training.conftest import examples_of


def test_an_epoch_shows_every_example_once() -> None:
    steps = [batch_rows(20, 6, seed=1, step=s) for s in range(6)]
    for epoch in (steps[:3], steps[3:]):
        assert len(set(np.concatenate(epoch).tolist())) == 18
    assert not np.array_equal(steps[0], steps[3])
    assert np.array_equal(steps[4], batch_rows(20, 6, seed=1, step=4))
    assert not np.array_equal(steps[0], batch_rows(20, 6, seed=2, step=0))


def examples(sentences: list[list[int]]) -> Examples:
    count = 1 + max(map(max, sentences))
    tokens = [[2, 10 + i, 3] + [7] * i for i in range(count)]
    return examples_of(tokens, sentences, eta=np.linspace(0.05, 0.2, count, dtype=np.float32))


def test_a_batch_holds_several_sentences_of_each_image() -> None:
    batch = examples([[0, 1, 2], [3], [4, 5]]).batch(
        np.array([2, 0, 1]), np.random.default_rng(0), sentences=2
    )
    assert batch.pairs.image_of.tolist() == [0, 1, 2, 0, 1]
    ids = [row[row != 0].tolist() for group in batch.tokens for row in group.input_ids]
    assert [len(row) for row in ids] == sorted(len(row) for row in ids)
    said = [ids[i][1] - 10 for i in batch.text_of.tolist()]
    assert sorted([said[0], said[3]]) == [4, 5]
    assert {said[1], said[4]} < {0, 1, 2}
    assert said[2] == 3
    for group in batch.tokens:
        assert torch.equal(group.attention_mask.bool(), group.input_ids != 0)
    assert batch.pairs.eta.tolist() == pytest.approx([0.05 + 0.03 * i for i in said])


def test_equal_sentences_of_a_batch_are_embedded_once() -> None:
    made = examples([[0], [1], [2]])
    same = replace(made, tokens=[[2, 9, 3], [2, 8, 3, 4], [2, 9, 3]])
    batch = same.batch(np.arange(3), np.random.default_rng(0))
    assert sum(len(group.input_ids) for group in batch.tokens) == 2
    assert batch.text_of.tolist() == [0, 1, 0]


def test_projections_are_centered_and_nothing_else_changes(checkpoint: Path) -> None:
    model = load_model(checkpoint)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    made = replace(
        examples([[i] for i in range(8)]),
        pixels=np.random.default_rng(0).integers(0, 255, (8, 72, 72)).astype(np.uint8),
    )
    center_projections(model, made, seed=0)
    after = model.state_dict()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    tracked = {name for name in changed if name.endswith("num_batches_tracked")}
    assert changed - tracked == {"image_encoder.projection.bias", "text_encoder.projection.bias"}


def test_a_validation_takes_its_loss_from_whole_batches(
    checkpoint: Path, options: list[str]
) -> None:
    model = load_model(checkpoint)
    objective = as_objective(load_config(None, options).objective)
    pixels = np.random.default_rng(0).integers(0, 255, (11, 72, 72)).astype(np.uint8)
    made = replace(examples([[i] for i in range(11)]), pixels=pixels)
    eleven, eight, three = (
        validate(
            model,
            replace(made, rows=made.rows[:count], sentences=made.sentences[:count]),
            objective,
            TrainingArguments(steps=1, batch=4),
            None,
        )
        for count in (11, 8, 3)
    )
    for name in ("loss", "accuracy", "floored"):
        assert eleven[name] == pytest.approx(eight[name]), name
    assert three["loss"] > 0  # that of the one batch there is
