"""What reading a DICOM header takes, measured in a process of its own."""

import json
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pydicom
import pytest
from pydicom.dataset import Dataset
from pydicom.sequence import Sequence
from pydicom.uid import (
    DeflatedExplicitVRLittleEndian,
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
from cxrtext.errors import CxrTextError
from cxrtext.images import read_image

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) >> 10

before, folder, out = peak(), Path(sys.argv[1]), Path(sys.argv[2])
if sys.argv[3] == "import":
    done = import_folder(folder, out, ImportOptions())
    found = [done.images, done.damaged]
else:
    found = []
    for path in sorted(folder.iterdir()):
        try:
            found.append(list(read_image(path).shape))
        except CxrTextError as error:
            found.append(str(error).removeprefix(f"{path}: "))
print(json.dumps([found, before, peak()]))
"""
UNDEFINED = b"\xff\xff\xff\xff"
ITEM, ITEM_END = b"\xfe\xff\x00\xe0", b"\xfe\xff\x0d\xe0\0\0\0\0"
SEQUENCE_END = b"\xfe\xff\xdd\xe0\0\0\0\0"
PRIVATE = b"\x09\x00\x10\x10"


def measured(folder: Path, what: str) -> tuple[list[object], int]:
    """Import a folder or read its files; gives what came of it, and MiB at the peak."""
    if not Path("/proc/self/status").is_file():
        pytest.skip("memory is read from /proc")
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, str(folder), str(folder.parent / "out"), what],
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


def body_of(data: bytes) -> int:
    """Where the elements after the file's header begin."""
    return 144 + int.from_bytes(data[140:144], "little")


def with_elements(data: bytes, elements: bytes) -> bytes:
    """Put elements of group 0009 where they belong."""
    place = data.index(b"\x10\x00\x20\x00LO")
    return data[:place] + elements + data[place:]


def deflated(data: bytes, flush: int = zlib.Z_FINISH) -> bytes:
    packer = zlib.compressobj(9, wbits=-15)
    return packer.compress(data) + packer.flush(flush)


def with_zeros(before: bytes, size: int, after: bytes) -> bytes:
    """Deflated data with many zeros in their midst, in pieces of 4 MiB, which are all the same."""
    zeros = deflated(bytes(2**22), zlib.Z_FULL_FLUSH) * (size >> 22)
    return deflated(before, zlib.Z_FULL_FLUSH) + zeros + deflated(after)


def bombs() -> Iterator[tuple[str, bytes]]:
    plain = radiograph(2)
    size = 400 * 2**20
    head = PRIVATE + b"UN\0\0" + struct.pack("<L", size)
    place = plain.index(b"\x10\x00\x20\x00LO")
    packed = with_zeros(plain[body_of(plain) : place] + head, size, plain[place:])
    start = radiograph(2, syntax=DeflatedExplicitVRLittleEndian)
    yield "deflated", start[: body_of(start)] + packed
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
        assert name != "deflated" or len(bomb) < 2**19
        (folder / f"{name}.dcm").write_bytes(bomb)
    found, grown = measured(folder, "import")
    # The private sequence is passed over, however long; the other four are damaged.
    assert found == [2, 4]
    assert grown < 150  # MiB; the deflated one alone took 830


def test_a_deflated_bomb_that_is_read_takes_what_its_picture_needs(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "bomb.dcm").write_bytes(next(bombs())[1])
    whole = radiograph(syntax=DeflatedExplicitVRLittleEndian)
    start = body_of(whole)
    inflated = zlib.decompress(whole[start:], -15)
    longer = whole[:start] + with_zeros(inflated, 300 * 2**20, b"")
    (folder / "longer.dcm").write_bytes(longer)
    (folder / "sound.dcm").write_bytes(whole)
    (bomb, after, sound), grown = measured(folder, "read")
    assert bomb == "its header is longer than 32 MiB; export it again"
    bound = int(str(after).removeprefix("inflates to more than ").split()[0])
    assert len(inflated) < bound < len(inflated) + 2**21  # what its picture needs
    assert sound == [1, 8, 8]
    assert grown < 150


def test_a_conformant_deflated_header_is_inflated_no_further_than_it_is_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its transfer syntax has an even number of letters, and so no zero after it."""
    path, pixels = tmp_path / "x.dcm", np.zeros((3000, 3000), np.uint16)
    path.write_bytes(make_dicom(pixels, syntax=DeflatedExplicitVRLittleEndian))
    never = Mock(side_effect=AssertionError("was inflated whole"))
    monkeypatch.setattr(zlib, "decompress", never)
    header = read_wanted(path, ["Rows"])
    assert header.syntax == DeflatedExplicitVRLittleEndian
    assert header.dataset.Rows == 3000


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


def test_implicit_elements_and_values_without_items_are_passed_over() -> None:
    plain = radiograph()
    implicit = PRIVATE + struct.pack("<L", 70) + b"Z" * 70
    no_items = PRIVATE + b"UN\0\0" + UNDEFINED + b"nothing that is an item" + SEQUENCE_END
    unknown = PRIVATE + b"UN\0\0" + UNDEFINED + ITEM + UNDEFINED
    unknown += PRIVATE + struct.pack("<L", 4) + b"abcd" + ITEM_END + SEQUENCE_END
    for elements in (implicit, no_items, unknown, implicit + unknown + no_items):
        assert_same(with_elements(plain, elements), plain)


def test_a_long_element_is_refused() -> None:
    plain = radiograph()
    place = plain.index(b"\x28\x00\x10\x00US")
    samples = b"\x28\x00\x08\x00UT\0\0" + struct.pack("<L", 2**17) + b"1" * 2**17
    said = refused(plain[:place] + samples + plain[place:])
    assert "an element of its header is too long" in said
