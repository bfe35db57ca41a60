"""Images that lie turned or mirrored, the way back to both, and pictures for people."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from cxrtext.images import render_overlay
from cxrtext.images.dicom.orientation import placement_of
from tests.images.conftest import gray, make_dicom

UPRIGHT = np.arange(12, dtype=np.uint8).reshape(3, 4) * 20
WINDOW = {"WindowCenter": 128, "WindowWidth": 256}


def shown(data: bytes) -> npt.NDArray[Any]:
    levels: npt.NDArray[Any] = np.rint(gray(data) * 255).astype(int)
    return levels


# What a device stores, and what it writes of it.
STORED = {
    ("L", "F"): UPRIGHT, ("R", "F"): UPRIGHT[:, ::-1], ("L", "H"): UPRIGHT[::-1],
    ("R", "H"): UPRIGHT[::-1, ::-1], ("F", "L"): UPRIGHT.T, ("F", "R"): UPRIGHT[:, ::-1].T,
    ("H", "L"): UPRIGHT[::-1].T, ("H", "R"): UPRIGHT[::-1, ::-1].T,
}  # fmt: skip
COSINE = {
    **{"L": (1, 0, 0), "R": (-1, 0, 0), "P": (0, 1, 0)},
    **{"A": (0, -1, 0), "H": (0, 0, 1), "F": (0, 0, -1)},
}


@pytest.mark.parametrize("letters", STORED)
def test_an_image_is_shown_upright_with_left_at_the_right(letters: tuple[str, str]) -> None:
    stored = np.ascontiguousarray(STORED[letters])
    cosines = [float(value) for letter in letters for value in COSINE[letter]]
    alone = make_dicom(stored, ImageOrientationPatient=cosines, **WINDOW)
    np.testing.assert_array_equal(shown(alone), UPRIGHT)


def test_a_lateral_is_turned_but_never_mirrored_and_letters_win_over_cosines() -> None:
    data = make_dicom(UPRIGHT, PatientOrientation=["A", "H"], **WINDOW)
    np.testing.assert_array_equal(shown(data), UPRIGHT[::-1, ::-1])
    said = {"PatientOrientation": ["LA", "FP"], "ImageOrientationPatient": [-1, 0, 0, 0, 0, -1]}
    np.testing.assert_array_equal(shown(make_dicom(UPRIGHT, **said, **WINDOW)), UPRIGHT)


@pytest.mark.parametrize("spacing", [[0.2, 0.2005], [0.2, 0], [1e9, 1e-9]])
def test_pixels_that_are_nearly_square_or_impossible_stay(spacing: list[float]) -> None:
    data = make_dicom(UPRIGHT, PixelSpacing=spacing, **WINDOW)
    np.testing.assert_array_equal(shown(data), UPRIGHT)


@pytest.mark.parametrize("letters", STORED)
def test_points_and_boxes_go_to_the_picture_and_back(
    tmp_path: Path, letters: tuple[str, str]
) -> None:
    field = np.zeros((40, 60), dtype=np.uint8)
    field[8:12, 30:40] = 255
    path = tmp_path / "x.dcm"
    path.write_bytes(
        make_dicom(field, PatientOrientation=list(letters), PixelSpacing=[0.1, 0.2], **WINDOW)
    )
    place = placement_of(path)
    assert place is not None
    image = gray(path.read_bytes())
    assert image.shape == (place.height, place.width)
    x, y, w, h = place.boxes_to_shown([30, 8, 10, 4])
    rows, columns = np.nonzero(image > 0.5)
    found = [columns.min(), rows.min(), np.ptp(columns) + 1, np.ptp(rows) + 1]
    np.testing.assert_allclose([x, y, w, h], found, atol=1)
    np.testing.assert_allclose(place.boxes_to_stored([x, y, w, h]), [30, 8, 10, 4])
    points = [[0.0, 0.0], [60.0, 40.0], [31.5, 9.5]]
    np.testing.assert_allclose(place.points_to_stored(place.points_to_shown(points)), points)


def test_nan_leaves_the_radiograph_untouched_and_heat_colors_it() -> None:
    image = np.full((1, 60, 80), 0.5, np.float32)
    heat = np.full((60, 80), np.nan, np.float32)
    heat[10:50, 20:60] = np.linspace(-1, 1, 40)
    before = heat.copy()
    picture = render_overlay(image, heat)
    pixels = np.asarray(picture).astype(int)
    assert (picture.mode, picture.size) == ("RGB", (80, 60))
    undefined = np.isnan(heat)
    assert (pixels[undefined] == 128).all()
    assert pixels[30, 20].tolist() == [128, 128, 128]
    # the hottest: 0.4 of the gray, 0.6 of pale yellow
    wanted = np.rint(0.4 * 128 + 0.6 * np.array([252, 255, 164]))
    assert np.abs(pixels[30, 59] - wanted).max() <= 1
    change = np.abs(pixels[30, 20:60] - 128).max(axis=-1)
    assert (change[5:20] <= change[25:40]).all()
    np.testing.assert_array_equal(heat, before)


def test_boxes_and_peak_are_drawn_in_place() -> None:
    image = np.full((1, 200, 200), 0.5, np.float32)
    heat = np.full((200, 200), np.nan, np.float32)
    pixels = np.asarray(render_overlay(image, heat, boxes=[(20, 30, 100, 60)], peak=(160, 160)))
    changed = (pixels != 128).any(axis=-1)
    ys, xs = np.nonzero(changed[:130, :140])
    assert (xs.min(), ys.min(), xs.max(), ys.max()) == (20, 30, 119, 89)
    assert not changed[40:80, 30:110].any()
    ys, xs = np.nonzero(changed[130:])
    assert abs(xs.mean() - 160) < 1
    assert abs(ys.mean() + 130 - 160) < 1
    outside = render_overlay(image, heat, boxes=[(-50, -50, 1000, 0)], peak=(-9, 900))
    assert outside.size == (200, 200)
