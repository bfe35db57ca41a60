"""A folder of features as it is read: places, shards, and what is refused."""

import json
from pathlib import Path

import numpy as np
import pytest

from cxrtext.errors import CheckpointError, NotFoundError
from cxrtext.models.features import folder as folders
from cxrtext.models.features import open_features
from tests.conftest import flip
from tests.models.feature_folders import drawn_regions, write_feature_folder

NAMES = [f"images/{i:03d}, odd.png" for i in range(23)]
REGIONS = drawn_regions(23, 2, 3, 8)


@pytest.fixture
def features(tmp_path: Path) -> Path:
    return write_feature_folder(
        tmp_path / "features", REGIONS, NAMES, rejected={"bad.png": "no image"}
    )


def test_features_are_found_by_name_and_read_by_place(
    features: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "OPEN", 2)
    found = open_features(features)
    assert (len(found), found.shape) == (23, (3, 3, 8))
    asked = [NAMES[20], "bad.png", NAMES[0], NAMES[20]]
    assert found.places(asked).tolist() == [20, -1, 0, 20]
    order = np.random.default_rng(0).permutation(23)
    for _ in range(2):
        assert np.array_equal(found.of(order), REGIONS[order, 0])
    assert found.of([]).shape == (0, 3, 3, 8)
    assert found.sizes([0, 22]).tolist() == [[100, 80], [122, 80]]
    assert found.looks([7, 3])[:, 0].tolist() == [5, 0]  # the first place of each shard
    assert found._mapped.cache_info().currsize <= 2  # mapped shards
    assert dict(found.rejected) == {"bad.png": "no image"}
    assert found.places(NAMES).tolist() == list(range(23))
    with pytest.raises(IndexError):
        found.of([23])


def test_a_damaged_or_missing_shard_is_refused_by_name(features: Path) -> None:
    shard = features / "shards/000002.safetensors"
    flip(shard, -5)
    found = open_features(features)
    found.of([0, 22])
    line = rf"{shard}: is damaged; make it again with 'cxrtext encode MANIFEST .*'"
    with pytest.raises(CheckpointError, match=line):
        found.of([10])
    with pytest.raises(CheckpointError, match=line):
        open_features(features, check=True)
    shard.unlink()
    with pytest.raises(CheckpointError, match=f"{shard}: is missing; make it again"):
        open_features(features)


@pytest.mark.parametrize("name", ["images.csv", "golden.safetensors", "map.safetensors"])
def test_other_damaged_files_are_refused_by_name(features: Path, name: str) -> None:
    (features / name).write_bytes((features / name).read_bytes()[:-1])
    found = open_features(features)
    with pytest.raises(CheckpointError, match=f"{name}: is damaged; make it again with"):
        found.places(NAMES), found.golden, found.map


def test_a_folder_that_is_not_finished_says_how_to_finish_it(tmp_path: Path) -> None:
    command = "cxrtext encode m.csv --backbone b"
    (tmp_path / "job.json").write_text(json.dumps({"shared": {"command": command}}))
    with pytest.raises(
        NotFoundError, match=f"are not finished; continue with '{command} --out {tmp_path}'"
    ):
        open_features(tmp_path)


def test_a_changed_features_json_is_refused(features: Path) -> None:
    path = features / "features.json"
    path.write_text(path.read_text().replace('"rejected": 1', '"rejected": 2'))
    with pytest.raises(CheckpointError, match=r"features.json: is damaged \(.*\); "):
        open_features(features)
