"""Reading in processes of their own: the same results, and what happens when one is lost."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from pydicom.uid import JPEG2000Lossless, JPEGLosslessSV1, RLELossless

from cxrtext.errors import ImageError
from cxrtext.images import (
    Preprocessing,
    ReaderPool,
    read_image,
    read_image_bytes,
    sandbox,
    to_uint8,
)
from cxrtext.images.read import decode_image
from cxrtext.images.reader_pool import ReadImage
from tests.images.conftest import make_dicom
from tests.waiting import gone, until

pytestmark = pytest.mark.usefixtures("without_kept_readers")

# A worker in which files of some names do what no test file can be made to do on every machine.
PRELUDE = """
import os, signal, time
import cxrtext.images.reader_pool as worker
honest = worker.stored_bytes
def misbehave(path):
    if path.name == "hang": time.sleep(600)
    if path.name == "crash": os.kill(os.getpid(), signal.SIGSEGV)
    if path.name == "leave": os._exit(3)
    if path.name == "raise": raise LookupError("CANARY")
    if path.name == "starve": raise MemoryError
    while path.name == "spin": pass
    return honest(path)
worker.stored_bytes = misbehave
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    values = np.add.outer(np.arange(40), np.arange(48)).astype(np.uint16) * 40
    for name, syntax in (("rle", RLELossless), ("ll", JPEGLosslessSV1), ("j2k", JPEG2000Lossless)):
        (tmp_path / f"{name}.dcm").write_bytes(make_dicom(values, stored=12, syntax=syntax))
    Image.fromarray(values.astype(np.uint8)).save(tmp_path / "gray.png")
    (tmp_path / "none.txt").write_bytes(b"nothing")
    return tmp_path


@pytest.fixture
def misbehaving(monkeypatch: pytest.MonkeyPatch) -> None:
    program = sandbox._PROGRAM
    monkeypatch.setattr(
        sandbox, "_PROGRAM", program.replace("from cxrtext", f"exec({PRELUDE!r}); from cxrtext", 1)
    )


def outcome(read: Callable[[Path], np.ndarray[Any, Any]], path: Path) -> bytes | str:
    try:
        return read(path).tobytes()
    except ImageError as error:
        return str(error)


def test_results_and_refusals_equal_those_of_this_process(folder: Path) -> None:
    paths = [*sorted(folder.iterdir()), folder / "missing.png"]
    wanted = [outcome(read_image, path) for path in paths]
    with ReaderPool(2) as pool:
        single = [outcome(pool.read, path) for path in paths]
        several = [
            str(one) if isinstance(one, ImageError) else one.pixels.tobytes()
            for one in pool.map(paths * 5)
        ]
        sent = pool.view_bytes(paths[0].read_bytes(), "x")
        assert not pool.lost
    assert single == wanted
    assert several == wanted * 5
    np.testing.assert_array_equal(sent, to_uint8(read_image(paths[0])))
    with ReaderPool(0) as here:
        assert [outcome(here.read, path) for path in paths] == wanted


def test_squares_are_those_of_the_floats_that_are_read(folder: Path) -> None:
    rng = np.random.default_rng(4)
    signed = rng.integers(-2048, 2048, (30, 41)).astype(np.int16)
    color = rng.integers(0, 256, (9, 8, 3)).astype(np.uint8)
    sigmoid = {"WindowCenter": 3, "WindowWidth": 900, "VOILUTFunction": "SIGMOID"}
    made = {
        "mono1": make_dicom(signed, stored=12, photometric="MONOCHROME1"),
        "sigmoid": make_dicom(signed, stored=12, **sigmoid),
        "rgb": make_dicom(color, photometric="RGB"),
        "ybr": make_dicom(color, photometric="YBR_FULL"),
    }
    for name, data in made.items():
        (folder / name).write_bytes(data)
    gray = Image.fromarray(rng.integers(0, 256, (20, 30)).astype(np.uint8))
    for mode in ("RGB", "RGBA", "P", "1", "LA"):
        gray.convert(mode).save(folder / f"{mode}.png")
    Image.fromarray(rng.integers(0, 4096, (20, 30)).astype(np.uint16)).save(folder / "deep.png")
    sizes = Preprocessing(resize=16, crop=12)
    paths = [path for path in sorted(folder.iterdir()) if path.suffix != ".txt"]
    paths.remove(folder / "j2k.dcm")  # which is decoded smaller, see below
    for workers in (1, 0):
        with ReaderPool(workers) as pool:
            for path, image in zip(paths, pool.map(paths, square=sizes), strict=True):
                assert isinstance(image, ReadImage), path
                wanted = sizes.square(read_image(path))
                np.testing.assert_array_equal(image.pixels, wanted, err_msg=path.name)


