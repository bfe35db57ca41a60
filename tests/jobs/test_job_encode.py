"""Images encoded by a backbone: the same bytes whoever stops it, and nothing lost or made up."""

import csv
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from cxrtext.errors import ConfigError, DataError, NotFoundError, WorkError
from cxrtext.files.storage import open_storage
from cxrtext.images import read_image
from cxrtext.images.cache import DecodedCache
from cxrtext.jobs.driver import EveryNth, Running
from cxrtext.jobs.encode import begin as beginning
from cxrtext.jobs.encode.begin import EncodeOptions
from cxrtext.jobs.encode.encoder import BATCH, Encoder
from cxrtext.jobs.encode.job import Encoded, encode_images
from cxrtext.jobs.status import job_status
from cxrtext.models.backbones import load_backbone
from cxrtext.models.features import FeatureMap, open_features
from cxrtext.models.features.folder import BESIDE_BYTES
from cxrtext.models.regions import normalized
from tests.waiting import until

OPTIONS = EncodeOptions(grid=4, reduce=5, views=2, shard=32)


def encode(
    archive: Path, backbone: Path, folder: Path, options: EncodeOptions = OPTIONS
) -> Encoded:
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
    assert (len(found), found.views, found.shape) == (109, 2, (side, side, 5))
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
    views = found.of([0, 0], [0, 1])
    assert not np.array_equal(views[0], views[1])
    status = job_status(open_storage(features))
    assert (status.kind, status.is_done, status.rejected) == (
        "encode", True, 1,
    )  # fmt: skip


def test_views_follow_from_the_name_of_an_image_and_not_from_its_company(
    archive_folder: Path, tiny_backbone: Path
) -> None:
    model = load_backbone(tiny_backbone)
    names = [f"images/a{i:03d}.png" for i in range(BATCH + 3)]
    squares = [model.preprocessing.square(read_image(archive_folder / name)) for name in names]
    made, encoder = FeatureMap(model.channels), Encoder(model, views=3, seed=4)
    whole = encoder.features(squares[:BATCH], names[:BATCH], made)
    few = encoder.features(squares[5:8], names[5:8], made)
    assert np.array_equal(few, whole[5:8])
    turned = encoder.features(squares[BATCH - 1 :: -1], names[BATCH - 1 :: -1], made)
    assert np.array_equal(turned[::-1], whole)
    other = Encoder(model, views=3, seed=5).features(squares[:BATCH], names[:BATCH], made)
    assert np.array_equal(other[:, 0], whole[:, 0])
    assert not np.array_equal(other[:, 1], whole[:, 1])


def test_parts_a_stop_and_a_lost_shard_give_the_same_bytes(
    features: Path, archive_folder: Path, tiny_backbone: Path, tmp_path: Path
) -> None:
    folder, manifest = tmp_path / "features", archive_folder / "manifest.csv"
    half = Running(part=EveryNth(2, 2))
    encoded = encode_images(manifest, tiny_backbone, folder, OPTIONS, half)
    assert encoded.features is None
    assert encoded.status is not None
    assert encoded.status.shards_done == 2
    with pytest.raises(NotFoundError, match=r"not finished; go on with 'cxrtext encode .*manifest"):
        open_features(folder)
    encoded = encode(archive_folder, tiny_backbone, folder)
    assert encoded.estimate is None  # it had been begun
    assert contents(folder) == contents(features)
    told: list[tuple[str, int, int]] = []
    again = encode_images(
        manifest, tiny_backbone, folder, OPTIONS, stage=lambda *one: told.append(one)
    )
    assert again.features is not None
    assert told == [("listing", done, 110) for done in (32, 64, 96, 110)]  # each is checked
    shard = next((folder / "shards").glob("000001.*"))
    shard.write_bytes(shard.read_bytes()[:-9])
    next((folder / "shards").glob("000002.*")).unlink()
    (folder / "images.csv").unlink()
    encode(archive_folder, tiny_backbone, folder)
    assert contents(folder) == contents(features)


