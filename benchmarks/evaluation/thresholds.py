"""Whether what ``calibrate`` says of a threshold holds.

The films of a project's evaluation (``evaluation/predictions.parquet``) are the archive: their
labels are the truth, samples of them are what is calibrated on.  Three seeds.  Parts: coverage of
the predictive values' intervals; labels read from reports; thresholds pooled and by site.
"""

import argparse
import csv
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxrtext.evaluation.calibrate import enough
from cxrtext.evaluation.classification.classified import Classified
from cxrtext.evaluation.classification.operating import operating_point
from cxrtext.evaluation.intervals.estimates import Estimate, share_of
from cxrtext.evaluation.intervals.multiple import FEW
from cxrtext.evaluation.measure import KINDS
from cxrtext.evaluation.metrics import youden_threshold
from cxrtext.evaluation.predictions.file import read_predictions
from cxrtext.records import read_manifest
from cxrtext.records.labels import read_labels

SEEDS = (0, 1, 2)
ASKED = ("sensitivity", "specificity", "PPV", "NPV", "prevalence")
Row = dict[str, Any]
Archive = tuple[tuple[str, ...], NDArray[Any], NDArray[Any], list[str]]


def archive_of(project: Path) -> Archive:
    """Findings, scores [F, B], labels [F, B] and studies [B] of a project's evaluation."""
    part = read_predictions(project / "evaluation/predictions.parquet", KINDS).parts[
        "classification"
    ]
    assert isinstance(part, Classified)
    return part.findings, part.scores, part.labels, part.images.studies


def frequent(found: Archive, least: int) -> Iterator[tuple[str, NDArray[Any], NDArray[Any], Any]]:
    """Findings with enough films of either class: name, scores, truth, and the rows known."""
    names, scores, labels, _ = found
    for name, row, said in zip(names, scores, labels, strict=True):
        at = np.flatnonzero((said == 0) | (said == 1))
        truth = said[at] == 1
        if min(truth.sum(), (~truth).sum()) >= least:
            yield name, row[at], truth, at


def truth_at(scores: NDArray[Any], truth: NDArray[Any], threshold: float) -> dict[str, float]:
    found = operating_point(scores, truth, threshold)
    return {name: found[name].value or 0.0 for name in ASKED}


class Tally:
    """Whether intervals held the truth, how wide they were, and how far values lay from it."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, ...], list[tuple[bool, float, float, bool]]] = defaultdict(list)

    def add(self, key: tuple[str, ...], found: Estimate, truth: float, films: int) -> None:
        if found.value is None or found.low is None or found.high is None:
            self._seen[key].append((False, np.nan, np.nan, False))
            return
        held = found.low - 1e-9 <= truth <= found.high + 1e-9
        kept = enough(found, films) is not None
        self._seen[key].append((held, found.high - found.low, found.value - truth, kept))

    def rows(self) -> Iterator[Row]:
        for (part, data, method, measure), seen in self._seen.items():
            known = [one for one in seen if not np.isnan(one[1])]
            kept = [one for one in known if one[3]]
            yield {
                "part": part, "data": data, "method": method, "measure": measure, "n": len(seen),
                "held": np.mean([one[0] for one in known]),
                "width": np.mean([one[1] for one in known]),
                "bias": np.mean([one[2] for one in known]),
                "given": len(kept) / len(seen),
                "held where given": np.mean([one[0] for one in kept]) if kept else "",
            }  # fmt: skip


def coverage(tally: Tally, data: str, found: Archive, times: int) -> None:
    """Samples of 300 films choose a threshold, others of 300 measure it; a balanced one beside."""
    for name, scores, truth, _ in frequent(found, 60):
        for seed in SEEDS:
            rng = np.random.default_rng([seed, len(name)])
            for _ in range(times):
                chosen, own = (rng.integers(len(scores), size=300) for _ in range(2))
                if truth[chosen].all() or not truth[chosen].any():
                    continue
                threshold = youden_threshold(scores[chosen], truth[chosen])
                real = truth_at(scores, truth, threshold)
                half = [rng.choice(np.flatnonzero(truth == one), 150) for one in (True, False)]
                for method, rows in (("own", own), ("balanced", np.concatenate(half))):
                    point = operating_point(scores[rows], truth[rows], threshold)
                    over = int((scores[rows] > threshold).sum())
                    for measure, films in (("PPV", over), ("NPV", 300 - over)):
                        key = ("interval", data, method, measure)
                        tally.add(key, point[measure], real[measure], films)


def from_reports(
    tally: Tally, data: str, found: Archive, said: dict[str, dict[str, int | None]], times: int
) -> None:
    """Samples of 400 films labelled by their reports, of which 150 were read again."""
    _, _, _, studies = found
    for name, scores, truth, at in frequent(found, 60):
        labels = np.array([said[studies[row]].get(name) == 1 for row in at])
        threshold = youden_threshold(scores, truth)
        real = truth_at(scores, truth, threshold)
        for seed in SEEDS:
            rng = np.random.default_rng([seed, len(name), 1])
            for _ in range(times):
                rows = rng.integers(len(scores), size=400)
                read = rows[:150]
                plain = operating_point(scores[rows], labels[rows], threshold)
                plain["prevalence"] = share_of(labels[rows])
                alone = operating_point(scores[read], truth[read], threshold)
                alone["prevalence"] = share_of(truth[read])
                ways = {"as they are": plain, "the 150 alone": alone}
                for measure in ASKED:
                    for method, one in ways.items():
                        key = ("reports", data, method, measure)
                        tally.add(key, one[measure], real[measure], 150)


def score_films(project: Path, data: Path, out: Path) -> None:
    """Scores of the films of a data folder by a project's model, which saw none of them, as npz."""
    import torch

    from cxrtext.evaluation.classification.calibration import prompts_beside
    from cxrtext.evaluation.classification.prompt_scores import scorer
    from cxrtext.evaluation.cohort import Embedder
    from cxrtext.evaluation.settings import Settings
    from cxrtext.models import load_model
    from cxrtext.project.layout import CHECKPOINT
    from cxrtext.records import Rejects

    model = load_model(project / CHECKPOINT)
    prompts, records = prompts_beside(model), read_manifest(data / "manifest.csv")
    score, rows, parts = scorer(model, prompts, Settings()), [], []
    with torch.inference_mode():
        for some, _, regions in Embedder(model, None, Rejects(), len(records)).batches(records):
            parts.append(score(regions.float()))
            rows += [records[row] for row in some]
    positive, negative = np.concatenate(parts, axis=2)
    np.savez(
        out,
        scores=positive - negative,
        findings=np.array(list(prompts)),
        images=np.array([one.name for one in rows]),
        studies=np.array([one.study_id for one in rows]),
        patients=np.array([one.patient_id for one in rows]),
    )


