"""How often the verdicts of `verify` are wrong, against the truth of drawn studies.

    cxrtext evaluate CHECKPOINT --data DATA --calibrate --keep-reference
    python benchmarks/evaluation/verify.py CHECKPOINT DATA --split test

DATA is a folder of phantoms.  Every image of the split is asked about the sentences of its own
report, which are true, and about as many of other reports that are false of it, whose claims do
not hold of what was drawn.  A denial is a sentence that is true of a normal study.  Beside the
verdicts stand those that a percentile among the reference images would give (supported from 75
on, unsupported below 40).
"""

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch

from cxrtext.evaluation.cohort import Embedder
from cxrtext.evaluation.verdicts.judge import ORDER, Judge
from cxrtext.evaluation.verdicts.kept import verdicts_beside
from cxrtext.images.cache import DecodedCache
from cxrtext.models import ImageTextModel, load_model
from cxrtext.models.reference import load_reference
from cxrtext.phantom.claims import UNCHANGED, Claim
from cxrtext.phantom.state import AXES, VALUES, State
from cxrtext.phantom.studies import PhantomStudy, draw_studies
from cxrtext.records import Rejects, read_manifest

FINDINGS = ("cardiomegaly", "edema", "effusion", "pneumonia", "pneumothorax")
DRAWN = 10  # false sentences of each direction an image
NORMAL = State()
KINDS = (
    "true denial",
    "false denial",
    "true affirmation",
    "false affirmation: absent",
    "false affirmation: other side",
    "false affirmation: other degree or place",
)


def kind_of(claim: Claim, state: State) -> str:
    """Whether a sentence is true of a study, and in which way it is false."""
    denies = claim.holds(NORMAL)
    if claim.holds(state):
        return KINDS[0] if denies else KINDS[2]
    if denies:
        return KINDS[1]
    for atom in claim.atoms or (claim,):
        if atom.holds(state) or atom.holds(NORMAL):
            continue
        for axis, _ in atom.allowed:
            value = getattr(state, axis)
            if value == VALUES[axis][0]:
                return KINDS[3]
            said, shown = sides((atom.name,)), sides(AXES[axis].parts(value))
            if len(said) == 1 and shown and not said & shown:
                return KINDS[4]
    return KINDS[5]


def sides(texts: Iterable[str]) -> set[str]:
    """The sides that are named."""
    words = " ".join(texts).replace("lingula", "left").split()
    return {side for side in ("left", "right") if side in words}


def finding_of(claim: Claim) -> str:
    """The one finding of CheX5 that a sentence is about; else how it is about others."""
    axes = {axis for axis, _ in claim.allowed}
    (only, *more) = sorted(axes) or [""]
    return "several" if more else only if only in FINDINGS else "others"


def percentiles(model: ImageTextModel, sentences: list[str], regions: torch.Tensor) -> np.ndarray:
    """[S, B], of each sentence's scores among the reference images."""
    reference = load_reference(model.folder, model) if model.folder else None
    if reference is None:
        raise SystemExit("the checkpoint has no reference images; give --keep-reference")
    texts = model.embed_sentences(sentences)
    with torch.inference_mode():
        scored = [
            torch.cat([model.scores(part, texts) for part in some.float().split(128)], dim=1)
            for some in (regions, reference.regions(0, len(reference)))
        ]
    own, others = scored[0].numpy(), np.sort(scored[1].numpy(), axis=1)
    places = [np.searchsorted(row, mine) for row, mine in zip(others, own, strict=True)]
    return np.stack(places) * (100 / others.shape[1])


def main() -> None:
    """Judge the sentences of a split and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--split", default="test", help="train, val, test or all")
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--seed", type=int, default=0, help="of the false sentences")
    asked = parser.parse_args()
    model = load_model(asked.checkpoint)
    drawn = json.loads((asked.data / "phantom.json").read_text())
    studies = {one.study_id: one for one in draw_studies(drawn["studies"], drawn["seed"])}
    records = [
        one
        for one in read_manifest(asked.data / "manifest.csv")
        if asked.split in ("all", one.split)
    ]
    cache = DecodedCache(asked.cache, print) if asked.cache else None
    cohort = Embedder(model, cache, Rejects(), len(records)).cohort(records)
    shown = [studies[study] for study in cohort.studies]
    rows = judged(model, shown, cohort.regions, asked.seed)
    print(f"{len(shown)} images, split '{asked.split}' of {asked.data.name}, {len(rows)} sentences")
    table("", rows)
    for finding in (*FINDINGS, "several", "others"):
        table(finding, [row for row in rows if row[1] == finding])


Row = tuple[str, str, str, str]
"""Kind, finding, verdict, and what the percentile would say."""


def judged(
    model: ImageTextModel, studies: list[PhantomStudy], regions: torch.Tensor, seed: int
) -> list[Row]:
    """The verdicts on each image's own sentences, and on others' that are false of it."""
    said: list[list[tuple[str, Claim]]] = [
        [(one.text, one.claim) for _, some in study.report.sections() for one in some]
        for study in studies
    ]
    pool = [one for some in said for one in some if one[1] != UNCHANGED]
    sentences = sorted({text for text, _ in pool})
    place = {text: i for i, text in enumerate(sentences)}
    support = percentiles(model, sentences, regions)
    judge = Judge(verdicts_beside(model))
    rng = np.random.default_rng(seed)
    rows: list[Row] = []
    for image, (study, own) in enumerate(zip(studies, said, strict=True)):
        state = study.patient.state
        evidence = judge.evidence(model, regions[image : image + 1])
        todo = [one for one in own if one[1] != UNCHANGED]
        left = Counter({True: DRAWN, False: DRAWN})
        for number in rng.permutation(len(pool)):
            text, claim = pool[number]
            denies = claim.holds(NORMAL)
            if left[denies] and not claim.holds(state):
                todo.append((text, claim))
                left[denies] -= 1
            if not any(left.values()):
                break
        for text, claim in todo:
            percent = support[place[text], image]
            before = "supported" if percent >= 75 else "weak" if percent >= 40 else "unsupported"
            verdict = judge.judge(text, evidence).verdict
            rows.append((kind_of(claim, state), finding_of(claim), verdict, before))
    return rows


def table(title: str, rows: list[Row]) -> None:
    """Print shares of verdicts by kind; beside them, in brackets, what a percentile says."""
    by: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by[row[0]].append(row)
    print(f"\n| {title or 'all'} | sentences | {' | '.join(ORDER)} |")
    print("|---" * (2 + len(ORDER)) + "|")
    for kind in KINDS:
        some = by[kind]
        if some:
            now, before = (Counter(row[i] for row in some) for i in (2, 3))
            cells = [
                f"{100 * now[v] / len(some):.1f} ({100 * before[v] / len(some):.1f})" for v in ORDER
            ]
            print(f"| {kind} | {len(some)} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
