"""Where correcting for false negatives matters more: rows of table 1 in other regimes.

    cxrtext experiment table1 --scale cpu --out EXPERIMENT
    python benchmarks/training/table1_regimes.py EXPERIMENT OUT [--reports FILE] [--seeds 2]

Every regime trains the rows from the experiment's own start, with both encoders locked, on other
batches, studies or sentences, and measures them on the experiment's test studies.  "False
negatives" is the share of the other training studies of which a training sentence is true, mean
over sentences; "repeated" the share of the other reports that say the same, word for word, which
can be asked of real reports too (``--reports``).  A finished training is kept in OUT.
"""

import argparse
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cxrtext.config import load_config, write_config
from cxrtext.evaluation.settings import TRUTH, TRUTH_BINS
from cxrtext.experiments import child
from cxrtext.experiments.comparison import Trainings, compare_rows, interval_text
from cxrtext.experiments.measures import JOB, METRICS, RESAMPLED, mean_of_seeds, read_measures
from cxrtext.experiments.papers.table1 import (
    ALL_MEASURES,
    BASELINE,
    CEILING,
    CONFIG,
    OURS,
    PROPOSED,
)
from cxrtext.experiments.stages import noted_in
from cxrtext.files import write_sealed
from cxrtext.phantom.claims import rho
from cxrtext.phantom.truth import TRUTH_TABLE, KnownTruth, read_truth
from cxrtext.phantom.write import PARAMETERS
from cxrtext.records.report_sources import read_reports
from cxrtext.records.sentences import read_sentences, write_sentences
from cxrtext.records.study import Sentence
from cxrtext.records.tables import read_table, write_table
from cxrtext.text.sentences import split_sentences

ROWS = (BASELINE, PROPOSED, OURS, CEILING)
SHOWN = ("AUC", "CNR", "Recall", TRUTH, *TRUTH_BINS)


def _all(_study: str, _known: KnownTruth) -> float:
    return 1.0


def _ill(study: str, known: KnownTruth) -> float:
    return 0.1 if not any(known.states[study].labels().values()) else 1.0


def _well(study: str, known: KnownTruth) -> float:
    return 0.3 if any(known.states[study].labels().values()) else 1.0


@dataclass(frozen=True, slots=True)
class Regime:
    """What training sees instead: settings, the share of studies kept, and which sentences."""

    title: str
    training: Mapping[str, Any] = field(default_factory=dict)
    kept: Callable[[str, KnownTruth], float] = _all
    rho: tuple[float, float] = (0.0, 1.0)


REGIMES = {
    "as-is": Regime("as in the table: 64 images with 6 sentences"),
    "one": Regime("64 images with one sentence, as in the paper", {"sentences": 1, "steps": 1200}),
    "large": Regime("256 images with 2 sentences", {"batch": 256, "sentences": 2}),
    "ill": Regime("a tenth of the studies without any of CheX5", kept=_ill),
    "well": Regime("three tenths of the studies with any of CheX5", kept=_well),
    "common": Regime("sentences that are true of a tenth of the studies or more", rho=(0.1, 1.0)),
    "specific": Regime("sentences that are true of less than a tenth", rho=(0.0, 0.1)),
}


