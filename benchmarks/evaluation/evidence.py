"""Figures, report and files of an evaluation of many images, from simulated predictions.

No model and no image is involved: scores are drawn so that their AUC is about 0.9, ages, sexes and
views at random, one to five images a patient.  Each step runs in a process of its own, so that its
peak memory is its own; seconds are those of the step without Python's start.

    python benchmarks/evaluation/evidence.py FOLDER --images 100000 --findings 14
"""

import argparse
import multiprocessing
import resource
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from cxrtext.evaluation import Settings, measure_file, write_predictions
from cxrtext.evaluation.classification.classified import Classified
from cxrtext.evaluation.grounding.absence import AbsenceScores
from cxrtext.evaluation.grounding.boxes import Phrase
from cxrtext.evaluation.grounding.masks import MaskValues
from cxrtext.evaluation.grounding.phrases import MEASURES, PAPER_THRESHOLDS, PhraseValues
from cxrtext.evaluation.grounding.sides import SidedPhrase, SideScores
from cxrtext.evaluation.predictions.columns import Images
from cxrtext.evaluation.predictions.file import NAME, Part, Predictions
from cxrtext.evaluation.report import ReportOptions, write_report
from cxrtext.evaluation.retrieval.boxes import DIRECTIONS as BOX_DIRECTIONS
from cxrtext.evaluation.retrieval.boxes import BoxRanks
from cxrtext.evaluation.retrieval.sentences import DIRECTIONS, Queries, SentenceRanks

NAMES = (
    *("Atelectasis", "Cardiomegaly", "Consolidation", "Edema", "Enlarged Cardiomediastinum"),
    *("Fracture", "Lung Lesion", "Lung Opacity", "No Finding", "Pleural Effusion"),
    *("Pleural Other", "Pneumonia", "Pneumothorax", "Support Devices"),
)


def images(rng: np.random.Generator, count: int, validation: int) -> Images:
    """So many images, the last of which are validation images; one to five a patient."""
    patients = np.repeat(np.arange(count), rng.integers(1, 6, count))[:count]
    own = np.arange(count) < count - validation
    texts = [str(age) for age in rng.integers(18, 95, count)]
    return Images(
        [f"images/{place:06}.png" for place in range(count)],
        [f"s{place:06}" for place in range(count)],
        [f"p{patient:06}" for patient in patients],
        ["test" if one else "val" for one in own],
        {
            "sex": rng.choice(["F", "M"], count).tolist(),
            "age": texts,
            "view": rng.choice(["AP", "PA"], count).tolist(),
        },
    )


def simulated(count: int, findings: int) -> Predictions:
    """Predictions of so many images: every part but that of probes."""
    rng = np.random.default_rng(0)
    validation = count // 20
    those = images(rng, count + validation, validation)
    classified = scored(rng, those, NAMES[:findings])
    own = those.take(np.flatnonzero(classified.measured))
    about = {
        "cxrtext": "simulated",
        "checkpoint": "simulated",
        "fingerprint": "0" * 64,
        "data": "simulated",
        "split": "test",
        "images": count,
        "patients": len(set(own.patients)),
        "labeled": True,
        "gamma_sq": 1.0,
        "prompts": {
            name: {"positive": [name], "negative": [f"No {name}"]} for name in NAMES[:findings]
        },
        "settings": Settings().to_dict(),
        "left_out": {},
    }
    return Predictions(about, {"classification": classified, **said(rng, own, NAMES[:findings])})


def scored(rng: np.random.Generator, those: Images, names: Sequence[str]) -> Classified:
    """Scores of both prompts, whose difference has an AUC of about 0.9, and labels."""
    shape = len(names), len(those)
    truth = rng.random(shape) < np.linspace(0.02, 0.3, len(names))[:, None]
    labels = np.where(rng.random(shape) < 0.05, -2, truth).astype(np.int8)
    positive = rng.normal(size=shape) + 1.5 * truth
    negative = rng.normal(size=shape) - 1.0 * truth
    measured = np.array([split == "test" for split in those.splits])
    return Classified(tuple(names), those, positive, negative, labels, measured)


def said(rng: np.random.Generator, own: Images, names: Sequence[str]) -> dict[str, Part]:
    """A sentence an image with its box, mask, side and ranks; its mirror; and queries."""
    count = len(own)
    phrases = [
        Phrase(row, names[row % len(names)], f"sentence {row % 5000}", ((10.0, 20.0, 60.0, 40.0),))
        for row in range(count)
    ]
    overlap = rng.random((count, len(PAPER_THRESHOLDS)))
    values = rng.random((count, len(MEASURES)))
    places = np.arange(count)
    ranks = {name: rng.integers(1, count + 1, count) for name in BOX_DIRECTIONS}
    boxes = [phrase.boxes[0] for phrase in phrases]
    finding, texts = [one.finding for one in phrases], [one.text for one in phrases]
    queries = {
        name: Queries(own.names, own.patients, rng.integers(1, count + 1, count), count)
        for name in DIRECTIONS
    }
    sided = [SidedPhrase(one.row, one.finding, one.text, one.row % 2 == 0) for one in phrases]
    rows = places.tolist()
    return {
        "grounding": PhraseValues(own, phrases, values, overlap, rng.random((count, 2))),
        "sides": SideScores(
            own, sided, *rng.normal(size=(2, count)), rng.random(count).round(), "simulated"
        ),
        "masks": MaskValues(
            own, rows, finding, texts, rng.random(count) < 0.9, values[:, 0] / 5, values[:, 1],
            overlap,
        ),
        "absence": AbsenceScores(
            own, rows, finding, texts, rng.random(count) < 0.5, rng.random(count) < 0.9,
            rng.normal(size=count),
        ),
        "box retrieval": BoxRanks(own, places, finding, texts, boxes, ranks, ranks),
        "retrieval": SentenceRanks(queries),
    }  # fmt: skip


def write(folder: Path, count: int, findings: int) -> None:
    """Simulate, and write the file."""
    write_predictions(folder / NAME, simulated(count, findings))


def measure(folder: Path, count: int, findings: int) -> None:  # noqa: ARG001
    """Every figure with its interval."""
    measure_file(folder / NAME)


def report(folder: Path, count: int, findings: int) -> None:  # noqa: ARG001
    """Every figure once more, and the report with its files."""
    write_report(folder / "report", measure_file(folder / NAME), ReportOptions(pictures=False))


STEPS: dict[str, Callable[[Path, int, int], None]] = {
    "simulate and write predictions": write,
    "read, and compute every figure": measure,
    "the same, and write the report": report,
}


def timed(step: str, folder: Path, count: int, findings: int) -> None:
    """Run a step and print its seconds and peak memory."""
    start = time.perf_counter()
    STEPS[step](folder, count, findings)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"| {step} | {seconds:.1f} | {peak:.2f} |", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--findings", type=int, default=14, choices=range(1, len(NAMES) + 1))
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    print(f"{given.images} images, {given.findings} findings, as many sentences with boxes\n")
    print("| step | seconds | peak memory, GiB |\n|---|---|---|", flush=True)
    for step in STEPS:
        arguments = (step, given.folder, given.images, given.findings)
        process = multiprocessing.get_context("spawn").Process(target=timed, args=arguments)
        process.start()
        process.join()
        if process.exitcode:
            raise SystemExit(f"{step}: failed")
    size = (given.folder / NAME).stat().st_size / 2**20
    print(f"\n{NAME}: {size:.0f} MiB")


if __name__ == "__main__":
    main()