def by_site(path: Path, nih: Path) -> Iterator[Row]:
    """Half of the patients choose thresholds, pooled or by source, and the others measure them."""
    with np.load(path) as kept:
        names, images, patients = kept["findings"].tolist(), kept["images"], kept["patients"]
        studies, scores = kept["studies"].tolist(), kept["scores"]
    with (nih / "origin.csv").open(newline="") as handle:
        source = {row["image"]: row["repository"] for row in csv.DictReader(handle)}
    labels = read_labels(nih / "labels.csv", tuple(names))
    sites = np.array([source.get(Path(name).name, "") for name in images])
    for name, row in zip(names, scores, strict=True):
        truth = np.array([labels[study].get(name) == 1 for study in studies])
        enough = [
            site for site in sorted(set(sites.tolist()))
            if min(truth[sites == site].sum(), (~truth[sites == site]).sum()) >= 2 * FEW
        ]  # fmt: skip
        if len(enough) < 2:
            continue
        for seed in range(100):
            people = np.random.default_rng(seed).permutation(np.unique(patients))
            chooses = np.isin(patients, people[: len(people) // 2]) & np.isin(sites, enough)
            pooled = youden_threshold(row[chooses], truth[chooses])
            specificity = float((row[chooses][~truth[chooses]] <= pooled).mean())
            shares: dict[str, list[tuple[float, float]]] = defaultdict(list)
            for site in enough:
                at, own = chooses & (sites == site), ~chooses & (sites == site)
                if not (truth[own].any() and truth[at].any()):
                    break
                cuts = {
                    "pooled": pooled,
                    "same specificity": np.quantile(row[at][~truth[at]], specificity),
                    "Youden of each": youden_threshold(row[at], truth[at]),
                }
                for method, cut in cuts.items():
                    over = row[own] > cut
                    shares[method].append((over[truth[own]].mean(), (~over[~truth[own]]).mean()))
            else:
                for method, some in shares.items():
                    se, sp = zip(*some, strict=True)
                    yield {
                        "finding": name, "method": method, "gap se": max(se) - min(se),
                        "gap sp": max(sp) - min(sp),
                        "J": np.mean(np.add(se, sp)) - 1,
                    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="CSV to write")
    parser.add_argument("--drawn", type=Path, help="a project of drawings")
    parser.add_argument("--openi", type=Path, help="a project of Open-i's films")
    parser.add_argument("--nih", type=Path, help="folder of NIH films with origin.csv")
    parser.add_argument("--scores", type=Path, help="npz of the NIH films' scores, made if missing")
    parser.add_argument("--times", type=int, default=70, help="samples a seed and finding")
    given_ = parser.parse_args()
    tally, rows = Tally(), []
    for data, project in (("drawings", given_.drawn), ("Open-i", given_.openi)):
        if project is None:
            continue
        found = archive_of(project)
        coverage(tally, data, found, given_.times)
        from_reports(tally, data, found, labels_of_reports(project, found[0]), given_.times)
    rows = list(tally.rows())
    if given_.nih and given_.scores:
        if not given_.scores.exists():
            score_films(given_.openi, given_.nih, given_.scores)
        sites = list(by_site(given_.scores, given_.nih))
        for key in sorted({(one["finding"], one["method"]) for one in sites}):
            some = [one for one in sites if (one["finding"], one["method"]) == key]
            for measure in ("gap se", "gap sp", "J"):
                values = [one[measure] for one in some]
                rows.append({
                    "part": "sites", "data": key[0], "method": key[1], "measure": measure,
                    "n": len(some), "held": np.mean(values), "width": np.std(values),
                })  # fmt: skip
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with given_.out.open("w", newline="") as handle:
        writer = csv.DictWriter(handle, columns, lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()})


def labels_of_reports(project: Path, findings: tuple[str, ...]) -> dict[str, dict[str, int | None]]:
    """As ``label-reports --absent`` writes them, hedged as absent."""
    from cxrtext.language.corpus import read_corpus
    from cxrtext.text.labelling import label_report

    found: dict[str, dict[str, int | None]] = defaultdict(dict)
    for some in read_corpus(project / "data/reports.csv", None).studies:
        if some:
            labels = label_report([one.sentence for one in some])
            found[some[0].study_id] = {
                name: int(labels[name].value == 1) for name in findings if name in labels
            }
    return found


if __name__ == "__main__":
    main()
