"""How well a model tells findings, their sides and their places on phantoms that it has not seen.

    cxrtext phantom FOLDER --studies 500 --size 144 --seed 991
    python benchmarks/phantom/model.py CHECKPOINT FOLDER [--hits 4]

Findings: the AUC with the single prompts of CheX5.  Sides: over studies that have a finding on
one side only, the AUC of the score of the sentence that says "left" minus that of the one that says
"right", and the share of the right sentence's highest regions that lie on that side (regions of the
middle column count half).  Hits: how many of the first images for "Large left pleural effusion."
and for its mirror show an effusion on that side.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch

from cxrtext.evaluation.classification.prompt_scores import prompt_embeddings, score_differences
from cxrtext.evaluation.classification.prompts import CHEX5_PROMPTS
from cxrtext.evaluation.grounding.sides import peak_on_side
from cxrtext.evaluation.metrics import area_under_curve
from cxrtext.models import load_model
from cxrtext.models.regions import embed_files
from cxrtext.models.similarity import region_scores
from cxrtext.phantom.claims import lobe_side
from cxrtext.phantom.state import State
from cxrtext.phantom.studies import draw_studies
from cxrtext.phantom.truth import read_truth
from cxrtext.records import read_manifest

SAID = {
    "effusion": ("{} pleural effusion.", "There is a {} pleural effusion."),
    "pneumothorax": ("{} pneumothorax.", "There is a {} pneumothorax."),
    "pneumonia": ("{} lung pneumonia.", "There is a consolidation in the {} lung."),
}
SIDES = ("left", "right")


def side_of(finding: str, state: State) -> str | None:
    """The side of a finding that is on that side alone."""
    value = getattr(state, finding)
    if finding == "effusion":
        right, left = value
        return None if (right > 0) == (left > 0) else ("left" if left else "right")
    if finding == "pneumothorax":
        return value[1] if value[0] and value[1] in SIDES else None
    sides = {lobe_side(lobe) for lobe in value[1]} if value[0] else set()
    return sides.pop() if len(sides) == 1 else None


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("folder", type=Path, help="of cxrtext phantom")
    parser.add_argument("--hits", type=int, default=4)
    options = parser.parse_args()
    drawn = json.loads((options.folder / "phantom.json").read_text())
    states = {s.study_id: s.patient.state for s in draw_studies(drawn["studies"], drawn["seed"])}
    records = read_manifest(options.folder / "manifest.csv")
    model = load_model(options.checkpoint)
    parts = embed_files(model, [record.path for record in records], processes=2)
    regions = torch.cat([part.regions for part in parts]).cpu()
    shown = [states[record.study_id] for record in records]
    with torch.inference_mode():
        print(f"{len(records)} phantoms of seed {drawn['seed']}, single prompts:")
        print_findings(model, regions, shown)
        print_sides(model, regions, shown)
        print_hits(model, regions, shown, options.hits)
        print_said(model, regions, records, read_truth(options.folder), options.hits)


def print_findings(model, regions, states) -> None:  # type: ignore[no-untyped-def]
    """AUC of each finding."""
    vectors = prompt_embeddings(model, CHEX5_PROMPTS)
    found = score_differences(model, regions, vectors).numpy()
    areas = [
        area_under_curve(scores, np.array([bool(state.labels()[name]) for state in states]))
        for name, scores in zip(CHEX5_PROMPTS, found, strict=True)
    ]
    for name, area in zip(CHEX5_PROMPTS, areas, strict=True):
        print(f"  AUC {name:18} {area:.3f}")
    print(f"  AUC {'mean':18} {np.mean(areas):.3f}")


def print_sides(model, regions, states) -> None:  # type: ignore[no-untyped-def]
    """AUC of the side, and the peaks on it."""
    columns = round(regions.shape[1] ** 0.5)
    for finding, forms in SAID.items():
        sides = [side_of(finding, state) for state in states]
        rows = [row for row, side in enumerate(sides) if side]
        left = np.array([sides[row] == "left" for row in rows])
        areas, shares = [], []
        for form in forms:
            vectors = model.embed_sentences([_sentence(form, side) for side in SIDES])
            scores = model.scores(regions[rows], vectors).numpy()
            areas.append(area_under_curve(scores[0] - scores[1], left))
            maps = region_scores(regions[rows], vectors)
            own = torch.where(torch.from_numpy(left)[:, None], maps[0], maps[1]).numpy()
            grids = own.reshape(len(rows), -1, columns)
            peaks = [peak_on_side(*one) for one in zip(grids, left.tolist(), strict=True)]
            shares.append(np.mean(peaks))
        print(
            f"  {finding:13} {len(rows):4} studies on one side: AUC of the side "
            f"{np.mean(areas):.3f}, peak on it {np.mean(shares):.0%}"
        )


def print_hits(model, regions, states, hits: int) -> None:  # type: ignore[no-untyped-def]
    """First images of a sentence that names size and side."""
    for place, side in ((1, "left"), (0, "right")):
        sentence = f"Large {side} pleural effusion."
        scores = model.scores(regions, model.embed_sentences([sentence]))[0]
        first = scores.topk(hits).indices.tolist()
        good = sum(states[row].effusion[place] > 0 for row in first)
        print(f"  '{sentence}': {good} of the first {hits} images show one on that side")


def print_said(model, regions, records, known, hits: int) -> None:  # type: ignore[no-untyped-def]
    """How many of the first sentences of an image are true, by their scores and by their lift."""
    texts = list(known.claims)
    claims = list(dict.fromkeys(known.claims.values()))
    truth = known.holds(claims, [record.study_id for record in records])
    truth = truth[[claims.index(known.claims[text]) for text in texts]]
    vectors = model.embed_sentences(texts)
    scores = model.gamma_sq.item() * torch.cat(
        [model.scores(regions, some) for some in vectors.split(512)]
    )
    others = scores[:, torch.linspace(0, len(regions) - 1, min(128, len(regions))).long()]
    usual = torch.logsumexp(others, dim=1) - np.log(others.shape[1])
    for name, ranked in (("score", scores), ("lift", scores - usual[:, None])):
        first = ranked.topk(hits, dim=0).indices.numpy()
        share = np.take_along_axis(truth, first, axis=0).mean()
        print(f"  first {hits} of {len(texts)} sentences for an image, by {name}: {share:.1%} true")


def _sentence(form: str, side: str) -> str:
    text = form.format(side)
    return text[0].upper() + text[1:]


if __name__ == "__main__":
    main()
