"""How well names burnt into margins are found, what else is held, and how long a film takes.

    python benchmarks/images/burnt_in.py [FOLDER] --films 300

It takes films as they are, with a side letter or marker, and with a made-up name, date or number
in their margins: PNG, JPEG and DICOM files of a folder, enlarged where they are small, or drawn
films.  Films that are held as they are stand in their own row alone.  Needs tesseract-ocr.
"""

import argparse
import random
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from cxrtext.errors import ImageError
from cxrtext.images.burnt_in import burnt_in_text, need_tesseract
from cxrtext.images.read import decode_image
from cxrtext.phantom import draw_phantom
from cxrtext.phantom.studies import draw_studies

Film = npt.NDArray[np.uint8]

FIRST = re.findall(
    "[A-Z][a-z]+",
    "Anna Maria Peter John Mehmet Olga Juan Sophie Lars Fatima Chen Paolo Ingrid Tomasz Heinz "
    "Gudrun Nguyen Kwame Priya Dmitri Elif Brigitte Sven",
)
LAST = re.findall(
    "[A-Z][a-z]+",
    "Mueller Smith Garcia Yilmaz Novak Rossi Dubois Hansen Kowalski Weber Ochoa Baker Schneider "
    "Okafor Petrov Andersson Tanaka Ferreira Khan Lefebvre Zimmermann Horvath Demir Krueger",
)
MARKERS = re.findall(
    "[^;]+",
    "L;R;L;R;L;R;LEFT;RIGHT;PA;AP;PORTABLE;ERECT;SUPINE;STEHEND;LIEGEND;12:30;AB;MKL;R PA;"
    "AP PORTABLE;70 kV 2.5 mAs;R 08:45",
)
LEAST = 1500  # pixels of a film's longer side


def films(folder: Path | None, count: int) -> Iterator[Film]:
    """Films as they are shown, [H, W]."""
    if folder is None:
        for study in draw_studies(count, seed=35)[:count]:
            yield np.rint(draw_phantom(study.patient, LEAST)[0] * 255).astype(np.uint8)
        return
    paths = sorted(folder.rglob("*.*"))
    random.Random(35).shuffle(paths)  # noqa: S311
    for path in paths:
        try:
            shown = decode_image(path.read_bytes(), str(path)).bytes()[0]
        except (ImageError, OSError):
            continue
        if (scale := LEAST / max(shown.shape)) > 1:
            size = round(shown.shape[1] * scale), round(shown.shape[0] * scale)
            shown = np.asarray(Image.fromarray(shown).resize(size, Image.Resampling.BICUBIC))
        yield shown
        if not (count := count - 1):
            return


def patient(chance: random.Random) -> str:
    first, last = chance.choice(FIRST), chance.choice(LAST)
    d, m, y = chance.randint(1, 28), chance.randint(1, 12), chance.randint(1925, 2015)
    name: str = chance.choice([f"{last}, {first}", f"{first} {last}", f"{last}^{first}", last])
    date = chance.choice([f"{d:02}.{m:02}.{y}", f"{y}-{m:02}-{d:02}", f"{d} MAR {y}"])
    name = name if chance.random() < 0.3 else name.upper()
    return chance.choice([name, name, name, name, date, str(chance.randint(10**5, 10**9))])


def burn(film: Film, text: str, chance: random.Random) -> Film:
    """Write into a margin: on what is there, as can be read, or on black or white."""
    image, way = Image.fromarray(film), chance.randrange(3)
    pen, font = ImageDraw.Draw(image), ImageFont.load_default(chance.choice([20, 26, 34, 48]))
    left, top, right, bottom = (round(one) for one in pen.textbbox((0, 0), text, font=font))
    x = chance.choice([15, image.width - right - 15, (image.width - right) // 2])
    y = chance.choice([15, image.height - bottom - 15])
    if way:
        box = (x + left - 8, y + top - 8, x + right + 8, y + bottom + 8)
        pen.rectangle(box, fill=(0, 8, 245)[way])
    dark = film[y : y + bottom, x : x + right].mean() > 110 if way == 0 else way == 2
    pen.text((x, y), text, fill=15 if dark else chance.choice([255, 235, 200]), font=font)
    return np.asarray(image)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, help="of films; left out: drawn ones")
    parser.add_argument("--films", type=int, default=300)
    given = parser.parse_args()
    need_tesseract()
    chance = random.Random(36)  # noqa: S311
    held: dict[str, Counter[str]] = {
        "as it is": Counter(),
        "marker": Counter(),
        "patient": Counter(),
    }
    spent: dict[str, list[float]] = {kind: [] for kind in held}
    for film in films(given.folder, given.films):
        texts = {"as it is": "", "marker": chance.choice(MARKERS), "patient": patient(chance)}
        for kind, text in texts.items():
            shown = burn(film, text, chance) if text else film
            begun = time.perf_counter()
            found = burnt_in_text(shown)
            spent[kind].append(1000 * (time.perf_counter() - begun))
            held[kind][found] += 1
            if found and not text:
                break
    print(
        "| film | films | held | as | ms, median | ms, 95th percentile |\n|---|---|---|---|---|---|"
    )
    for kind, counts in held.items():
        nothing, total = counts.pop("", 0), len(spent[kind])
        said = ", ".join(f"{name} {count}" for name, count in counts.most_common())
        middle, late = np.percentile(spent[kind], [50, 95])
        print(f"| {kind} | {total} | {total - nothing} | {said} | {middle:.1f} | {late:.0f} |")


if __name__ == "__main__":
    main()
