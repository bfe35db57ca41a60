"""Heads for named findings: against scikit-learn, by hand, and from a training to an answer."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

from cxrtext.config import load_config
from cxrtext.errors import CheckpointError
from cxrtext.evaluation import Prompts, Settings, evaluate
from cxrtext.evaluation.classification.heads import BetterHeads
from cxrtext.evaluation.how_good import how_good_of
from cxrtext.models import load_model
from cxrtext.models.heads import (
    HEADS,
    FindingHeads,
    HeadFigures,
    fit_ridge,
    fit_side,
    pooled,
    save_heads,
)
from cxrtext.service import Service
from cxrtext.service.answers import EmbeddedImage
from cxrtext.training import train
from tests.conftest import flip

ASKED = {"Edema": Prompts(("Edema.",), ("No edema.",)), "Mass": Prompts(("Mass.",), ("Clear.",))}


def heads_of(head: float = 0.8, prompts: float = 0.7, dimension: int = 16) -> FindingHeads:
    """A head of Edema that sums the first numbers of all ten cells, and adds 5."""
    weight = torch.zeros(1, 10 * dimension)
    weight[0, :10] = 1.0
    asked = {"Edema": {"positive": ["Edema."], "negative": ["No edema."]}}
    figures = {"Edema": HeadFigures(head, prompts, 30, 40)}
    return FindingHeads(weight, torch.tensor([5.0]), figures, asked)


def test_a_head_reads_nine_cells_and_the_mean() -> None:
    regions = torch.arange(36.0).view(1, 36, 1)  # a grid of 6 × 6 that counts through its cells
    found = pooled(regions)[0].tolist()
    assert found == [3.5, 5.5, 7.5, 15.5, 17.5, 19.5, 27.5, 29.5, 31.5, 17.5]


@pytest.mark.parametrize("width", [5, 40])  # fewer numbers than images, and more
def test_ridge_is_that_of_scikit_learn(width: int) -> None:
    draws = np.random.default_rng(0)
    x, y = draws.normal(2, 3, (30, width)), draws.integers(0, 2, (30, 2)).astype(np.int8)
    found = fit_ridge(torch.from_numpy(x), y, [0.5])[0].numpy()
    scaled = (x - x.mean(axis=0)) / x.std(axis=0, ddof=1)
    for column in range(2):
        plain = Ridge(alpha=0.5 * 30).fit(scaled, y[:, column])
        expected = plain.predict(scaled)
        np.testing.assert_allclose(x @ found[column, :-1] + found[column, -1], expected, rtol=1e-6)


def test_an_unknown_label_counts_as_the_mean() -> None:
    x = torch.tensor([[-1.0], [0.0], [0.0], [1.0]])
    labels = np.array([[0], [-1], [-1], [1]], dtype=np.int8)
    ((weight, bias),) = fit_ridge(x, labels, [0.0])[0].tolist()
    assert (weight, bias) == (pytest.approx(0.5), pytest.approx(0.5))


def test_a_better_head_answers_and_another_does_not() -> None:
    regions = torch.full((1, 9, 16), 0.25)
    scores = torch.tensor([[1.0], [2.0]])
    better = BetterHeads(heads_of(), ASKED)
    assert better.findings == ["Edema"]
    assert better.put(regions, scores).tolist() == [[7.5], [2.0]]
    assert scores.tolist() == [[1.0], [2.0]]
    assert not BetterHeads(heads_of(0.7, 0.7), ASKED).findings
    others = {"Edema": Prompts(("Pulmonary edema.",), ("No edema.",))}
    assert BetterHeads(heads_of(), others).put(regions, scores[:1]).tolist() == [[1.0]]


def test_heads_come_back_and_are_of_their_model(checkpoint_copy: Path) -> None:
    model = load_model(checkpoint_copy)
    assert model.heads is None
    dimension = model.spec.dimension
    own = replace(heads_of(dimension=dimension), side=torch.ones(3 * dimension))
    save_heads(checkpoint_copy, own, model.fingerprint)
    found = load_model(checkpoint_copy).heads
    assert found is not None
    assert torch.equal(found.weight, own.weight)
    assert found.side is not None
    assert torch.equal(found.side, torch.ones(3 * dimension))
    assert (found.figures, found.asked) == (own.figures, own.asked)
    flip(checkpoint_copy / HEADS, -3)
    with pytest.raises(CheckpointError, match="its digest differs"):
        load_model(checkpoint_copy)
    save_heads(checkpoint_copy, own, "another")
    with pytest.raises(CheckpointError, match="made by another model"):
        load_model(checkpoint_copy)


def test_a_mirrored_image_has_the_opposite_side() -> None:
    regions = torch.randn(2, 36, 4, generator=torch.Generator().manual_seed(0))
    mirrored = regions.unflatten(1, (6, 6)).flip(2).flatten(1, 2)
    side, figures = torch.randn(12, generator=torch.Generator().manual_seed(1)), (0.9, 20, 20)
    heads = replace(heads_of(dimension=4), side=side, side_figures=figures)
    own, other = heads.left(regions), heads.left(mirrored)
    assert own is not None
    assert other is not None
    torch.testing.assert_close(own, -other)
    bright = torch.zeros(1, 36, 4).unflatten(1, (6, 6))
    bright[:, :, 4:] = 1.0  # at the right of the picture, the patient's left
    positive = replace(heads, side=torch.ones(12)).left(bright.flatten(1, 2))
    assert positive is not None
    assert positive.tolist() == [12.0]


@pytest.mark.parametrize(
    ("sentence", "side"), [("Right effusion.", "left"), ("Left effusion.", "left"), ("Edema.", "")]
)
def test_grounding_says_which_side_the_image_speaks_for(
    checkpoint: Path, sentence: str, side: str
) -> None:
    model = load_model(checkpoint)
    dimension = model.spec.dimension
    model.heads = replace(
        heads_of(dimension=dimension),
        side=torch.ones(3 * dimension),
        side_figures=(0.9, 20, 20),
    )
    cells = torch.zeros(4, 4, dimension)
    cells[:, 3] = dimension**-0.5  # at the right of the picture
    image = EmbeddedImage(cells.flatten(0, 1), 80, 80)
    service = Service(model)
    assert service.ground(image, sentence).side == side
    service.close()


@pytest.mark.parametrize(("auc", "images", "tells"), [(0.68, 20, False), (0.69, 20, True)])
def test_a_side_that_could_be_chance_is_not_told(auc: float, images: int, tells: bool) -> None:
    # 1.96 · √(41 / 4800) = .181
    side = torch.ones(48)
    heads = replace(heads_of(), side=side, side_figures=(auc, images, images))
    assert heads.side_tells == tells
    assert (heads.left(torch.ones(1, 9, 16)) is not None) == tells


def test_the_side_is_ridge_of_scikit_learn_without_a_bias() -> None:
    draws = np.random.default_rng(3)
    x, sides = draws.normal(0, 3, (30, 6)), draws.choice([-1, 1], 30)
    found = fit_side(torch.from_numpy(x), torch.from_numpy(sides), 0.5).numpy()
    spread = np.sqrt((x**2).mean(axis=0))
    plain = Ridge(alpha=0.5 * 30, fit_intercept=False).fit(x / spread, sides)
    np.testing.assert_allclose(found, plain.coef_ / spread, rtol=1e-9)


def test_an_evaluation_measures_heads_beside_prompts(
    checkpoint_copy: Path, data_folder: Path
) -> None:
    model = load_model(checkpoint_copy)
    asked: dict[str, Any] = {"positive": ["Left pleural effusion."], "negative": ["Clear."]}
    heads = heads_of(dimension=model.spec.dimension)
    own = FindingHeads(
        heads.weight,
        heads.bias,
        {"Pleural Effusion": heads.figures["Edema"]},
        {"Pleural Effusion": asked},
    )
    save_heads(checkpoint_copy, own, model.fingerprint)
    prompts = {"Pleural Effusion": Prompts(("Left pleural effusion.",), ("Clear.",))}
    result = evaluate(checkpoint_copy, data_folder, prompts=prompts, settings=Settings())
    rows = result.rows
    zero_shot, head = (
        rows.value(part, "Pleural Effusion", "AUC")
        for part in ("zero-shot classification", "finding heads")
    )
    assert zero_shot is not None
    assert head is not None
    assert zero_shot != head
    lines = how_good_of(result).lines
    assert any(" by its head" in line for line in lines)


def test_a_training_with_findings_leaves_heads(
    options: list[str], data_folder: Path, tmp_path: Path
) -> None:
    prompts = tmp_path / "prompts.yaml"
    prompts.write_text(
        "Pneumothorax: {positive: Right pneumothorax., negative: The lungs are clear.}\n"
        "Gout: {positive: Gout., negative: No gout.}\n"
    )
    more = [f"data.findings={data_folder / 'labels.csv'}", f"training.prompts={prompts}"]
    train(load_config(None, [*options, *more]))
    heads = load_model(tmp_path / "run/checkpoint").heads
    assert heads is not None
    assert list(heads.figures) == ["Pneumothorax"]
    one = heads.figures["Pneumothorax"]
    assert one.head > 0.8  # the stripe is bright
    assert min(one.present, one.absent) > 0
