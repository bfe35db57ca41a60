"""Images that lie turned or mirrored, pixels that are not square, and the way back to both."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from cxrtext.images import read_image_bytes
from cxrtext.images.dicom.orientation import placement_of
from cxrtext.images.placement import Placement

Make = Callable[..., bytes]
UPRIGHT = np.arange(12, dtype=np.uint8).reshape(3, 4) * 20
WINDOW = {"WindowCenter": 128, "WindowWidth": 256}


def shown(data: bytes) -> npt.NDArray[Any]:
    levels: npt.NDArray[Any] = np.rint(read_image_bytes(data, "x")[0] * 255).astype(int)
    return levels


# What a device stores, and what it writes of it.
STORED = {
    ("L", "F"): UPRIGHT,
    ("R", "F"): UPRIGHT[:, ::-1],
    ("L", "H"): UPRIGHT[::-1],
    ("R", "H"): UPRIGHT[::-1, ::-1],
    ("F", "L"): UPRIGHT.T,
    ("F", "R"): UPRIGHT[:, ::-1].T,
    ("H", "L"): UPRIGHT[::-1].T,
    ("H", "R"): UPRIGHT[::-1, ::-1].T,
}
COSINE = {
    **{"L": (1, 0, 0), "R": (-1, 0, 0), "P": (0, 1, 0)},
    **{"A": (0, -1, 0), "H": (0, 0, 1), "F": (0, 0, -1)},
}


@pytest.mark.parametrize("letters", STORED)
def test_an_image_is_shown_upright_with_left_at_the_right(
    make_dicom: Make, letters: tuple[str, str]
) -> None:
    stored = np.ascontiguousarray(STORED[letters])
    data = make_dicom(stored, PatientOrientation=list(letters), **WINDOW)
    np.testing.assert_array_equal(shown(data), UPRIGHT)
    cosines = [float(value) for letter in letters for value in COSINE[letter]]
    alone = make_dicom(stored, ImageOrientationPatient=cosines, **WINDOW)
    np.testing.assert_array_equal(shown(alone), UPRIGHT)


@pytest.mark.parametrize(
    "letters",
    [["A", "F"], ["P", "F"], ["L", "P"], ["L"], ["RF"], ["LEFT", "FOOT"], ["L", "R"], ["", ""]],
)
def test_other_planes_and_unknown_words_stay(make_dicom: Make, letters: list[str]) -> None:
    data = make_dicom(UPRIGHT, PatientOrientation=letters, **WINDOW)
    np.testing.assert_array_equal(shown(data), UPRIGHT)


def test_a_lateral_is_turned_but_never_mirrored(make_dicom: Make) -> None:
    data = make_dicom(UPRIGHT, PatientOrientation=["A", "H"], **WINDOW)
    np.testing.assert_array_equal(shown(data), UPRIGHT[::-1, ::-1])


def test_letters_win_over_cosines(make_dicom: Make) -> None:
    data = make_dicom(
        UPRIGHT,
        PatientOrientation=["LA", "FP"],
        ImageOrientationPatient=[-1, 0, 0, 0, 0, -1],
        **WINDOW,
    )
    np.testing.assert_array_equal(shown(data), UPRIGHT)


@pytest.mark.parametrize(
    ("attribute", "value", "size"),
    [
        ("PixelSpacing", [0.2, 0.1], (6, 4)),
        ("ImagerPixelSpacing", [0.1, 0.2], (3, 8)),
        ("PixelAspectRatio", [2, 1], (6, 4)),
        ("PixelSpacing", [0.2, 0.2005], (3, 4)),
        ("PixelSpacing", [0.2, 0], (3, 4)),
        ("PixelSpacing", [1e9, 1e-9], (3, 4)),
    ],
)
def test_pixels_become_square(
    make_dicom: Make, attribute: str, value: list[float], size: tuple[int, int]
) -> None:
    result = shown(make_dicom(UPRIGHT, **{attribute: value}, **WINDOW))
    assert result.shape == size
    assert abs(result.mean() - UPRIGHT.mean()) < 1


def test_a_circle_of_a_detector_with_oblong_pixels_is_round(make_dicom: Make) -> None:
    y, x = np.mgrid[0:100, 0:200]
    disc = (((y - 50) * 0.2) ** 2 + ((x - 100) * 0.1) ** 2 < 8**2).astype(np.uint8) * 255
    picture = shown(make_dicom(disc, ImagerPixelSpacing=[0.2, 0.1], **WINDOW)) > 127
    assert picture.shape == (200, 200)
    assert abs(picture.any(0).sum() - picture.any(1).sum()) <= 2


@pytest.mark.parametrize("letters", STORED)
def test_points_and_boxes_go_to_the_picture_and_back(
    make_dicom: Make, tmp_path: Path, letters: tuple[str, str]
) -> None:
    field = np.zeros((40, 60), dtype=np.uint8)
    field[8:12, 30:40] = 255
    path = tmp_path / "x.dcm"
    path.write_bytes(
        make_dicom(field, PatientOrientation=list(letters), PixelSpacing=[0.1, 0.2], **WINDOW)
    )
    place = placement_of(path)
    assert place is not None
    image = read_image_bytes(path.read_bytes(), "x")[0]
    assert image.shape == (place.height, place.width)
    x, y, w, h = place.boxes_to_shown([30, 8, 10, 4])
    rows, columns = np.nonzero(image > 0.5)
    found = [columns.min(), rows.min(), np.ptp(columns) + 1, np.ptp(rows) + 1]
    np.testing.assert_allclose([x, y, w, h], found, atol=1)
    np.testing.assert_allclose(place.boxes_to_stored([x, y, w, h]), [30, 8, 10, 4])
    points = [[0.0, 0.0], [60.0, 40.0], [31.5, 9.5]]
    np.testing.assert_allclose(place.points_to_stored(place.points_to_shown(points)), points)


def test_a_movement_is_named() -> None:
    assert Placement(2, 3, 2, 3).plain
    assert Placement(2, 3, 2, 3, mirrored=True).movement == "mirrored"
    assert Placement(2, 3, 2, 3, mirrored=True, inverted=True).movement == "turned"
    assert Placement(2, 3, 3, 2, transposed=True, mirrored=True).movement == "turned"
    assert Placement(2, 3, 3, 2, transposed=True).movement == "mirrored"
    assert not Placement(2, 3, 3, 2, transposed=True).stretched
    assert Placement(2, 3, 4, 3).stretched
