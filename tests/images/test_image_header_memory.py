"""What reading a DICOM header takes, measured in a process of its own."""

import json
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.images.conftest import make_dicom

MEASURED = """
import json, sys
from pathlib import Path
import imagecodecs, pydicom.filereader
from cxrtext.datasets.importing import ImportOptions, import_folder

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) >> 10

before = peak()
done = import_folder(Path(sys.argv[1]), Path(sys.argv[2]), ImportOptions())
print(json.dumps([[done.images, done.damaged], before, peak()]))
"""
UNDEFINED = b"\xff\xff\xff\xff"
ITEM, ITEM_END = b"\xfe\xff\x00\xe0", b"\xfe\xff\x0d\xe0\0\0\0\0"
SEQUENCE_END = b"\xfe\xff\xdd\xe0\0\0\0\0"
PRIVATE = b"\x09\x00\x10\x10"


def measured(folder: Path) -> tuple[list[int], int]:
    """Import a folder; gives how many images and damaged files it had, and MiB at the peak."""
    if not Path("/proc/self/status").is_file():
        pytest.skip("memory is read from /proc")
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, str(folder), str(folder.parent / "out")],
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    found, before, peak = json.loads(done.stdout)
    return found, peak - before


def radiograph(number: int = 1, **options: object) -> bytes:
    return make_dicom(
        np.full((8, 8), number, np.uint16),
        SOPInstanceUID=f"1.2.3.{number}",
        StudyInstanceUID=f"1.2.9.{number}",
        PatientID=f"MRN{number}",
        ViewPosition="PA",
        **options,
    )


def with_elements(data: bytes, elements: bytes) -> bytes:
    """Put elements of group 0009 where they belong."""
    place = data.index(b"\x10\x00\x20\x00LO")
    return data[:place] + elements + data[place:]


def bombs() -> Iterator[tuple[str, bytes]]:
    plain = radiograph(2)
    items = PRIVATE + b"SQ\0\0" + UNDEFINED + (ITEM + bytes(4)) * 400_000 + SEQUENCE_END
    yield "items", with_elements(plain, items)
    nested = (PRIVATE + b"SQ\0\0" + UNDEFINED + ITEM + UNDEFINED) * 50_000
    yield "nested", with_elements(plain, nested)
    views = b"\x54\x00\x20\x02SQ\0\0" + UNDEFINED + (ITEM + bytes(4)) * 200_000 + SEQUENCE_END
    pixels = plain.index(b"\xe0\x7f\x10\x00")
    yield "view codes", plain[:pixels] + views + plain[pixels:]
    many = struct.pack("<HH2sH", 9, 0x1010, b"LO", 0) * 1_500_000
    yield "elements", with_elements(plain, many)


def test_bombs_in_a_folder_to_be_imported_take_little_memory(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "a.dcm").write_bytes(radiograph())
    for name, bomb in bombs():
        (folder / f"{name}.dcm").write_bytes(bomb)
    found, grown = measured(folder)
    assert found == [1, 4]
    assert grown < 150  # MiB
