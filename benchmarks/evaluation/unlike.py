"""How often images and sentences are flagged as unlike those that a model was trained on.

    python benchmarks/evaluation/unlike.py CHECKPOINT DATA [--split test] [--others FOLDER]...
        [--reports FILE]
    python benchmarks/evaluation/unlike.py CHECKPOINT DATA --trained-on DATA ...

DATA is a data folder of the kind that the model was trained on; its split was held out, "all" for
a folder of new images.  FOLDER holds others: data folders with a ``manifest.csv``, DICOM files
(grouped by modality, every frame of one), and ``.npz`` files of pictures (``x_test``).  FILE has
reports of another archive.  With ``--trained-on`` the statistics are those of a model that was
trained on that folder and sees images as the checkpoint does.
"""

import argparse
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cxrtext.errors import CxrTextError
from cxrtext.evaluation.data import sentences_beside
from cxrtext.evaluation.familiar import familiar_of
from cxrtext.evaluation.intervals.proportions import proportion_interval
from cxrtext.images.read import read_image
from cxrtext.models import ImageTextModel, load_model
from cxrtext.models.familiar import Familiar, familiar_beside
from cxrtext.models.regions import read_squares
from cxrtext.records import read_manifest

Pictures = list[NDArray[np.uint8]]

SOME = 300  # pictures of an .npz
MOST_FRAMES = 64

TYPED = """
    pneumothorax; left effusion; right pneumothorax; large left pleural effusion; cardiomegaly;
    small right pleural effusion; enlarged heart; clear lungs; no pneumothorax; no effusion;
    pulmonary edema; consolidation; atelectasis; left lower lobe consolidation; pneumonia;
    right upper lobe pneumonia; pacemaker; chest tube; endotracheal tube; nodule; lung nodule;
    mass; rib fracture; emphysema; bilateral effusions; bilateral pleural effusions; normal chest;
    normal heart size; lungs are clear; heart size is normal; opacity; left lung opacity; edema;
    right lower lobe opacity; fracture; is there a pneumothorax?; tiny apical pneumothorax;
    moderate cardiomegaly; mild edema; elevated hemidiaphragm; central line; feeding tube;
    left chest tube; interstitial edema; hyperinflated lungs; basilar atelectasis; scoliosis;
    no acute process; no focal consolidation; effusion right
"""
NONSENSE = """
    asdf qwerty; qwertz uiop; the stock market fell; I like pizza; hello world; xkcd; foo bar baz;
    lorem ipsum dolor sit amet; buy cheap tickets now; the cat sat on the mat; aaaaaaa; blah blah;
    What is the capital of France?; SELECT * FROM users; cristiano ronaldo; my car is broken; zzz;
    the weather is nice today; please reset my password; a dog on a beach; red sports car; jkl;
    two people riding bicycles; import numpy as np; to be or not to be; 1234 5678; happy birthday;
    das Wetter ist schön; la vie en rose; the president spoke on television; the right to vote;
    turn left at the traffic lights; a large pizza with cheese; no parking; small talk;
    heart of gold; clear skies tomorrow; normal people like music; line dancing;
    tube station closed
"""


def _listed(text: str) -> list[str]:
    return [" ".join(one.split()) for one in text.split(";") if one.split()]


def _row(name: str, flags: Iterable[bool]) -> None:
    given = list(flags)
    low, high = proportion_interval(given)
    print(f"| {name} | {len(given)} | {np.mean(given):.3f} ({low:.3f}–{high:.3f}) |")


def _drawn(own: Pictures) -> Iterator[tuple[str, Pictures]]:
    """Pictures made of nothing, and of the own ones."""
    rng = np.random.default_rng(0)
    shape = own[0].shape
    yield "uniform noise", [rng.integers(0, 256, shape).astype(np.uint8) for _ in range(50)]
    soft = [np.clip(rng.normal(128, 30, shape), 0, 255).astype(np.uint8) for _ in range(50)]
    yield "normal noise", soft
    yield "one gray value", [np.full(shape, gray, np.uint8) for gray in range(0, 256, 15)]
    yield "own, inverted", [255 - one for one in own]
    yield "own, left and right exchanged", [one[..., ::-1] for one in own]
    for quarters in (1, 2, 3):
        turned = [np.rot90(one, quarters, (1, 2)) for one in own]
        yield f"own, turned by {90 * quarters}°", turned


def _of_folder(folder: Path, split: str, model: ImageTextModel) -> Pictures:
    records = read_manifest(folder / "manifest.csv", allow_outside=True)
    paths = [r.path for r in records if split in ("all", r.split)]
    read = read_squares(model.spec.preprocessing, paths)
    return [one for one in read if not isinstance(one, str)]


