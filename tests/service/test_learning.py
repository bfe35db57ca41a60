"""A head of marks: learned where marks tell something new, refused where they do not."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from cxrtext.evaluation import CHEX5_PROMPTS, Settings
from cxrtext.evaluation.classification.calibration import (
    FindingCalibration,
    KeptCalibration,
    log_loss,
)
from cxrtext.evaluation.classification.head import (
    CHANCE,
    LEAST,
    SHIFT,
    STAY_CLOSE,
    Archived,
    KeptHead,
    apply_head,
    fit_head,
    gain_of,
    head_of,
    held_out_gains,
    shuffled,
)
from cxrtext.evaluation.classification.prompt_scores import scorer
from cxrtext.index import Archive, keep_labels, label_archive, open_index
from cxrtext.models import ImageTextModel, load_model
from cxrtext.records.marks import Mark, add_mark, marks_beside
from cxrtext.service import Service
from cxrtext.service.learning import keep, learn, see
from cxrtext_cli.main import app
from tests.index.conftest import write_archive

FINDING = "Edema"
PROMPTS = {FINDING: CHEX5_PROMPTS[FINDING]}


@pytest.fixture(scope="module")
def archive(
    model: ImageTextModel, checkpoint: Path, tmp_path_factory: pytest.TempPathFactory
) -> Archive:
    """300 made-up images, of which no score knows what marks are about."""
    folder = write_archive(model, checkpoint, tmp_path_factory.mktemp("learning") / "index")
    return open_index(folder, model)


def marks_of(archive: Archive, count: int, seed: int = 0, *, shuffled: bool = False) -> list[Mark]:
    """Marks of a finding that one direction of the means decides."""
    seen = see(archive, PROMPTS, set())
    rng = np.random.default_rng(seed)
    names = rng.permutation(list(seen.places))[:count].tolist()
    value = seen.means @ rng.normal(size=seen.means.shape[1])
    there = {name: bool(value[seen.places[name]] > np.median(value)) for name in names}
    said = rng.permutation(list(there.values())) if shuffled else list(there.values())
    return [
        Mark("w", "t", archive.model.fingerprint, name, name, name, "finding", FINDING, bool(one),
             "right")
        for name, one in zip(names, said, strict=True)
    ]  # fmt: skip


def test_marks_that_tell_something_are_learned_and_shuffled_ones_refused(archive: Archive) -> None:
    learned = learn(archive, PROMPTS, marks_of(archive, 150))
    assert learned.head is not None
    assert learned.gain is not None
    assert learned.gain[0] > 0
    assert learned.gain[1] <= CHANCE
    assert list(learned.head.findings) == [FINDING]
    for seed in range(3):
        refused = learn(archive, PROMPTS, marks_of(archive, 150, seed, shuffled=True))
        assert refused.head is None
        assert refused.said == "150 marks do not tell enough, more are wanted"
        assert refused.gain is not None


def test_too_few_marks_are_said_to_be(archive: Archive) -> None:
    few = learn(archive, PROMPTS, marks_of(archive, 40))
    assert (few.head, few.said) == (None, f"40 marks of findings, {LEAST} wanted at least")
    unclear = [replace(one, verdict="unclear") for one in marks_of(archive, 150)]
    assert learn(archive, PROMPTS, unclear).marks == 0
    alike = [replace(one, said=True) for one in marks_of(archive, 150)]
    assert "two marks of each kind" in learn(archive, PROMPTS, alike).said


def test_a_head_changes_what_classifies_and_nothing_else(
    archive: Archive, checkpoint: Path, tmp_path: Path
) -> None:
    learned = learn(archive, PROMPTS, marks_of(archive, 150)).head
    assert learned is not None
    folder = Path(shutil.copytree(checkpoint, tmp_path / "checkpoint"))
    assert keep(folder, learned) == []
    model = load_model(folder)
    assert model.fingerprint == archive.model.fingerprint
    regions = torch.nn.functional.normalize(torch.randn(4, 16, model.spec.dimension), dim=-1)
    plain = scorer(archive.model, CHEX5_PROMPTS, Settings())(regions)
    found = scorer(model, CHEX5_PROMPTS, Settings())(regions)
    number = list(CHEX5_PROMPTS).index(FINDING)
    same = np.arange(len(CHEX5_PROMPTS)) != number
    assert np.allclose(found[:, same], plain[:, same], atol=1e-5)
    means = torch.nn.functional.normalize(regions.mean(dim=1), dim=-1).double().numpy()
    wanted = apply_head(learned.findings[FINDING], plain[0, number] - plain[1, number], means)
    assert np.allclose(found[0, number] - found[1, number], wanted, atol=1e-4)
    # Other prompts of the same finding are not those that marks were about.
    other = {FINDING: CHEX5_PROMPTS["Pneumonia"]}
    head = head_of(model, other)
    assert head is not None
    assert torch.equal(head(torch.ones(1, 4), regions), torch.ones(1, 4))
    service = Service(model)
    embedded = service.embed(np.full((1, 64, 64), 0.5, dtype=np.float32))
    (scored,) = service.classify(embedded, PROMPTS)
    numbers = scorer(model, PROMPTS, Settings())(embedded.regions[None].float())
    assert scored.score == pytest.approx(float(numbers[0, 0, 0] - numbers[1, 0, 0]), abs=1e-4)


def test_what_a_head_replaces_stays_and_is_calibrated_no_more(
    archive: Archive, checkpoint: Path, tmp_path: Path
) -> None:
    learned = learn(archive, PROMPTS, marks_of(archive, 150)).head
    assert learned is not None
    folder = Path(shutil.copytree(checkpoint, tmp_path / "checkpoint"))
    fitted = FindingCalibration(scale=1, shift=0, positives=3, negatives=3)
    calibration = KeptCalibration(
        fingerprint=learned.fingerprint, data="d", measured=("test", 9), prompts=CHEX5_PROMPTS,
        findings={FINDING: fitted, "Pneumonia": fitted},
    )  # fmt: skip
    calibration.save(folder)
    assert [path.name for path in keep(folder, learned)] == ["calibration.1.json"]
    again = learned.model_copy(update={"marks": 151})
    names = [path.name for path in keep(folder, again)]
    assert names == ["head.1.json", "calibration.2.json"]
    now = KeptCalibration.load(folder, learned.fingerprint)
    assert now is not None
    assert list(now.findings) == ["Pneumonia"]
    assert KeptHead.load(folder, learned.fingerprint) == again
    assert KeptHead.beside(load_model(folder)) == again


def test_the_command_learns_once_and_labels_the_index_anew(
    archive: Archive, model: ImageTextModel, checkpoint: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(checkpoint, tmp_path / "checkpoint"))
    index = write_archive(model, folder, tmp_path / "index")
    keep_labels(open_index(index, model), CHEX5_PROMPTS)

    def labels() -> list[dict[str, float]]:
        return [
            one.probabilities
            for one in label_archive(open_index(index, load_model(folder)), CHEX5_PROMPTS)
        ]

    run = CliRunner()
    assert "nothing was marked" in str(run.invoke(app, ["learn", str(index)]).exception)
    before = labels()
    for mark in marks_of(archive, 150):
        add_mark(marks_beside(index), mark)
    done = run.invoke(app, ["learn", str(index)])
    assert done.exit_code == 0, done.output
    assert f"kept: {FINDING}" in done.output
    now = labels()
    assert [one[FINDING] for one in now] != [one[FINDING] for one in before]
    assert [one["Pneumonia"] for one in now] == [one["Pneumonia"] for one in before]
    out = tmp_path / "out"
    assert run.invoke(app, ["marks", str(index), "--out", str(out)]).exit_code == 0
    assert len((out / "labels.csv").read_text().splitlines()) == 151


def test_gains_are_of_other_patients() -> None:
    """A feature that names the patient foretells nothing of others."""
    rng = np.random.default_rng(0)
    patients = [f"p{place // 4}" for place in range(80)]
    truth = np.repeat(rng.integers(0, 2, 20), 4).astype(float)
    means = np.repeat(np.eye(20), 4, axis=0)
    scores = rng.normal(size=80)
    among = Archived.of(scores, means)
    gains = held_out_gains(scores, means, shuffled(truth), patients, among)
    assert gain_of(gains)[0] < 0.01
    head = fit_head(scores, means, truth, among)
    assert log_loss(apply_head(head, scores, means), truth) < 0.6


def test_the_fit_is_the_penalized_maximum() -> None:
    """Against the formula as plain loops: no coefficient moved a little does better."""
    rng = np.random.default_rng(1)
    scores, means = rng.normal(size=30), rng.normal(size=(30, 50))
    truth = (rng.random(30) < 0.4).astype(float)
    among = Archived(0.0, 1.0, np.zeros(50), 1.0)
    head = fit_head(scores, means, truth, among)

    def loss(scale: float, shift: float, weights: list[float]) -> float:
        value = STAY_CLOSE * ((scale - 1) ** 2 + sum(w * w for w in weights)) / 2
        value += SHIFT * shift**2 / 2
        for z, m, y in zip(scores, means, truth, strict=True):
            score = scale * z + shift + sum(w * x for w, x in zip(weights, m, strict=True))
            value += float(np.log1p(np.exp(score))) - y * score
        return value

    best = loss(head.scale, head.shift, head.weights)
    for step in (1e-3, -1e-3):
        assert loss(head.scale + step, head.shift, head.weights) > best
        assert loss(head.scale, head.shift + step, head.weights) > best
        for place in range(50):
            moved = [w + step * (place == at) for at, w in enumerate(head.weights)]
            assert loss(head.scale, head.shift, moved) > best