def narrowed(
    regime: Regime, config: Mapping[str, Any], known: KnownTruth, folder: Path
) -> tuple[dict[str, str], list[Sentence]]:
    """Write the tables of a regime; gives their paths, and the training sentences."""
    manifest, sentences = (Path(config["data"][name]) for name in ("manifest", "sentences"))
    table = read_table(manifest)
    rng = np.random.default_rng(0)
    chance = {study: rng.random() for study in dict.fromkeys(r["study_id"] for r in table.rows)}
    rows = [
        {**row, "image": str((manifest.parent / row["image"]).resolve())}
        for row in table.rows
        if row["split"] != "train" or chance[row["study_id"]] < regime.kept(row["study_id"], known)
    ]
    training = {row["study_id"] for row in rows if row["split"] == "train"}
    low, high = regime.rho
    some = [
        one
        for one in read_sentences(sentences)
        if one.study_id not in training
        or regime.rho == (0.0, 1.0)
        or (one.sentence in known.claims and low <= rho(known.claims[one.sentence]) <= high)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    for name in (PARAMETERS, TRUTH_TABLE):  # by which the images are known as drawn ones
        shutil.copyfile(manifest.parent / name, folder / name)
    write_table(folder / "manifest.csv", table.columns, rows)
    write_sentences(folder / "sentences.csv", some)
    paths = {name: str(folder / f"{name}.csv") for name in ("manifest", "sentences")}
    return paths, [one for one in some if one.study_id in training]


def false_negatives(sentences: Sequence[Sentence], known: KnownTruth) -> float:
    """Share of the other studies of which a sentence is true, mean over sentences."""
    studies = list(dict.fromkeys(one.study_id for one in sentences))
    said = Counter(known.claims[o.sentence] for o in sentences if o.sentence in known.claims)
    true = known.holds(list(said), studies).sum(axis=1)
    shares = (true - 1) / (len(studies) - 1)
    return float(np.average(shares, weights=list(said.values())))


def repeated(reports: Iterable[tuple[str, str]]) -> float:
    """Share of the other reports with the same sentence, mean over sentences of reports."""
    pairs = list(dict.fromkeys(reports))
    among = Counter(text for _, text in pairs)
    studies = len({study for study, _ in pairs})
    return float(np.mean([(among[text] - 1) / (studies - 1) for _, text in pairs]))


def train_row(
    given: Path, regime: Regime, paths: Mapping[str, str], folder: Path, resamples: int
) -> None:
    """Train and measure one row of a regime, unless that is done."""
    if (folder / METRICS).is_file():
        return
    folder.mkdir(parents=True, exist_ok=True)
    config = load_config(given / CONFIG).model_dump(mode="json")
    config["data"].update(paths, allow_outside=True)
    config["training"].update(regime.training)
    config["out"] = str(folder / "train")
    write_config(folder / CONFIG, config)
    write_sealed(folder / JOB, {**noted_in(given / JOB), "resamples": resamples})
    if child.main([str(folder)]) != 0:
        raise SystemExit(f"{folder}: the training failed")
    shutil.rmtree(folder / "train")


def describe(rows: Mapping[str, Trainings]) -> Iterable[str]:
    """Lines of a table: the baseline's figures, and each row's difference from them."""
    means = {name: mean_of_seeds(list(trainings.values())) for name, trainings in rows.items()}
    shown = [name for name in SHOWN if name in means[BASELINE]]
    yield f"| row | {' | '.join(shown)} |"
    yield f"|---|{'---|' * len(shown)}"
    base = [f"{means[BASELINE][name].estimate:.3f}" for name in shown]
    yield f"| {BASELINE} | {' | '.join(base)} |"
    measures = [ALL_MEASURES[name] for name in shown]
    for name in ROWS[1:]:
        found = compare_rows(rows[name], rows[BASELINE], measures)
        cells = [interval_text(found[one.name], one.digits, "+") for one in measures]
        yield f"| {name} | {' | '.join(cells)} |"


def main() -> None:
    """Train what is missing, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("experiment", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--reports", type=Path)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--resamples", type=int, default=300)
    parser.add_argument("--regimes", nargs="+", choices=list(REGIMES), default=list(REGIMES))
    given = parser.parse_args()
    experiment, out = given.experiment.resolve(), given.out.resolve()
    known = read_truth(experiment / "data")
    if known is None:
        raise SystemExit(f"{experiment}: the data are not drawn")
    if given.reports:
        texts = (
            (study.study_id, text)
            for study in read_reports(given.reports)
            for part in (study.report, *study.sections.values())
            for text in split_sentences(part)
        )
        print(f"{given.reports}: repeated {repeated(texts):.4f}")
    first = load_config(experiment / "runs" / BASELINE / "seed-0" / CONFIG)
    for name in given.regimes:
        regime = REGIMES[name]
        paths, said = narrowed(regime, first.model_dump(mode="json"), known, out / name)
        for row in ROWS:
            for seed in range(given.seeds):
                run = f"{row}/seed-{seed}"
                if regime is not REGIMES["as-is"]:
                    given_run = experiment / "runs" / run
                    train_row(given_run, regime, paths, out / name / run, given.resamples)
        print(
            f"\n{regime.title}: {len({one.study_id for one in said})} studies, {len(said)} "
            f"sentences, false negatives {false_negatives(said, known):.3f}, repeated "
            f"{repeated((one.study_id, one.sentence) for one in said):.4f}\n"
        )
        done = experiment / "runs" if regime is REGIMES["as-is"] else out / name
        measured = {
            row: {
                seed: read_measures(done / row / f"seed-{seed}" / RESAMPLED)
                for seed in range(given.seeds)
            }
            for row in ROWS
        }
        print("\n".join(describe(measured)), flush=True)


if __name__ == "__main__":
    main()
