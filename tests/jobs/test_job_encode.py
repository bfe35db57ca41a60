"""Images encoded by a backbone: the same bytes whoever stops it, and nothing lost or made up."""

import csv
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from cxrtext.errors import CheckpointError, ConfigError, DataError, NotFoundError
from cxrtext.images import read_image
from cxrtext.jobs.encode import BATCH, EncodeOptions, encode_images, features_of
from cxrtext.jobs.shards import committed
from cxrtext.models.features import FeatureFolder, FeatureMap, open_features
from cxrtext.models.foreign import load_backbone
from cxrtext.models.regions import normalized
from tests.waiting import until

OPTIONS = EncodeOptions(grid=4, reduce=5, shard=32)


def encode(
    archive: Path, backbone: Path, folder: Path, options: EncodeOptions = OPTIONS
) -> FeatureFolder:
    return encode_images(archive / "manifest.csv", backbone, folder, options)


@pytest.fixture(scope="module")
def features(
    archive_folder: Path, tiny_backbone: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Features of 110 images, one of which is none; read-only by convention."""
    folder = tmp_path_factory.mktemp("encoded") / "features"
    encode(archive_folder, tiny_backbone, folder)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a folder of features, but for the two that name the folder itself."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in ("features.json", "job.json")
    }


def expected(backbone: Path, path: Path, made: FeatureMap) -> np.ndarray:
    """What is to be kept of the center crop of one image, computed alone."""
    model = load_backbone(backbone)
    square = model.preprocessing.square(read_image(path))
    with torch.no_grad():
        kept = made(model(normalized(torch.from_numpy(square)[None], model.preprocessing)))
    found: np.ndarray = kept[0].numpy()
    return found


def test_features_are_those_of_each_image_alone(
    features: Path, archive_folder: Path, tiny_backbone: Path
) -> None:
    found = open_features(features, check=True)
    side = min(4, load_backbone(tiny_backbone).grid[0])
    assert (len(found), found.shape) == (109, (side, side, 5))
    names = [f"images/a{i:03d}.png" for i in (109, 0, 70, 33)]
    places = found.places(names)
    assert places.tolist() == [108, 0, -1, 33]
    for name, place in zip(names, places, strict=True):
        if place >= 0:
            alone = expected(tiny_backbone, archive_folder / name, found.map)
            assert np.allclose(found.of([place])[0], alone, atol=2e-3)
    kept = found.of(np.arange(109)).astype(np.float32)
    assert np.sqrt((kept**2).mean()) == pytest.approx(1, abs=0.02)
    assert dict(found.rejected).keys() == {"images/a070.png"}
    assert found.sizes([0]).tolist() == [[72, 72]]
    assert found.about["rows"] == 110
    assert 0.5 < found.about["map"]["variance_kept"] <= 1
    for name in ("model_type", "digest", "licence", "channels", "preprocessing"):
        assert name in found.backbone
    shards = committed(features).values()
    assert sum(one.rows + one.rejected for one in shards) == 110
    assert sum(one.rejected for one in shards) == 1


def test_features_do_not_follow_from_the_company_of_an_image(
    archive_folder: Path, tiny_backbone: Path
) -> None:
    model = load_backbone(tiny_backbone)
    names = [f"images/a{i:03d}.png" for i in range(BATCH)]
    squares = [model.preprocessing.square(read_image(archive_folder / name)) for name in names]
    made = FeatureMap(model.channels)
    whole = features_of(model, squares, made)
    assert np.array_equal(features_of(model, squares[5:8], made), whole[5:8])
    assert np.array_equal(features_of(model, squares[::-1], made)[::-1], whole)


def test_a_stop_and_a_lost_shard_give_the_same_bytes(
    features: Path, archive_folder: Path, tiny_backbone: Path, tmp_path: Path
) -> None:
    folder, manifest = tmp_path / "features", archive_folder / "manifest.csv"

    def stop(what: str, done: int, _total: int) -> None:
        if what == "encoding" and done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        encode_images(manifest, tiny_backbone, folder, OPTIONS, stage=stop)
    assert len([*folder.glob("shards/0*")]) == 1
    with pytest.raises(
        NotFoundError, match=r"not finished; continue with 'cxrtext encode .*manifest"
    ):
        open_features(folder)
    encode(archive_folder, tiny_backbone, folder)
    assert contents(folder) == contents(features)
    told: list[tuple[str, int, int]] = []
    encode_images(manifest, tiny_backbone, folder, OPTIONS, stage=lambda *one: told.append(one))
    listed = [("listing", done, 110) for done in (32, 64, 96, 110)]
    assert told == [("encoding", 110, 110), *listed]  # each is checked
    shard = next((folder / "shards").glob("000001.*"))
    shard.write_bytes(shard.read_bytes()[:-9])
    next((folder / "shards").glob("000002.*")).unlink()
    (folder / "images.csv").unlink()
    with pytest.raises(CheckpointError, match=r"1 shard\(s\) are damaged"):
        encode(archive_folder, tiny_backbone, folder)
    encode(archive_folder, tiny_backbone, folder)
    assert contents(folder) == contents(features)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"grid": 3}, r"another --grid \(4, now 3\)"),
        ({"reduce": None}, r"another --reduce \(5, now null\)"),
    ],
)
def test_another_option_does_not_go_on(
    features: Path, archive_folder: Path, tiny_backbone: Path, change: dict[str, object], says: str
) -> None:
    with pytest.raises(DataError, match=says):
        encode(archive_folder, tiny_backbone, features, replace(OPTIONS, **change))  # type: ignore[arg-type]


def test_another_manifest_or_backbone_does_not_go_on(
    features: Path, archive_folder: Path, tiny_backbone: Path, other_backbone: Path, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match="begun with another backbone"):
        encode(archive_folder, other_backbone, features)
    shutil.copytree(archive_folder, tmp_path / "set")
    with (tmp_path / "set/manifest.csv").open("a") as handle:
        handle.write("images/a000.png2,s999,1,\r\n")
    with pytest.raises(DataError, match="begun with another manifest"):
        encode(tmp_path / "set", tiny_backbone, features)


def test_too_many_images_that_cannot_be_read_end_it_early(
    archive_folder: Path, tiny_backbone: Path, tmp_path: Path
) -> None:
    options = replace(OPTIONS, max_rejected=0)
    says = (
        r"1 bad items, more than --max-rejected 0; the last: images/a070.png: .* not a PNG, JPEG or"
    )
    with pytest.raises(DataError, match=says):
        encode(archive_folder, tiny_backbone, tmp_path / "F", options)
    assert len([*tmp_path.glob("F/shards/0*")]) < 4


def test_the_map_is_fitted_to_training_images_alone(
    data_folder: Path, tiny_backbone: Path, tmp_path: Path
) -> None:
    options = EncodeOptions(grid=2, reduce=3)
    encode(data_folder, tiny_backbone, tmp_path / "one", options)
    shutil.copytree(data_folder, tmp_path / "set")
    with (data_folder / "manifest.csv").open(newline="") as handle:
        held = [row["image"] for row in csv.DictReader(handle) if row["split"] != "train"]
    for name in held:
        shutil.copy(data_folder / "images/s00.png", tmp_path / "set" / name)
    encode(tmp_path / "set", tiny_backbone, tmp_path / "two", options)
    one, two = (contents(tmp_path / name) for name in ("one", "two"))
    maps = [name for name in one if name.startswith("map.")]
    assert len(maps) == 1
    assert maps[0] in two
    assert {name for name in one if name.startswith("shards/")} != {
        name for name in two if name.startswith("shards/")
    }
    manifest = (tmp_path / "set/manifest.csv").read_text().replace(",train,", ",val,")
    (tmp_path / "set/manifest.csv").write_text(manifest)
    with pytest.raises(DataError, match="no row has the split 'train'"):
        encode(tmp_path / "set", tiny_backbone, tmp_path / "three", options)


def test_more_components_than_channels_are_refused(
    archive_folder: Path, tiny_backbone: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="--reduce 10000: the backbone has"):
        encode(archive_folder, tiny_backbone, tmp_path / "F", replace(OPTIONS, reduce=10_000))


@pytest.mark.slow
def test_a_killed_command_ends_with_the_same_bytes(
    features: Path, archive_folder: Path, tiny_backbone: Path, tmp_path: Path
) -> None:
    """The driver is killed as soon as there is a shard, its workers with it; then it goes on."""
    folder = tmp_path / "features"
    code = (
        "import sys; from pathlib import Path; from cxrtext.jobs import *; "
        "options = EncodeOptions(grid=4, reduce=5, shard=32, workers=1); "
        "made = encode_images(*map(Path, sys.argv[1:]), options); print(made.about['rejected'])"
    )
    paths = archive_folder / "manifest.csv", tiny_backbone, folder
    command = [sys.executable, "-c", code, *map(str, paths)]
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: any((folder / "shards").glob("0*")) or first.poll() is not None)
    first.kill()
    first.wait()
    assert not (folder / "features.json").exists()
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "1\n"
    assert contents(folder) == contents(features)
