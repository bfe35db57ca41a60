"""Image encoders trained on words of findings or labels, before the image–text model."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from cxrtext.errors import CheckpointError, ConfigError, DataError, WorkError
from cxrtext.files import only_one, write_json
from cxrtext.images import Preprocessing
from cxrtext.models.image_encoder import ImageEncoder
from cxrtext.models.image_weights import load_image_weights
from cxrtext.objectives.findings import known_loss
from cxrtext.text.finding_words import FindingWord
from cxrtext.training.image_pretraining import ImagePretrainSettings, pretrain_image
from cxrtext.training.image_pretraining.learning import (
    Classifier,
    ImageSet,
    pooled_by_half,
)
from cxrtext.training.image_pretraining.networks import (
    build_network,
    processor_of,
    start_network,
)
from cxrtext.training.image_pretraining.pretrain import _fingerprint
from cxrtext.training.image_pretraining.targets import Targets
from cxrtext.training.loop.steps import Listener
from tests.training.conftest import metrics
from tests.training.test_training_run import stop_at

SMALL = ImagePretrainSettings(
    image="resnet-narrow", resize=40, crop=32, epochs=4, batch=8, lr=3e-3, warmup=2, save_every=5
)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("decoded")


def test_words_are_learned_and_the_encoder_starts_a_training(
    data_folder: Path, cache: Path, tmp_path: Path
) -> None:
    said: list[str] = []
    given: dict[str, Any] = {"cache": cache, "listener": Listener(say=said.append)}
    settings = replace(SMALL, epochs=16)
    summary = pretrain_image(data_folder / "manifest.csv", tmp_path, settings=settings, **given)
    assert [one.finding.name for one in summary.findings] == ["effusion", "pneumothorax"]
    assert "2 words of findings" in said[0]
    assert not any("lungs are clear" in line for line in said)
    # bright corners and stripes are seen after a few steps, on images that were not trained on
    assert summary.findings[1].auc is not None
    assert summary.findings[1].auc > 0.9
    assert (tmp_path / "words.txt").read_text().splitlines()[-2:] == ["effusion", "pneumothorax"]
    report = json.loads((tmp_path / "pretraining.json").read_text())
    assert (report["images"], report["epochs"]) == (summary.images, 16)
    assert [one["finding"] for one in report["findings"]] == ["effusion", "pneumothorax"]

    encoder = ImageEncoder("resnet-narrow", dimension=8)
    assert summary.encoder is not None
    assert summary.backbone is None  # no configuration of transformers says that it has no pooling
    line = load_image_weights(encoder, summary.encoder).line
    assert "ResNet of 1-1-1 basic blocks" in line
    assert "ignored" not in line
    kept = load_file(summary.encoder)
    for name, value in encoder.backbone.state_dict().items():
        assert torch.equal(value, kept[f"backbone.{name}"])


def test_a_stopped_run_goes_on_and_ends_in_the_same_weights(
    data_folder: Path, cache: Path, tmp_path: Path
) -> None:
    given: dict[str, Any] = {"settings": SMALL, "cache": cache}
    manifest = data_folder / "manifest.csv"
    whole = pretrain_image(manifest, tmp_path / "whole", **given)
    cut = tmp_path / "cut"
    with pytest.raises(KeyboardInterrupt):
        pretrain_image(manifest, cut, listener=stop_at(7), **given)
    assert not (cut / "encoder.safetensors").exists()
    with pytest.raises(ConfigError, match="holds a training run already; continue it"):
        pretrain_image(manifest, cut, **given)
    with only_one(cut / "run"), pytest.raises(WorkError, match="or choose another with --out"):
        pretrain_image(manifest, cut, resume=True, **given)
    other = given | {"settings": replace(SMALL, lr=0.1)}
    with pytest.raises(CheckpointError, match=r"lr was 0\.003 and is now 0\.1"):
        pretrain_image(manifest, cut, resume=True, **other)
    gone_on = pretrain_image(manifest, cut, resume=True, **given)
    one, unbroken = ((tmp_path / name / "encoder.safetensors") for name in ("cut", "whole"))
    assert one.read_bytes() == unbroken.read_bytes()
    assert gone_on.validation == whole.validation
    assert gone_on.findings == whole.findings
    steps = [line["step"] for line in metrics(cut)]
    assert steps == sorted(steps)
    again = pretrain_image(manifest, cut, resume=True, **given)
    assert again.validation == whole.validation


def test_labels_are_learned_where_they_are_known(
    data_folder: Path, cache: Path, tmp_path: Path
) -> None:
    rows = (data_folder / "labels.csv").read_text().splitlines()
    # every third study is uncertain of its pneumothorax, and blank of a finding without labels
    table = tmp_path / "labels.csv"
    lines = [f"{rows[0]},Fracture"]
    for number, row in enumerate(rows[1:]):
        study, present, other = row.split(",")
        lines.append(f"{study},{present},{'-1' if number % 5 == 0 else other},")
    table.write_text("\n".join(lines) + "\n")
    summary = pretrain_image(
        data_folder / "manifest.csv", tmp_path / "out", settings=SMALL, cache=cache, labels=table
    )
    assert [one.finding.name for one in summary.findings] == ["Pleural Effusion", "Pneumothorax"]
    effusion, pneumothorax = summary.findings
    assert effusion.present + effusion.absent == summary.validation_images
    assert pneumothorax.present + pneumothorax.absent < summary.validation_images
    assert not (tmp_path / "out/words.txt").exists()


def test_without_reports_and_labels_there_is_nothing_to_learn(
    data_copy: Path, tmp_path: Path
) -> None:
    (data_copy / "reports.csv").unlink()
    with pytest.raises(DataError, match="has a report; check study_id and split, or give a table"):
        pretrain_image(data_copy / "manifest.csv", tmp_path / "out", settings=SMALL)


def test_sides_are_told_from_the_halves_of_the_image() -> None:
    grid = torch.zeros(1, 1, 2, 5)
    grid[..., 1, 4] = 10.0  # the patient's left
    right_mean, right_max, left_mean, left_max = pooled_by_half(grid)[0]
    assert (float(right_mean), float(right_max)) == (0, 0)
    assert (round(float(left_mean), 4), float(left_max)) == (round(10 / 6, 4), 10)
    network = build_network("resnet-narrow")
    plain = Classifier(network, [FindingWord(("effusion",))], "float32")
    sided = Classifier(network, [FindingWord(("effusion",), "left")], "float32")
    assert 2 * plain.findings.in_features == sided.findings.in_features


def test_a_network_begins_from_weights_of_elsewhere(tmp_path: Path) -> None:
    torch.manual_seed(3)
    trained = build_network("resnet50-half")
    trained.save_pretrained(tmp_path)
    processor = processor_of(Preprocessing(256, 224, 0.4, 0.1))
    write_json(tmp_path / "preprocessor_config.json", processor)
    settings = ImagePretrainSettings(image="resnet50-half", weights=tmp_path, resize=64, crop=64)
    begun, preprocessing = start_network(settings)
    assert preprocessing == Preprocessing(64, 64, 0.4, 1.0, "bilinear", "center")
    images = torch.randn(2, 1, 64, 64)
    with torch.inference_mode():
        theirs = trained.eval()(images).last_hidden_state
        ours = begun.eval()(0.1 * images).last_hidden_state
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
    assert ours.shape == (2, 1024, 2, 2)
    usual, tuned = ImagePretrainSettings(), ImagePretrainSettings(weights=tmp_path)
    assert tuned.pace() < usual.pace()


def test_unknown_targets_do_not_count() -> None:
    logits = torch.tensor([[2.0, -30.0], [0.0, 30.0]])
    targets = torch.tensor([[1, -1], [0, -1]], dtype=torch.int8)
    expected = (torch.log1p(torch.exp(torch.tensor(-2.0))) + torch.log(torch.tensor(2.0))) / 2
    assert float(known_loss(logits, targets)) == pytest.approx(float(expected))
    assert float(known_loss(logits, torch.full_like(targets, -1))) == 0


def test_weights_that_do_not_fit_are_refused_before_an_image_is_decoded(
    data_folder: Path, tmp_path: Path
) -> None:
    build_network("resnet18").save_pretrained(tmp_path / "other")
    settings = replace(SMALL, weights=tmp_path / "other")
    with pytest.raises(CheckpointError, match="would load and compute something else"):
        pretrain_image(data_folder / "manifest.csv", tmp_path / "out", settings=settings)
    assert not (tmp_path / "out").exists()


def test_what_cannot_be_trained_is_refused(data_folder: Path, cache: Path, tmp_path: Path) -> None:
    manifest, out = data_folder / "manifest.csv", tmp_path / "out"
    words = tmp_path / "words.txt"
    words.write_text("effusion\nopacity\n")
    named: dict[str, Any] = {"words": words}
    for settings, given, kind, says in (
        (replace(SMALL, crop=30), {}, ConfigError, "crop: 30 is not a multiple of 16"),
        (replace(SMALL, batch=40), {}, DataError, "training images have a report, fewer than"),
        (SMALL, named, DataError, "line 2: no training report affirms 'opacity'"),
        (SMALL, named | {"labels": words}, ConfigError, "--words and --labels: give one"),
    ):
        with pytest.raises(kind, match=says):
            pretrain_image(manifest, out, settings=settings, cache=cache, **given)


def test_an_image_that_changes_its_split_is_other_data() -> None:
    def split(*names: str) -> ImageSet:
        count = len(names)
        targets = np.ones((count, 1), dtype=np.int8)
        return ImageSet(np.zeros((count, 4, 4), dtype=np.uint8), np.arange(count), targets, names)

    targets = Targets("labels", [FindingWord(("effusion",))], {}, 3, None)
    before = _fingerprint(targets, split("a", "b"), split("c"))
    assert before == _fingerprint(targets, split("a", "b"), split("c"))
    assert before != _fingerprint(targets, split("a"), split("b", "c"))
