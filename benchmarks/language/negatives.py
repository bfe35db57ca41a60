"""False negatives of a training set, beside what estimates of η make of them.

The share of other studies that a sentence is true of is told in up to four ways.  ``repeats``: the
report has the same sentence, a lower bound.  ``reports``: the rules of ``remove-by-report``, less
studies that contradict what it implies.  ``labels``: the study has the findings that it affirms and
none that it denies, an upper bound.  ``truth``: the drawing shows it.  Controls: the number of word
pieces for −log p, one number for all or for each wording, estimates shuffled among sentences.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from cxrtext.defaults import DEFAULT_A, DEFAULT_K
from cxrtext.evaluation.data import find_table
from cxrtext.language.eta import Floats, fit_class_probability, solve
from cxrtext.phantom.truth import read_truth
from cxrtext.project.layout import DATA, RECIPE
from cxrtext.records import ImageRecord, Sentence, read_labels, read_manifest
from cxrtext.records.rows import TableRows
from cxrtext.records.sentences import read_sentences
from cxrtext.text.assertions import assertions_of, says_of
from cxrtext.text.entailment import statement_of
from cxrtext.text.labelling import FINDINGS, sentence_labels
from cxrtext.text.wording import wording
from cxrtext.training.objectives.remove_by_report import made_true
from cxrtext.training.objectives.remove_by_truth import known_true
from cxrtext_cli.options import print_table

Mask = NDArray[np.bool_]


def rank_correlation(x: Floats, y: Floats, times: Floats) -> float:
    """Spearman's of pairs that occur so often."""
    count = times.astype(np.int64)
    return float(spearmanr(np.repeat(x, count), np.repeat(y, count)).statistic)


def read(data: Path, table: Path) -> tuple[list[Sentence], NDArray[np.float32], list[ImageRecord]]:
    """Distinct sentences [D] of training studies, how often each says them [D, n], the studies."""
    records: dict[str, ImageRecord] = {}
    for record in read_manifest(data / "manifest.csv", allow_outside=True):
        if record.split == "train":
            records.setdefault(record.study_id, record)
    scored = [o for o in read_sentences(table) if o.eta is not None and o.study_id in records]
    column = {study: at for at, study in enumerate(sorted({one.study_id for one in scored}))}
    first = {one.sentence: one for one in reversed(scored)}
    row = {text: place for place, text in enumerate(first)}
    said = np.zeros((len(row), len(column)), dtype=np.float32)
    for one in scored:
        said[row[one.sentence], column[one.study_id]] += 1
    return list(first.values()), said, [records[study] for study in column]


def reported(sentences: list[Sentence], said: NDArray[np.float32]) -> Mask:
    texts = [one.sentence for one in sentences]
    told = [[texts[row] for row in np.flatnonzero(column)] for column in said.T]
    true = made_true({text: statement_of(text) for text in texts}, texts, told)
    says, against = [says_of(report) for report in told], dict[Any, Mask]()
    for row, text in enumerate(texts):
        for one in assertions_of(text):
            if one not in against:
                against[one] = np.array([study.contradicts((one,)) for study in says])
            true[row] &= ~against[one]
    return true


def labelled(sentences: list[Sentence], studies: list[str], path: Path) -> tuple[Mask, Mask]:
    """By findings that have a column; a blank cell is a finding that is not there."""
    columns = tuple(name for name in FINDINGS if name in TableRows(path).columns)
    table = read_labels(path, columns)
    rows = [table.get(study, {}) for study in studies]
    true, judged = np.zeros((len(sentences), len(rows)), bool), np.zeros(len(sentences), bool)
    for place, one in enumerate(sentences):
        said = {name: label.value for name, label in sentence_labels(one.sentence).items()}
        if said and said.keys() <= set(columns) and set(said.values()) <= {0, 1}:  # none is hedged
            true[place] = [all(name in row and (row[name] or 0) == value
                               for name, value in said.items()) for row in rows]  # fmt: skip
            judged[place] = True
    return true, judged


