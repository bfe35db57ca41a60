"""Pictures that no ray has made: pages, screens, noise, and scenes as a camera sees them."""

import string

import numpy as np
from PIL import Image, ImageDraw

from cxrtext.phantom.foreign.canvas import clouds, disc, grid_of
from cxrtext.phantom.shapes import Map

_LETTERS = list(string.ascii_letters + string.digits)


def _array(canvas: Image.Image) -> Map:
    return np.asarray(canvas, dtype=np.float32) / 255


def _words(generator: np.random.Generator, count: int) -> str:
    letters = generator.choice(_LETTERS, (count, 12))
    return " ".join("".join(word[: generator.integers(2, 12)]) for word in letters)


def text(generator: np.random.Generator, size: int) -> Map:
    """A page of text, black on white or white on black."""
    canvas, r = Image.new("L", (size, size), 255), generator
    draw = ImageDraw.Draw(canvas)
    margin, step = int(r.uniform(0.02, 0.2) * size), int(max(9, r.uniform(0.07, 0.16) * size))
    for top in range(margin, size - step, step):
        if r.random() < 0.85:
            draw.text((margin, top), _words(r, int(r.integers(1, 9))), fill=int(r.integers(0, 120)))
    page = _array(canvas)
    return 1 - page if r.random() < 0.4 else page


def screen(generator: np.random.Generator, size: int) -> Map:
    """Windows, tables, bars and plots."""
    r = generator
    canvas = Image.new("L", (size, size), int(r.integers(0, 256)))
    draw = ImageDraw.Draw(canvas)
    for _ in range(r.integers(3, 16)):
        x, y = (int(one) for one in r.integers(0, size, 2))
        w, h = (int(one) for one in r.integers(size // 16, size, 2))
        fill, line = (int(one) for one in r.integers(0, 256, 2))
        draw.rectangle([x, y, x + w, y + h], fill=fill if r.random() < 0.7 else None, outline=line)
        if r.random() < 0.5:
            draw.text((x + 2, y + 2), _words(r, 3), fill=line)
    if r.random() < 0.4:
        heights = np.cumsum(r.normal(0, 0.06, size)) * size + size / 2
        draw.line(
            [(i, float(y)) for i, y in enumerate(heights)], fill=int(r.integers(256)), width=2
        )
    return _array(canvas)


def noise(generator: np.random.Generator, size: int) -> Map:
    """White, blurred or striped noise."""
    r = generator
    choice = r.integers(4)
    if choice == 0:
        return r.random((size, size))
    if choice == 1:
        first = int(2 ** r.uniform(1, 5))
        return 0.5 + r.uniform(0.1, 0.4) * clouds(r, size, (first, 2 * first))
    if choice == 2:
        rows = np.repeat(r.random((size, 1)), size, axis=1)
        return rows if r.random() < 0.5 else rows.T
    return (r.random((size, size)) < r.uniform(0.02, 0.5)).astype(np.float32)


def gradient(generator: np.random.Generator, size: int) -> Map:
    """A ramp, a spot, steps or one gray, with a little noise or none."""
    g, r = grid_of(generator, size, turn=3.2), generator
    choice = r.integers(5)
    if choice == 0:
        values = g.u
    elif choice == 1:
        values = np.hypot(g.u, g.v) * r.choice([-1, 1])
    elif choice == 2:
        values = np.floor(g.u * r.integers(2, 8))
    elif choice == 3:
        values = np.sign(np.sin(g.u * r.uniform(3, 20)) * np.sin(g.v * r.uniform(3, 20)))
    else:
        values = np.zeros_like(g.u)
    spread = np.ptp(values) or 1.0
    scaled = (values - values.min()) / spread * r.uniform(0.2, 1) + r.uniform(0, 0.3)
    grain = float(r.choice([0.0, 0.0, 0.02, 0.1]))
    return np.asarray(scaled + grain * r.normal(size=scaled.shape))


def scene(generator: np.random.Generator, size: int) -> Map:
    """Shaded things before a ground, as photographs have them; mirror images are as likely."""
    g, r = grid_of(generator, size, turn=0.5), generator
    picture = r.uniform(0.2, 0.8) + r.uniform(-0.3, 0.3) * g.v + r.uniform(0, 0.2) * clouds(r, size)
    if r.random() < 0.5:
        horizon = r.uniform(-0.5, 0.6) + 0.1 * clouds(r, size, (2, 4))
        picture = np.where(g.v > horizon, picture * r.uniform(0.3, 1.5), picture)
    for _ in range(r.integers(1, 8)):
        place, radii = tuple(r.uniform(-0.9, 0.9, 2)), tuple(r.uniform(0.1, 0.8, 2))
        thing = disc(g, place, radii, edge=r.uniform(0.03, 0.3))
        shade = r.uniform(0, 1) + r.uniform(-0.4, 0.4) * g.u + r.uniform(0, 0.2) * clouds(r, size)
        if r.random() < 0.4:
            bar = np.abs(g.u - place[0]) < radii[0]
            thing = (bar & (np.abs(g.v - place[1]) < radii[1])).astype(float)
        picture = picture * (1 - thing) + thing * shade
    return picture


def digit(generator: np.random.Generator, size: int) -> Map:
    """A letter or a few, large, white on black or black on white."""
    r = generator
    small = Image.new("L", (16, 16), 0)
    ImageDraw.Draw(small).text((5, 2), str(r.choice(_LETTERS)), fill=255)
    box = small.getbbox() or (0, 0, 16, 16)
    pad = int(r.integers(0, 8))
    cut = small.crop((box[0] - pad, box[1] - pad, box[2] + pad, box[3] + pad))
    page = _array(cut.rotate(r.uniform(-20, 20)).resize((size, size), Image.Resampling.BICUBIC))
    return 1 - page if r.random() < 0.3 else page