@pytest.mark.parametrize("letters", ["L\\F", "F\\R"])
def test_a_jpeg_2000_is_decoded_no_larger_than_its_square_needs(letters: str) -> None:
    rows, columns = np.mgrid[:301, :403]
    waves = 0.5 + 0.4 * np.sin(columns / 9) * np.cos(rows / 14)
    values = np.rint(waves * 4095).astype(np.uint16)
    header = {"PatientOrientation": letters.split("\\"), "WindowCenter": 2048, "WindowWidth": 4096}
    data = make_dicom(values, stored=12, syntax=JPEG2000Lossless, **header)
    whole = read_image_bytes(data, "x")
    small = decode_image(data, "x", least=75)
    assert small.size == whole.shape[1:]
    assert min(small.pixels.shape) in (75, 76, 150, 151)
    sizes = Preprocessing(resize=75, crop=75)
    with ReaderPool(0) as pool:
        found = pool.prepare_bytes(data, "x", sizes, whole=True)
    assert (found.height, found.width) == whole.shape[1:]
    assert found.whole is not None
    np.testing.assert_array_equal(found.whole[0], to_uint8(whole))
    far = np.abs(found.pixels.astype(int) - sizes.square(whole))
    assert far.mean() < 1
    assert far.max() < 6
    # A filter of elsewhere gets what the whole picture gives.
    other = Preprocessing(resize=75, crop=75, resample="bicubic", fit="center")
    assert other.least is None


@pytest.mark.parametrize(
    ("name", "reason", "message"),
    [
        ("crash", "SIGSEGV", "made its reader process end (SIGSEGV)"),
        ("leave", "exit 3", "made its reader process end (exit 3)"),
        pytest.param("hang", "wall clock", "was not decoded within 6 s; ", marks=pytest.mark.slow),
        ("spin", "computing time", "was not decoded within 3 s of computing; "),
        ("raise", "exception LookupError", "cannot be decoded; "),
        ("starve", "memory", "needs more than 1024 MiB to be decoded; "),
    ],
)
@pytest.mark.usefixtures("misbehaving")
def test_a_lost_reader_costs_one_file(folder: Path, name: str, reason: str, message: str) -> None:
    good, bad = folder / "rle.dcm", folder / name
    wall = 6.0 if name == "hang" else 600.0
    # A busy machine may take a second over the good files.
    seconds = 3.0 if name == "spin" else 10.0
    with ReaderPool(2, memory_bytes=2**30, seconds=seconds, wall_seconds=wall) as pool:
        results = list(pool.map([good, bad, good, good, good]))
        assert dict(pool.lost) == {reason: 1}
        np.testing.assert_array_equal(pool.read(good), read_image(good))
    assert [isinstance(one, ImageError) for one in results] == [False, True, False, False, False]
    said = str(results[1])
    assert said.startswith(f"{bad}: {message}")
    assert "CANARY" not in said
    assert "\n" not in said


def test_memory_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "wide.png"
    Image.new("L", (9000, 9000)).save(path, compress_level=1)
    path.write_bytes(path.read_bytes() + bytes(2**21))  # no picture of a few bytes
    with ReaderPool(1, memory_bytes=2**28) as pool:
        with pytest.raises(ImageError, match=r"wide\.png: needs more than 256 MiB to be decoded"):
            pool.read(path)
        assert dict(pool.lost) == {"memory": 1}
    with pytest.raises(ValueError, match="256 MiB"):
        ReaderPool(1, memory_bytes=2**20)


@pytest.mark.usefixtures("misbehaving")
def test_closing_ends_what_is_running(folder: Path) -> None:
    pool = ReaderPool(1)
    with ThreadPoolExecutor(1) as thread:
        reading = thread.submit(pool.read, folder / "hang")
        until(lambda: pool._running)
        pool.close()
        assert isinstance(reading.exception(600), ImageError)
    assert not pool.lost
    with pytest.raises(ValueError, match="closed"):
        pool.read(folder / "gray.png")


# No guard around the main script, which the readers must not run a second time.
SCRIPT = f"""
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
from pathlib import Path
from cxrtext.images import ReaderPool, sandbox
sandbox._PROGRAM = sandbox._PROGRAM.replace(
    "from cxrtext", "exec({{!r}}); from cxrtext".format({PRELUDE!r}), 1)
with ReaderPool(2) as pool:
    good, bad = Path(sys.argv[1]), Path(sys.argv[2])
    pool.read(good)
    list(pool.map([good] * 20))
    print(*[process._process.pid for process in pool._running], flush=True)
    list(pool.map([bad] * 6))
"""


@pytest.fixture
def parent(folder: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(folder / "gray.png"), str(folder / "hang")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        process.kill()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
@pytest.mark.parametrize("kind", [signal.SIGKILL, signal.SIGINT])
def test_readers_end_with_their_parent(parent: subprocess.Popen[str], kind: signal.Signals) -> None:
    assert parent.stdout is not None
    assert parent.stderr is not None
    pids = [int(one) for one in parent.stdout.readline().split()]
    assert pids
    time.sleep(0.2)
    parent.send_signal(kind)
    parent.wait(600)
    until(lambda: all(map(gone, pids)))
    if kind == signal.SIGINT:
        assert parent.stderr.read().rstrip().endswith("KeyboardInterrupt")


def echo(request: object, data: bytes) -> tuple[object, bytes]:
    return request, data[::-1]