def _modalities(folder: Path) -> dict[str, list[NDArray[np.float32]]]:
    import pydicom

    found: dict[str, list[NDArray[np.float32]]] = defaultdict(list)
    for path in sorted(folder.rglob("*.dcm")):
        try:
            header = pydicom.dcmread(path, stop_before_pixels=True, force=True)
            frames = int(header.get("NumberOfFrames", 1) or 1)
            wanted = range(min(frames, MOST_FRAMES)) if frames > 1 else (None,)
            some = [read_image(path, frame=frame) for frame in wanted]
        except (CxrTextError, OSError, ValueError):
            continue
        found[f"DICOM {header.get('Modality', '?')}"] += some
    return found


def images(
    model: ImageTextModel, familiar: Familiar, data: Path, split: str, others: Sequence[Path]
) -> None:
    """Print the share of each kind of image that is flagged."""
    prepare = model.spec.preprocessing

    def flags(pictures: Pictures) -> list[bool]:
        found = familiar.of_squares([np.ascontiguousarray(one) for one in pictures], prepare)
        return [one is not None and one.flagged for one in found]

    own = _of_folder(data, split, model)
    print("| images | | share flagged |\n|---|---|---|")
    _row("own kind, held out", flags(own))
    for folder in others:
        for manifest in sorted(folder.glob("*/manifest.csv")):
            if manifest.parent != data:
                _row(manifest.parent.name, flags(_of_folder(manifest.parent, "all", model)))
        for kind, gray in sorted(_modalities(folder).items()):
            _row(kind, flags([prepare.square(one) for one in gray]))
        for file in sorted(folder.glob("*.npz")):
            some = np.load(file)["x_test"][:SOME].astype(np.float32) / 255
            some = some.mean(axis=-1) if some.ndim == 4 else some
            _row(file.stem, flags([prepare.square(one[None]) for one in some]))
    for name, drawn in _drawn(own):
        _row(name, flags(drawn))


def sentences(familiar: Familiar, data: Path, split: str, reports: Path | None) -> None:
    """Print the share of each kind of sentence that is flagged."""

    def flags(asked: Iterable[str]) -> list[bool]:
        found = (familiar.of_sentence(one) for one in asked)
        return [one is not None and one.flagged for one in found]

    records = read_manifest(data / "manifest.csv", allow_outside=True)
    studies = {r.study_id for r in records if split in ("all", r.split)}
    said = sentences_beside(data / "manifest.csv") or []
    own = {one.sentence for one in said if one.study_id in studies}
    known = {one.sentence for one in said if one.study_id not in studies}
    draw = random.Random(0)  # noqa: S311
    letters = "abcdefghijklmnopqrstuvwxyz"

    def word() -> str:
        return "".join(draw.choice(letters) for _ in range(draw.randint(3, 9)))

    words = sorted({word for one in own for word in one.lower().split() if word.isalpha()})
    print("\n| sentences | | share flagged |\n|---|---|---|")
    _row("held out, distinct", flags(sorted(own)))
    if known:
        _row("of these, in no other study", flags(sorted(own - known)))
    _row("typed queries", flags(_listed(TYPED)))
    _row("nonsense and other subjects", flags(_listed(NONSENSE)))
    _row("two words of random letters", flags([f"{word()} {word()}" for _ in range(300)]))
    mixed = [" ".join(draw.choices(words, k=draw.randint(3, 9))) for _ in range(300)]
    _row("words of the reports, at random", flags(mixed))
    if reports is not None:
        other = sentences_beside(data / "manifest.csv", reports) or []
        _row(f"{reports.parent.name}, distinct", flags(sorted({one.sentence for one in other})))
    for text, wanted in ((TYPED, True), (NONSENSE, False)):
        wrong = [one for one, flag in zip(_listed(text), flags(_listed(text)), strict=True)
                 if flag == wanted]  # fmt: skip
        print(f"{'flagged' if wanted else 'not flagged'}: {', '.join(wrong) or 'none'}")


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--split", default="test")
    parser.add_argument("--others", type=Path, action="append", default=[])
    parser.add_argument("--trained-on", type=Path)
    parser.add_argument("--reports", type=Path)
    given = parser.parse_args()
    model = load_model(given.checkpoint)
    if given.trained_on:
        familiar = familiar_of(given.trained_on, model.spec.preprocessing, allow_outside=True)
    else:
        familiar = familiar_beside(model)
    if familiar is None:
        raise SystemExit(f"{given.checkpoint}: does not say what it was trained on")
    images(model, familiar, given.data, given.split, given.others)
    sentences(familiar, given.data, given.split, given.reports)


if __name__ == "__main__":
    main()
