import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from cxrtext.errors import ImageError, WorkError
from cxrtext.images import Preprocessing, ReaderPool, cache_store, read_image
from cxrtext.images.cache import DecodedCache
from cxrtext.images.cache_store import remove_cache
from cxrtext.images.reader_pool import ReadImage
from tests.grids import some

SIZES = Preprocessing(resize=24, crop=16)


def make_images(folder: Path, count: int = 6) -> list[Path]:
    folder.mkdir(exist_ok=True)
    paths = [folder / f"{i}.png" for i in range(count)]
    for i, path in enumerate(paths):
        pixels = np.random.default_rng(i).integers(0, 255, (40 + i, 50)).astype(np.uint8)
        Image.fromarray(pixels).save(path)
    return paths


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    return make_images(tmp_path / "set")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are decoded; here, not in other processes."""
    names: list[str] = []

    class Counting(ReaderPool):
        def __init__(self, _: int | None = None) -> None:
            super().__init__(0)

        def prepare(self, path: Path, square: Preprocessing) -> ReadImage:
            names.append(path.name)
            return super().prepare(path, square)

    monkeypatch.setattr("cxrtext.images.cache.ReaderPool", Counting)
    return names


def expected(path: Path, sizes: Preprocessing = SIZES) -> np.ndarray[Any, Any]:
    return sizes.square(read_image(path))


def squares(
    folder: Path, paths: list[Path], say: Callable[[str], None] = print, **options: Any
) -> list[ReadImage | ImageError]:
    return list(DecodedCache(folder, say).read(paths, SIZES, **options))


def refusals(found: Iterable[ReadImage | ImageError]) -> list[str]:
    return [str(one) for one in found if isinstance(one, ImageError)]


def check(found: list[ReadImage | ImageError], paths: list[Path]) -> None:
    for image, path in zip(found, paths, strict=True):
        assert isinstance(image, ReadImage)
        assert np.array_equal(image.pixels, expected(path))
        assert (image.height, image.width) == read_image(path).shape[1:]


def test_a_second_run_decodes_nothing(paths: list[Path], folder: Path, decoded: list[str]) -> None:
    check(squares(folder, paths), paths)
    assert decoded == [path.name for path in paths]
    check(squares(folder, paths), paths)
    filled = DecodedCache(folder).fill(paths, SIZES)
    assert len(decoded) == len(paths)
    for slot, path in zip(filled.slots, paths, strict=True):
        assert np.array_equal(filled.pixels[slot], expected(path)[0])


def test_other_processes_read_the_same_and_what_is_kept_is_for_its_owner_alone(
    paths: list[Path], folder: Path
) -> None:
    with pytest.raises(ValueError, match="workers"):
        squares(folder, paths, processes=-1)
    assert not folder.exists()
    check(squares(folder, paths, processes=2, ahead=3), paths)
    # What is kept is for its owner alone.
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for file in folder.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file.name
    assert len(list(folder.glob("*.u8"))) == 1


def test_equal_files_are_decoded_once_whatever_their_names(
    paths: list[Path], folder: Path, decoded: list[str], tmp_path: Path
) -> None:
    twins = [Path(shutil.copy(path, tmp_path / f"twin {path.name}")) for path in paths]
    check(squares(folder, [*paths, *twins]), [*paths, *twins])
    assert len(decoded) == len(paths)
    moved = [path.rename(tmp_path / f"moved {path.name}") for path in paths]
    check(squares(folder, moved), moved)
    filled = DecodedCache(folder).fill([*moved, *twins], SIZES)
    assert filled.slots[: len(paths)].tolist() == filled.slots[len(paths) :].tolist()
    assert len(decoded) == len(paths)


def test_an_unchanged_file_is_not_hashed_again(
    paths: list[Path], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    squares(folder, paths)  # so young that a change might not show: their digests are not noted
    monkeypatch.setattr(cache_store, "YOUNG_NS", -1)
    squares(folder, paths)
    monkeypatch.setattr("cxrtext.images.cache.digest_of", None)  # would not be callable
    check(squares(folder, paths), paths)


def test_a_changed_file_is_decoded_again(
    paths: list[Path], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_store, "YOUNG_NS", -1)
    squares(folder, paths)
    before = paths[0].stat()
    shutil.copy(paths[1], paths[0])
    os.utime(paths[0], ns=(before.st_atime_ns, before.st_mtime_ns))
    check(squares(folder, paths), paths)


def test_squares_of_another_size_or_kind_are_kept_apart(
    paths: list[Path], folder: Path, decoded: list[str]
) -> None:
    kinds = [
        SIZES,
        Preprocessing(32, 32),
        Preprocessing(24, 16, resample="bicubic", fit="stretch"),
        Preprocessing(24, 16, resample="bicubic", fit="center"),
        Preprocessing(24, 17, resample="bicubic", fit="center"),
    ]
    for _ in range(2):
        for wanted in kinds:
            found = list(DecodedCache(folder).read(paths, wanted))
            for path, image in zip(paths, found, strict=True):
                assert isinstance(image, ReadImage)
                assert np.array_equal(image.pixels, expected(path, wanted))
    # The crop and the normalization are not part of a square.
    check(list(DecodedCache(folder).read(paths, Preprocessing(24, 20, mean=0, std=1))), paths)
    assert len(decoded) == len(kinds) * len(paths)
    names = sorted(path.name for path in folder.iterdir() if path.is_dir())
    assert names == ["bicubic-center", "bicubic-center-odd", "bicubic-stretch"]
    assert stat.S_IMODE((folder / "bicubic-center").stat().st_mode) == 0o700
    check(squares(folder, paths), paths)


def test_what_cannot_be_read_is_told_in_every_run(
    paths: list[Path], folder: Path, decoded: list[str], tmp_path: Path
) -> None:
    paths[1].write_bytes(b"no image")
    asked = [*paths, tmp_path / "missing.png"]
    first = refusals(squares(folder, asked))
    decoded.clear()
    assert refusals(squares(folder, asked)) == first
    assert decoded == [paths[1].name, "missing.png"]
    with ReaderPool(0) as pool:
        assert refusals(pool.map(asked)) == first
    failed: dict[int, str] = {}
    filled = DecodedCache(folder).fill(asked, SIZES, reject=failed.__setitem__)
    assert failed == dict(zip([1, 6], first, strict=True))
    assert filled.slots[[1, 6]].tolist() == [-1, -1]
    shutil.copy(paths[0], paths[1])
    check(squares(folder, paths), paths)


def meanwhile(patch: pytest.MonkeyPatch, do: Callable[[Path], object]) -> None:
    """Do something to each file just before it is decoded."""
    plain = ReaderPool.prepare

    def late(pool: ReaderPool, path: Path, square: Preprocessing) -> ReadImage:
        do(path)
        return plain(pool, path, square)

    patch.setattr(ReaderPool, "prepare", late)


def test_a_file_that_changes_while_it_is_read_is_not_kept(
    paths: list[Path], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def more(path: Path) -> None:
        with path.open("ab") as handle:
            handle.write(b"more")

    with monkeypatch.context() as patch:
        meanwhile(patch, more)
        (found,) = squares(folder, paths[:1], processes=0)
        assert "changed while it was read" in str(found)
    check(squares(folder, paths, processes=0), paths)


def pixel_file(folder: Path) -> Path:
    (path,) = folder.glob("*.u8")
    return path


@pytest.mark.parametrize(
    ("damage", "again"),
    [
        (lambda f: os.truncate(pixel_file(f), 24 * 24 * 4 + 100), 2),
        (lambda f: pixel_file(f).unlink(), 6),
        (lambda f: os.truncate(pixel_file(f).with_suffix(".places"), 64 * 4 + 40), 2),
        (lambda f: pixel_file(f).with_suffix(".places").write_bytes(os.urandom(640)), 6),
    ],
)
def test_what_is_cut_off_or_gone_is_decoded_again(
    paths: list[Path], folder: Path, decoded: list[str], damage: Any, again: int
) -> None:
    squares(folder, paths)
    decoded.clear()
    damage(folder)
    for _ in range(2):
        check(squares(folder, paths), paths)
        assert len(decoded) == again


def test_a_cache_in_use_is_not_removed(paths: list[Path], folder: Path) -> None:
    reading = DecodedCache(folder).read(paths, SIZES, ahead=1)
    next(reading)
    with pytest.raises(WorkError, match="another process uses .* wait for it to end"):
        remove_cache(folder)
    reading.close()  # type: ignore[attr-defined]
    check(squares(folder, paths), paths)
    remove_cache(folder)
    assert list(folder.iterdir()) == []


def test_a_full_disk_is_one_line_and_costs_nothing_kept(
    paths: list[Path], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, room = os.pwrite, [24 * 24 * 3 + 100]

    def full(handle: int, data: memoryview, place: int) -> int:
        if room[0] == 0:
            raise OSError(28, "No space left on device")
        written = write(handle, data[: room[0]], place)
        room[0] -= written
        return written

    with monkeypatch.context() as patch:
        patch.setattr("cxrtext.images.cache_store.os.pwrite", full)
        with pytest.raises(WorkError, match="no space left on device.*make room") as error:
            squares(folder, paths)
    assert "\n" not in str(error.value)
    check(squares(folder, paths), paths)


FILL = """
import sys
from pathlib import Path
from cxrtext.images import Preprocessing, cache_store
from cxrtext.images.cache import DecodedCache
cache_store._PENDING_BYTES = 24 * 24 * 7
paths = sorted(Path(sys.argv[1]).iterdir())[::int(sys.argv[3])]
print("begun", flush=True)
cache = DecodedCache(Path(sys.argv[2]))
list(cache.read(paths, Preprocessing(resize=24, crop=16), processes=0))
"""


def filling(folder: Path, many: Path, step: int = 1) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-c", FILL, str(many), str(folder), str(step)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return process


@pytest.mark.parametrize("moment", some([0.03, 0.0, 0.01, 0.06, 0.1], 5))
def test_a_killed_process_leaves_whole_squares(
    folder: Path, decoded: list[str], moment: float, tmp_path: Path
) -> None:
    paths = sorted(make_images(tmp_path / "many", 200))
    with filling(folder, tmp_path / "many") as process:
        time.sleep(moment)
        process.send_signal(signal.SIGKILL)
    check(squares(folder, paths), paths)
    assert pixel_file(folder).stat().st_size == len(paths) * 24 * 24
    decoded.clear()
    check(squares(folder, paths), paths)
    assert not decoded


def test_two_processes_add_at_a_time(folder: Path, decoded: list[str], tmp_path: Path) -> None:
    paths = sorted(make_images(tmp_path / "many", 120))
    with filling(folder, tmp_path / "many") as one, filling(folder, tmp_path / "many", -1) as other:
        assert (one.wait(600), other.wait(600)) == (0, 0)
    assert pixel_file(folder).stat().st_size == len(paths) * 24 * 24, "each is kept once"
    check(squares(folder, paths), paths)
    assert not decoded
