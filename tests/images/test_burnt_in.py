import subprocess
from shutil import which
from typing import Any, NoReturn

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from cxrtext.errors import UnavailableError
from cxrtext.images import burnt_in
from cxrtext.images.burnt_in import Bytes, burnt_in_text, need_tesseract

installed = pytest.mark.skipif(which("tesseract") is None, reason="tesseract is not installed")


def film(
    text: str = "", *, size: int = 32, place: tuple[int, int] = (20, 20), box: int = 10
) -> Bytes:
    """A made-up chest, [1100, 1000], with text white on black, or black on white, at (x, y)."""
    y, x = np.mgrid[-1:1:1100j, -1:1:1000j]
    lungs = sum(np.exp(-(((x - side) / 0.28) ** 2) - (y / 0.55) ** 2) for side in (-0.42, 0.42))
    noise = np.random.default_rng(0).normal(0, 5, x.shape)
    image = Image.fromarray(np.clip(190 - 140 * lungs + noise, 0, 255).astype(np.uint8))
    if text:
        pen, font = ImageDraw.Draw(image), ImageFont.load_default(size)
        left, top, right, bottom = pen.textbbox(place, text, font=font)
        pen.rectangle((left - 9, top - 9, right + 9, bottom + 9), fill=box)
        pen.text(place, text, fill=245 - box, font=font)
    return np.asarray(image)


@pytest.fixture
def no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> NoReturn:
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "run", fail)


@installed
@pytest.mark.parametrize("box", [10, 240])
@pytest.mark.parametrize(
    ("text", "seems"),
    [
        ("MUELLER, ANNA", "a name"),
        ("ZIMMERMANN", "a name"),
        ("03.11.1950", "a date"),
        ("1950-11-03", "a date"),
        ("12 MAR 1950", "a date"),
        ("4471902", "a number"),
        ("AP PORTABLE", ""),
        ("70 kV 2.5 mAs", ""),
        ("R MKL", ""),
    ],
)
def test_what_names_a_patient_is_told_from_what_markers_say(
    text: str, seems: str, box: int
) -> None:
    assert burnt_in_text(film(text, box=box)) == seems


@installed
@pytest.mark.parametrize(("size", "place"), [(18, (700, 1060)), (60, (300, 20)), (26, (20, 560))])
def test_names_are_found_in_every_margin_and_size(size: int, place: tuple[int, int]) -> None:
    assert burnt_in_text(film("WEBER, OLGA", size=size, place=place)) == "a name"


@installed
def test_a_name_as_dicom_writes_it_is_found_though_a_caret_is_misread() -> None:
    assert burnt_in_text(film("KOWALSKI^PETER")) == "a name"


@pytest.mark.usefixtures("no_process")
@pytest.mark.parametrize("text", ["", "L", "R"])
def test_a_film_with_a_side_letter_or_none_starts_no_process(text: str) -> None:
    assert burnt_in_text(film(text, size=60)) == ""


def test_without_tesseract_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(burnt_in, "which", {}.get)
    with pytest.raises(UnavailableError, match="apt install tesseract-ocr"):
        need_tesseract()
    with pytest.raises(UnavailableError, match="apt install tesseract-ocr"):
        burnt_in_text(film("WEBER, OLGA"))