def test_a_cache_is_used_and_gives_the_same(
    features: Path, archive_folder: Path, tiny_backbone: Path, tmp_path: Path
) -> None:
    paths = sorted((archive_folder / "images").glob("*.png"))
    shape = load_backbone(tiny_backbone).preprocessing
    list(DecodedCache(tmp_path / "cache").read(paths[:60], shape, processes=1))
    kept = {path: path.stat().st_size for path in (tmp_path / "cache").glob("*.u8")}
    encode(
        archive_folder, tiny_backbone, tmp_path / "F", replace(OPTIONS, cache=tmp_path / "cache")
    )
    assert contents(tmp_path / "F") == contents(features)
    assert {path: path.stat().st_size for path in (tmp_path / "cache").glob("*.u8")} == kept


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"grid": 3}, r"another --grid \(4, now 3\)"),
        ({"views": 1}, "another --views"),
        ({"seed": 1}, "another --seed"),
        ({"reduce": None}, r"another --reduce \(5, now null\)"),
        ({"threads": 2}, "another threads"),
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
    with pytest.raises(DataError, match=r"1 images cannot be read, more than --max-rejected 0; .*"):
        encode(archive_folder, tiny_backbone, tmp_path / "F", options)
    with (tmp_path / "F/rejected.csv").open(newline="") as handle:
        (row,) = csv.DictReader(handle)
    assert row["item"] == "images/a070.png"
    assert "no PNG, JPEG or DICOM" in row["reason"]


def test_it_is_estimated_and_refused_where_the_disk_is_too_small(
    archive_folder: Path, tiny_backbone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest, said = archive_folder / "manifest.csv", list[str]()
    running = Running(say=said.append)
    encoded = encode_images(
        manifest, tiny_backbone, tmp_path / "F", OPTIONS, running, only_estimate=True
    )
    assert not (tmp_path / "F").exists()
    estimate = encoded.estimate
    assert estimate is not None
    side = min(4, load_backbone(tiny_backbone).grid[0])
    assert estimate.bytes == 110 * (2 * side * side * 5 * 2 + BESIDE_BYTES)
    assert estimate.image_seconds > 0
    assert said == [estimate.line()]
    monkeypatch.setattr(beginning, "free_bytes", lambda _: 1000)
    with pytest.raises(WorkError, match="features of 110 images take .* make room"):
        encode(archive_folder, tiny_backbone, tmp_path / "F")
    assert not (tmp_path / "F").exists()


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


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"views": 0}, "--views 0: must be at least 1"),
        ({"reduce": 10_000}, "--reduce 10000: the backbone has"),
    ],
)
def test_options_out_of_range_are_refused(
    archive_folder: Path, tiny_backbone: Path, tmp_path: Path, change: dict[str, object], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        encode(archive_folder, tiny_backbone, tmp_path / "F", replace(OPTIONS, **change))  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_killed_command_ends_with_the_same_bytes(
    features: Path, archive_folder: Path, tiny_backbone: Path, tmp_path: Path
) -> None:
    """The driver is killed as soon as there is a shard, its workers with it; then it goes on."""
    folder = tmp_path / "features"
    words = [
        "encode", archive_folder / "manifest.csv", "--backbone", tiny_backbone, "--out", folder,
    ]  # fmt: skip
    how = ["--grid", 4, "--reduce", 5, "--views", 2, "--shard", 32, "--workers", 1]
    command = [sys.executable, "-c", "from cxrtext_cli.main import main; main()"]
    command += [*map(str, [*words, *how]), "--device", "cpu", "--json"]
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: any((folder / "shards").glob("0*")) or first.poll() is not None)
    first.kill()
    first.wait()
    assert not (folder / "features.json").exists()
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["finished"]
    assert answer["estimate"] is None
    assert answer["job"]["rejected"] == 1
    assert contents(folder) == contents(features)