def share_of_others(true: Mask, said: NDArray[np.float32]) -> Floats:
    """Share of the other studies that a sentence is true of, the mean over those that say it."""
    total, count = true.sum(axis=1), said.sum(axis=1, dtype=np.float64)
    return (total * count - (said * true).sum(axis=1)) / (said.shape[1] - 1) / count


def fitted(x: Floats, count: Any, share: Floats, groups: NDArray[np.str_]) -> tuple[Floats, str]:
    """``a e^{k x}`` with the a and k under which the shares are likeliest, in each group."""
    eta, made = np.zeros(len(x)), []
    for group in np.unique(groups):
        own = groups == group
        if share[own].any():
            a, k = solve(x[own], count[own], share[own])
            eta[own] = a * np.exp(k * x[own])
            made.append(f"{group + ': ' if group else ''}a = {a:.3g}, k = {k:.3g}")
    return eta, "; ".join(made)


def estimates(sentences: list[Sentence], count: Any, share: Floats) -> dict[str, Any]:
    log_p, pieces = np.array([(one.log_likelihood, -one.n_tokens) for one in sentences]).T
    said = np.array([wording(one.sentence) for one in sentences])
    flat, all_ = np.zeros(len(log_p)), np.full(len(log_p), "")
    repeats = fit_class_probability(log_p, count)
    numbers = ("paper", DEFAULT_A, DEFAULT_K), ("fitted to repeats", *repeats)
    found = {n: (a * np.exp(k * log_p), f"a = {a:.3g}, k = {k:.3g}") for n, a, k in numbers}
    ways = {"fitted to reports": (log_p, all_), "length": (pieces, all_), "constant": (flat, all_),
            "wording": (flat, said), "wording and likelihood": (log_p, said)}  # fmt: skip
    return found | {name: fitted(x, count, share, groups) for name, (x, groups) in ways.items()}


def rows_of(data: Path, table: Path, others: int) -> Iterator[list[str]]:
    sentences, said, records = read(data, table)
    count, every = said.sum(axis=1).astype(np.int64), np.ones(len(sentences), dtype=np.bool_)
    told = {"repeats": (said > 0, every), "reports": (reported(sentences, said), every)}
    if labels := find_table(data, "labels"):
        told["labels"] = labelled(sentences, [one.study_id for one in records], labels)
    if known := read_truth(data):
        texts = [one.sentence for one in sentences]
        truth = known_true(known, texts, [one.study_id for one in records])
        told["truth"] = (truth, np.array([text in known.claims for text in texts]))
    measured = {way: share_of_others(true, said) for way, (true, _) in told.items()}
    made = estimates(sentences, count, measured["reports"])
    made |= {way: (measured[way], "") for way in ("repeats", "reports")}
    print(f"{len(records):,} training studies, {count.sum():,} sentences, {len(every):,} distinct; "
          f"false negatives of an anchor among {others}:")  # fmt: skip
    rng = np.random.default_rng((0, 37))
    for way, (_, judged) in told.items():
        share, times = measured[way][judged], count[judged].astype(np.float64)
        for name, (eta, how) in made.items():
            if name == way or (name, way) == ("reports", "repeats"):
                continue
            own = eta[judged]
            one, other = (others * float(np.average(x, weights=times)) for x in (own, share))
            mixed = [rank_correlation(rng.permutation(own), share, times) for _ in range(200)]
            error = others * float(np.average(np.abs(own - share), weights=times))
            yield [way, name, how, f"{other:.2f}", f"{one:.2f}", f"{one / other:.3f}",
                   f"{error:.2f}", f"{rank_correlation(own, share, times):.2f}",
                   "{:.2f} … {:.2f}".format(*np.quantile(mixed, [0.025, 0.975]))]  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path, help="projects or data folders, scored")
    heads = ["measured by", "estimate", "made of", "measured", "expected", "ratio", "error"]
    heads += ["Spearman", "shuffled"]
    for folder in parser.parse_args().folders:
        data = folder / DATA if (folder / RECIPE).is_file() else folder
        print_table([heads, *rows_of(data, folder / "sentences.csv", 63)], left=3)
