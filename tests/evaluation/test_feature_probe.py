"""Probes, neighbors and exports of features that were planted."""

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from cxrtext.errors import DataError
from cxrtext.evaluation.probes.feature_probe import mean_regions, neighbor_scores, probe_features
from cxrtext.evaluation.settings import Settings
from cxrtext.models.features import open_features
from cxrtext.records import read_manifest
from tests.models.feature_folders import drawn_regions, write_feature_folder

FAST = Settings(resamples=50)


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
    assert {"1", "5"} <= one["few_labels"].keys()
    for name in ("Pleural Effusion", "Pneumothorax"):
        assert found.neighbors[name]["auc"] > 0.8
        assert 0 <= found.neighbors[name]["accuracy"] <= 1
    held = json.loads((tmp_path / "out/probe.json").read_text())
    assert held["linear"] == json.loads(json.dumps(found.linear))
    assert any("tsne.svg" in line for line in found.left_out)  # 12 test images are too few


def test_a_picture_is_drawn_of_enough_images(data_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    rows = [(f"{i}.png", f"s{i}", ("train", "val", "test")[i % 3], i // 3 % 2) for i in range(90)]
    for name, columns, cells in (
        ("manifest", ("image", "study_id", "split"), [row[:3] for row in rows]),
        ("labels", ("study_id", "Nodule"), [(row[1], row[3]) for row in rows]),
    ):
        with (folder / f"{name}.csv").open("w", newline="") as handle:
            csv.writer(handle).writerows([columns, *cells])
    names = [row[0] for row in rows]
    made = write_feature_folder(tmp_path / "F", drawn_regions(90, 1, 2, 6), names)
    found = probe_features(open_features(made), folder, FAST, out=tmp_path / "out")
    assert list(found.linear) == ["Nodule"]
    assert found.left_out == []
    assert b"Nodule" in (tmp_path / "out/tsne.svg").read_bytes()


def test_features_are_exported_with_whose_they_are(
    features: Path, data_folder: Path, tmp_path: Path
) -> None:
    opened = open_features(features)
    for name in ("v.parquet", "v.npz"):
        probe_features(opened, data_folder, FAST, export=tmp_path / name)
    table = pq.read_table(tmp_path / "v.parquet")
    assert table.column_names == ["image", "study_id", "patient_id", "split", "vector"]
    vectors = np.array(table["vector"].to_pylist(), dtype=np.float32)
    records = {record.name: record for record in read_manifest(data_folder / "manifest.csv")}
    with np.load(tmp_path / "v.npz", allow_pickle=False) as held:
        assert np.array_equal(held["vector"], vectors)
        assert json.loads(str(held["about"]))["backbone"] == opened.backbone["digest"]
        for name in ("image", "study_id", "patient_id", "split"):
            assert held[name].tolist() == table[name].to_pylist()
        for i, image in enumerate(held["image"].tolist()):
            record = records[image]
            mine = (held["study_id"][i], held["patient_id"][i], held["split"][i])
            assert mine == (record.study_id, record.patient_id, record.split)
            region = opened.of(opened.places([image]))[0].astype(np.float64).mean((0, 1))
            assert np.allclose(vectors[i], region, atol=1e-5)
    with pytest.raises(DataError, match=r"\.parquet or \.npz"):
        probe_features(opened, data_folder, FAST, export=tmp_path / "v.csv")


def test_means_are_in_the_order_that_was_asked(features: Path) -> None:
    opened = open_features(features)
    order = np.random.default_rng(1).permutation(47)
    assert np.array_equal(mean_regions(opened, order), mean_regions(opened, np.arange(47))[order])


def test_images_of_another_set_are_refused(data_folder: Path, tmp_path: Path) -> None:
    made = write_feature_folder(tmp_path / "F", drawn_regions(2, 1, 2, 6), ["x.png", "y.png"])
    with pytest.raises(DataError, match="has features of none of the images of"):
        probe_features(open_features(made), data_folder, FAST)


def test_neighbors_by_hand() -> None:
    train = [[2.0, 0.0], [-1.0, 1.0], [-1.0, -1.0]]  # of mean 0
    scores = neighbor_scores(train, [1, 0, 0], [[1.0, 0.0], [-1.0, 0.0]], neighbors=2)
    near, far = np.exp(0 / 0.07), np.exp((-np.sqrt(0.5) - 1) / 0.07)
    assert scores[0] == pytest.approx(near / (near + far))
    assert scores[1] == 0
