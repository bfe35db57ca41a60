"""From attenuation to gray values: scatter, quantum noise, and what each site's device makes of it.

Sites differ in contrast curve, dynamic-range compression, edge enhancement, dose, side marker,
collimation and the text burnt into the picture, as real devices do.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from cxrtext.phantom.shapes import Map, blur, coarse, strokes

LETTERS: dict[str, list[list[tuple[float, float]]]] = {
    "L": [[(0, 0), (0, 1), (0.6, 1)]],
    "R": [
        [(0, 1), (0, 0), (0.55, 0), (0.62, 0.25), (0.5, 0.5), (0, 0.5)],
        [(0.25, 0.5), (0.65, 1)],
    ],
}
"""The strokes of the side markers, in letter heights."""


@dataclass(frozen=True, slots=True)
class Scanner:
    """One site's device and habits."""

    center: float  # where the contrast curve is steepest, 0 to 1 of the range of densities
    width: float  # width of the curve; a narrow one gives a hard picture
    gamma: float  # exponent that follows the curve; above 1 darkens the middle
    even: float  # how far slow changes of density are leveled out, 0 to 1
    sharpen: float  # edge enhancement
    grain: float  # quantum noise at 512 pixels
    scatter: float  # scattered light that reaches the detector
    marker: float  # height of the side marker's letter; negative for one in a lead ring
    text: bool  # whether the view is burnt into a corner
    shutter: float  # largest collimated border, as a share of the side


SCANNERS = (
    Scanner(0.52, 0.240, 1.00, 0.28, 0.35, 0.008, 0.05, 0.042, False, 0.03),
    Scanner(0.50, 0.270, 1.05, 0.40, 0.65, 0.010, 0.04, -0.034, True, 0.0),
    Scanner(0.56, 0.205, 0.92, 0.18, 0.10, 0.012, 0.08, 0.055, False, 0.05),
    Scanner(0.52, 0.240, 0.95, 0.45, 0.55, 0.006, 0.05, 0.036, True, 0.02),
    Scanner(0.54, 0.215, 1.10, 0.30, 0.20, 0.016, 0.09, -0.040, False, 0.06),
    Scanner(0.49, 0.300, 1.20, 0.22, 0.90, 0.009, 0.06, 0.030, True, 0.0),
)
"""The sites."""

SHARE = np.cumsum([0.30, 0.22, 0.16, 0.14, 0.10, 0.08])


def site(patient_key: tuple[int, ...]) -> int:
    """The site where a patient is seen, an index of ``SCANNERS``."""
    place = float(np.random.default_rng([*patient_key, 77]).random())
    return min(int(np.searchsorted(SHARE, place, side="right")), len(SCANNERS) - 1)


def marker(scanner: Scanner, generator: np.random.Generator, size: int) -> Map:
    """Attenuation of the lead letter that marks a side of the patient, [size, size]."""
    letter = "R" if generator.random() < 0.6 else "L"
    side = round(0.16 * size)
    # Drawn on a small sheet of its own, which is much faster.
    tall = abs(scanner.marker) * size
    x = y = 0.5 * side - 0.5 * tall
    lines = [
        ([(x + px * tall, y + py * tall) for px, py in path], 0.19 * tall, 1.0)
        for path in LETTERS[letter]
    ]
    if scanner.marker < 0:
        turns, ring = np.linspace(0.0, 2 * np.pi, 25), 0.95 * tall
        center = x + 0.3 * tall, y + 0.5 * tall
        path = [(center[0] + ring * np.cos(t), center[1] + ring * np.sin(t)) for t in turns]
        lines.append((path, 0.10 * tall, 1.0))
    column = 0.03 if letter == "R" else 0.81
    left, top = (
        round(float(generator.uniform(low, low + 0.04)) * size) for low in (column - 0.02, 0.03)
    )
    sheet = np.zeros((size, size), np.float32)
    sheet[top : top + side, left : left + side] = np.float32(1.3) * strokes(side, lines)
    return sheet


