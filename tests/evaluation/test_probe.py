import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from cxrtext.errors import DataError
from cxrtext.evaluation.probes.feature_probe import probe_features
from cxrtext.evaluation.probes.linear_probe import fit_probe, linear_probe
from cxrtext.evaluation.settings import Settings
from cxrtext.metrics.ranking import area_under_curve
from cxrtext.models.features import open_features
from cxrtext.records import read_manifest
from tests.models.feature_folders import drawn_regions, write_feature_folder

Floats = NDArray[np.float64]


def drawn(seed: int, n: int = 200, width: int = 6) -> tuple[Floats, NDArray[np.int64]]:
    """Features of very different sizes, the first two of which tell the label."""
    generator = np.random.default_rng(seed)
    labels = np.arange(n) % 2
    features = generator.normal(size=(n, width))
    features[:, :2] += labels[:, None]
    return features * 10.0 ** np.arange(-3, width - 3) + 5, labels


def test_a_probe_by_hand() -> None:
    # One feature of ±1, three quarters right: the slope of the loss is p − 3/4 + ridge · w = 0.
    features = [[1.0]] * 4 + [[-1.0]] * 4
    labels = [1, 1, 1, 0, 0, 0, 0, 1]
    ridge = 0.1
    probe = fit_probe(features, labels, ridge)
    weight = probe.weights[0]
    assert 1 / (1 + math.exp(-weight)) - 3 / 4 + ridge * weight == pytest.approx(0, abs=1e-7)
    assert probe.bias == pytest.approx(0, abs=1e-7)
    nearly = fit_probe(features, labels, 1e-9)
    assert nearly.weights[0] == pytest.approx(math.log(3), abs=1e-6)


def test_a_probe_agrees_with_scikit_learn() -> None:
    features, labels = drawn(0)
    ridge = 0.05
    scaled = (features - features.mean(axis=0)) / features.std(axis=0)
    peer = LogisticRegression(C=1 / (ridge * 200), tol=1e-10, max_iter=10_000)
    peer.fit(scaled, labels)
    probe = fit_probe(features, labels, ridge)
    np.testing.assert_allclose(
        probe.logits(features), peer.decision_function(scaled), rtol=1e-5, atol=1e-6
    )


def test_features_without_content_weigh_nothing_and_separable_classes_have_a_best_fit() -> None:
    features, labels = drawn(1)
    features[:, 4] = 0.1
    probe = fit_probe(features, labels, 0.1)
    assert probe.weights[4] == 0
    assert np.isfinite(probe.logits(features)).all()
    separable = fit_probe([[0.0], [1.0]], [0, 1], 1e-4)
    assert np.isfinite(separable.weights).all()
    assert separable.logits([[0.0]])[0] < 0 < separable.logits([[1.0]])[0]


def test_the_ridge_is_chosen_on_validation() -> None:
    features, labels = drawn(2, 40, 30)  # many features and few rows: little ridge overfits
    seen, truth = drawn(3, 400, 30)
    probe = linear_probe(features, labels, seen, truth, [1e-6, 0.3, 1e6])
    assert probe.ridge == 0.3
    assert area_under_curve(probe.logits(seen), truth) > 0.7
    with pytest.raises(ValueError, match="at least one ridge"):
        linear_probe(features, labels, seen, truth, [])


def test_wrong_arguments() -> None:
    wrong: list[tuple[list[Any], list[int], float, str]] = [
        ([1.0], [1], 1.0, r"\[n, D\]"),
        ([[np.nan], [1.0]], [0, 1], 1.0, "finite"),
        ([[0.0], [1.0]], [1, 1], 1.0, "both must occur"),
        ([[0.0], [1.0]], [0, 1], 0.0, "ridge must"),
    ]
    for features, labels, ridge, words in wrong:
        with pytest.raises(ValueError, match=words):
            fit_probe(features, labels, ridge)


FAST = Settings()


@pytest.fixture
def features(data_folder: Path, tmp_path: Path) -> Path:
    """Features of the data folder that tell its findings, but for one image, in another order."""
    names = [record.name for record in read_manifest(data_folder / "manifest.csv")]
    kinds = np.arange(48) % 3
    regions = drawn_regions(48, 1, 2, 6).astype(np.float32)
    regions[kinds == 1, ..., 0] += 2
    regions[kinds == 2, ..., 1] += 2
    order = np.random.default_rng(0).permutation(47)
    folder = tmp_path / "features"
    return write_feature_folder(folder, regions[order], [names[i] for i in order], rows=7)


def test_planted_findings_are_found(features: Path, data_folder: Path, tmp_path: Path) -> None:
    opened = open_features(features)
    found = probe_features(opened, data_folder, FAST, out=tmp_path / "out")
    assert found.missing == 1
    assert sum(found.images.values()) == 47
    assert list(found.linear) == ["Pneumothorax"]  # no validation image has an effusion
    assert any("Pleural Effusion: training, validation" in line for line in found.left_out)
    one = found.linear["Pneumothorax"]
    assert one["auc"] > 0.9
    assert one["interval"][0] <= one["auc"] <= one["interval"][1]
    held = json.loads((tmp_path / "out/probe.json").read_text())
    assert held["linear"] == json.loads(json.dumps(found.linear))


def test_features_are_exported_with_whose_they_are(
    features: Path, data_folder: Path, tmp_path: Path
) -> None:
    opened = open_features(features)
    probe_features(opened, data_folder, FAST, export=tmp_path / "v.parquet")
    table = pq.read_table(tmp_path / "v.parquet")
    assert table.column_names == ["image", "study_id", "patient_id", "split", "vector"]
    vectors = np.array(table["vector"].to_pylist(), dtype=np.float32)
    records = {record.name: record for record in read_manifest(data_folder / "manifest.csv")}
    assert json.loads(table.schema.metadata[b"cxrtext"])["backbone"] == opened.backbone["digest"]
    for i, row in enumerate(table.to_pylist()):
        for name in ("study_id", "patient_id", "split"):
            assert row[name] == getattr(records[row["image"]], name)
        region = opened.of(opened.places([row["image"]]))[0].astype(np.float64).mean((0, 1))
        assert np.allclose(vectors[i], region, atol=1e-5)
    with pytest.raises(DataError, match=r"in \.parquet"):
        probe_features(opened, data_folder, FAST, export=tmp_path / "v.csv")


def test_images_of_another_set_are_refused(data_folder: Path, tmp_path: Path) -> None:
    made = write_feature_folder(tmp_path / "F", drawn_regions(2, 1, 2, 6), ["x.png", "y.png"])
    with pytest.raises(DataError, match="has features of none of the images of"):
        probe_features(open_features(made), data_folder, FAST)
