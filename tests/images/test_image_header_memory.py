"""What reading a DICOM header takes, measured in a process of its own."""

import json
import struct
import subprocess
import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import numpy as np
import pydicom
import pytest
from pydicom.dataset import Dataset
from pydicom.sequence import Sequence
from pydicom.uid import (
    ExplicitVRBigEndian,
    ExplicitVRLittleEndian,
    ImplicitVRLittleEndian,
)

from cxrtext.images.dicom.file import read_wanted
from tests.images.conftest import assert_same, gray, make_dicom, refused

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


@pytest.mark.parametrize(
    "syntax", [ExplicitVRLittleEndian, ImplicitVRLittleEndian, ExplicitVRBigEndian]
)
@pytest.mark.parametrize("undefined", [False, True])
def test_elements_around_sequences_are_found(tmp_path: Path, syntax: str, undefined: bool) -> None:
    inner, outer = Dataset(), Dataset()
    inner.CodeMeaning, inner.CodeValue = "lateral", "1"
    outer.add_new(0x00091001, "SQ", Sequence([inner, Dataset()]))
    code = Dataset()
    code.CodeMeaning = "postero-anterior"
    code.AnatomicRegionModifierSequence = Sequence([inner])
    asked, views = Sequence([outer, inner]), Sequence([code, inner])
    sequences = {"RequestAttributesSequence": asked, "ViewCodeSequence": views}
    window = {"WindowCenter": 9, "WindowWidth": 10}
    data = make_dicom(np.full((4, 6), 9, np.uint8), syntax=syntax, **sequences, **window)
    if undefined:
        dataset = pydicom.dcmread(BytesIO(data))
        for element in dataset.iterall():
            if element.VR == "SQ":
                element.is_undefined_length = True
                for item in element.value:
                    item.is_undefined_length_sequence_item = True
        buffer = BytesIO()
        dataset.save_as(buffer)
        data = buffer.getvalue()
    path = tmp_path / "x.dcm"
    path.write_bytes(data)
    header = read_wanted(path, ["Rows", "Columns", "ViewCodeSequence"]).dataset
    assert (header.Rows, header.Columns) == (4, 6)
    codes = header.ViewCodeSequence
    assert [str(one.CodeMeaning) for one in codes] == ["postero-anterior", "lateral"]
    np.testing.assert_allclose(gray(data), 0.5 + 0.5 / 9, atol=1e-6)


def test_implicit_elements_and_unknown_sequences_are_passed_over() -> None:
    plain = radiograph()
    implicit = PRIVATE + struct.pack("<L", 170) + b"Z" * 170
    unknown = PRIVATE + b"UN\0\0" + UNDEFINED + ITEM + UNDEFINED
    unknown += PRIVATE + struct.pack("<L", 4) + b"abcd" + ITEM_END + SEQUENCE_END
    for elements in (implicit, unknown, implicit + unknown):
        assert_same(with_elements(plain, elements), plain)
    no_items = PRIVATE + b"UN\0\0" + UNDEFINED + b"nothing that is an item" + SEQUENCE_END
    assert "header is damaged" in refused(with_elements(plain, no_items))