def expose(
    total: Map, clean: Map, scanner: Scanner, generator: np.random.Generator, noise: float = 1.0
) -> Map:
    """Turn attenuation into gray values: scatter, quantum noise, processing, contrast curve.

    Args:
        clean: The same without findings; brightness and leveling are taken from it, so that a
            finding changes nothing far from itself.
    """
    size = total.shape[0]
    jitter = [float(x) for x in generator.uniform((-0.03, 0.9, 0.8), (0.03, 1.1, 1.3))]
    light = np.exp(np.float32(-2.2) * total)
    light = light + np.float32(scanner.scatter) * coarse(np.minimum(light, np.float32(0.4)), 12)
    # Quanta are counted on the detector, so a coarser picture holds more of them a pixel.
    grain = generator.standard_normal((size, size), dtype=np.float32)
    sharpness = np.float32(scanner.grain * jitter[2] * noise * size / 512)
    if size >= 384:
        # The scintillator spreads light over neighboring pixels.
        grain = blur(grain, 1.0) * np.float32(2.3)
    seen = light + grain * sharpness * np.sqrt(light)
    density = np.log(np.maximum(seen, np.float32(2e-3))) * np.float32(1 / -2.2)
    low, high = _range(clean)
    small = coarse(np.clip(clean, np.float32(low), np.float32(1.7)), 12)
    density -= np.float32(scanner.even) * (small - np.float32(0.5 * (low + high)))
    density += np.float32(scanner.sharpen) * (density - coarse(density, 110))
    shown = (density - np.float32(low)) * np.float32(1.0 / (high - low))
    return _curve(shown, scanner.center + jitter[0], scanner.width * jitter[1], scanner.gamma)


def _range(clean: Map) -> tuple[float, float]:
    """The densities that the picture's contrast is set for: those of lungs and abdomen."""
    step = max(1, clean.shape[0] // 64)
    body = clean[::step, ::step]
    body = np.sort(body[body > 0.25])
    low, high = (float(body[int(share * (len(body) - 1))]) for share in (0.04, 0.97))
    return low - 0.13, high + 0.05


def _curve(shown: Map, center: float, width: float, gamma: float) -> Map:
    """A sigmoid that is 0 at and below 0, and 1 at and above 1."""
    ends = [1.0 / (1.0 + np.exp((center - x) / width)) for x in (-0.22, 1.06)]
    value = 1.0 / (1.0 + np.exp((np.float32(center) - shown) * np.float32(1.0 / width)))
    value = (value - np.float32(ends[0])) * np.float32(1.0 / (ends[1] - ends[0]))
    value = np.clip(value, 0.0, 1.0)
    return np.asarray(value ** np.float32(gamma) if gamma != 1.0 else value, np.float32)


def finish(picture: Map, scanner: Scanner, generator: np.random.Generator, view: str) -> Map:
    """Blacken what the collimator shut out, and burn in the text."""
    size = picture.shape[0]
    borders = generator.uniform(-0.6, 1.0, size=4) * scanner.shutter * size
    top, bottom, left, right = (max(0, round(float(border))) for border in borders)
    if max(top, bottom, left, right):
        picture = picture.copy()
        picture[:top], picture[size - bottom :] = 0.0, 0.0
        picture[:, :left], picture[:, size - right :] = 0.0, 0.0
    if not scanner.text:
        return picture
    words = ("AP PORTABLE", "AP SITTING") if view == "AP" else ("PA ERECT", "PA")
    text = words[int(generator.random() < 0.5)]
    return np.maximum(picture, _lettering(text, size, bool(generator.random() < 0.5)))


@cache
def _font() -> ImageFont.ImageFont:
    return ImageFont.load_default_imagefont()  # a bitmap, the same on every machine


def _lettering(text: str, size: int, at_left: bool) -> Map:
    """Text in a lower corner, [size, size] in [0, 1]."""
    font = _font()
    left, top, right, bottom = font.getbbox(text)
    label = Image.new("L", (int(right - left) + 2, int(bottom - top) + 2))
    ImageDraw.Draw(label).text((1, 1), text, fill=230, font=font)
    factor = size / 512
    wide, tall = max(8, round(label.width * factor)), max(4, round(label.height * factor))
    label = label.resize((wide, tall), Image.Resampling.BILINEAR)
    canvas = Image.new("L", (size, size))
    edge = round(0.025 * size)
    canvas.paste(label, (edge if at_left else size - wide - edge, size - tall - edge))
    return np.asarray(canvas, np.float32) / np.float32(255.0)
