"""Whether `verify` tells a study's own sentences from those of the opposite finding.

    python benchmarks/verify.py CHECKPOINT DATA

DATA is a phantom data folder with ``truth.csv``.  Every test image is asked about its own
sentences on a finding, and about as many of other test studies that say the opposite of it.
"""

import csv
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

from cxrtext.evaluation import area_under_curve
from cxrtext.records import read_manifest
from cxrtext.service import load_service
from cxrtext.service.verify.verify import verify
from cxrtext.text.wording import wording

AXES = ("cardiomegaly", "edema", "effusion", "pneumonia", "pneumothorax")


def _said(data: Path, studies: set[str]) -> dict[str, dict[str, list[tuple[str, bool]]]]:
    """Sentences on one finding alone, by study and finding, each with whether it says present."""
    said: dict[str, dict[str, list[tuple[str, bool]]]] = defaultdict(lambda: defaultdict(list))
    with (data / "truth.csv").open(newline="") as handle:
        for row in csv.DictReader(handle):
            axis, _, value = row["class"].partition(": ")
            if row["study_id"] not in studies or axis not in AXES or "+" in value:
                continue
            if value == "none" or not value.startswith("none"):
                said[row["study_id"]][axis].append((row["sentence"], value != "none"))
    return said


def main(checkpoint: Path, data: Path) -> None:
    """Print areas under the curve."""
    service = load_service(checkpoint)
    records = [r for r in read_manifest(data / "manifest.csv") if r.split == "test"]
    said = _said(data, {r.study_id for r in records})
    state = {s: {a: v[0][1] for a, v in axes.items()} for s, axes in said.items()}
    rng = np.random.default_rng(0)
    rows = []  # axis, own, whether the sentence says present, support, score
    for record in records:
        image = service.embed_file(record.path)
        mine = said.get(record.study_id, {})
        for axis, own in mine.items():
            others = [
                sentence
                for study, axes in said.items()
                if state[study].get(axis) == (not state[record.study_id][axis])
                for sentence, present in axes[axis]
                if present != state[record.study_id][axis]
            ]
            foreign = rng.choice(np.array(others, dtype=object), len(own), replace=False)
            asked = [(s, True, p) for s, p in own]
            asked += [(s, False, not state[record.study_id][axis]) for s in foreign]
            for sentence, is_own, present in asked:
                (found,) = verify(service, image, sentence).sentences
                support = -1.0 if found.support is None else found.support
                rows.append((axis, is_own, present, support, found.score, sentence))
    _print(rows)


def _print(rows: list[tuple[str, bool, bool, float, float, str]]) -> None:
    def areas(some: list[tuple[str, bool, bool, float, float, str]]) -> str:
        own = [row[1] for row in some]
        if len(set(own)) < 2:
            return "-"
        support, score = (area_under_curve([row[i] for row in some], own) for i in (3, 4))
        return f"{support:.3f} (score {score:.3f}, {len(some)} sentences)"

    print("all:", areas(rows))
    for present, name in ((True, "findings said to be there"), (False, "said not to be there")):
        print(f"{name}:", areas([row for row in rows if row[2] == present]))
    for axis in AXES:
        print(f"{axis}:", areas([row for row in rows if row[0] == axis]))
        for present in (True, False):
            some = [row for row in rows if row[0] == axis and row[2] == present]
            print(f"  {'present' if present else 'absent'}:", areas(some))
    for verdict, low, high in (("supported", 75, 101), ("weak", 40, 75), ("unsupported", -1, 40)):
        own = np.mean([low <= row[3] < high for row in rows if row[1]])
        other = np.mean([low <= row[3] < high for row in rows if not row[1]])
        print(f"{verdict}: own {own:.2f}, opposite {other:.2f}")
    said = {row[5]: row[2] for row in rows}
    print("wordings of sentences that say present:", _counts(said, True))
    print("wordings of sentences that say absent:", _counts(said, False))


def _counts(said: dict[str, bool], present: bool) -> dict[str, int]:
    counts: dict[str, int] = defaultdict(int)
    for sentence, value in said.items():
        if value == present:
            counts[wording(sentence)] += 1
    return dict(counts)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
