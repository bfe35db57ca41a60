"""The false negatives of a training set, measured and written: ``cxrtext negatives``."""

from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxrtext.errors import DataError
from cxrtext.evaluation.cohort import Embedder
from cxrtext.evaluation.data import find_table, manifest_of
from cxrtext.evaluation.intervals.proportions import proportion
from cxrtext.evaluation.retrieval.sentences import score_matrix
from cxrtext.files import replacing_folder
from cxrtext.images.cache import DecodedCache
from cxrtext.language.eta.figure import write_shares
from cxrtext.language.eta.fit import Floats
from cxrtext.models import ImageTextModel, load_model
from cxrtext.records import Rejects, write_table
from cxrtext.records.tables import plain
from cxrtext.training.negatives.agreement import agreements
from cxrtext.training.negatives.positives import Anchors, Mask, Told, read_anchors, tell_positives

PAIRS_EACH = 3
"""Pairs of each sentence that are listed, the likeliest first."""


def find_negatives(
    data: Path,
    table: Path,
    out: Path,
    *,
    checkpoint: Path | None = None,
    cache: DecodedCache | None = None,
    batch: int = 64,
    device: str = "cpu",
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Anchors, list[dict[str, Any]]]:
    """Write ``sentences.csv``, ``agreement.csv``, ``negatives.png``, and of a model ``pairs.csv``.

    The folder is for its owner alone: the first table holds sentences of reports, each under the
    study that says it first.  Returns what was read, and the rows of ``agreement.csv``.
    """
    anchors = read_anchors(manifest_of(data), table)
    positives = tell_positives(anchors, data, find_table(data, "labels"))
    shares, rows = agreements(anchors, positives, batch - 1)
    eta = np.array([one.eta for one in anchors.sentences], dtype=np.float64)
    with replacing_folder(out, private=True) as folder:
        said = sorted(
            _sentence_rows(anchors, positives, shares, batch - 1),
            key=lambda row: -row["false_negatives_reports"],
        )
        write_table(folder / "sentences.csv", list(said[0]), said)
        write_table(folder / "agreement.csv", list(rows[0]), rows)
        write_shares(folder / "negatives.png", eta, anchors.count, shares)
        if checkpoint is not None:
            model = load_model(checkpoint, device)
            embedder = Embedder(model, cache, Rejects(), len(anchors.records), progress)
            scores = model_scores(anchors, model, embedder)
            if pairs := list(_pair_rows(anchors, scores, eta, positives)):
                write_table(folder / "pairs.csv", list(pairs[0]), pairs)
    return anchors, rows


def _sentence_rows(
    anchors: Anchors, positives: Told, shares: Mapping[str, Floats], negatives: int
) -> Iterator[dict[str, Any]]:
    """A row a distinct sentence; the intervals are Wilson's, without the first of its studies."""
    patients = np.unique([one.patient_id for one in anchors.records], return_inverse=True)[1]
    for place, (one, count) in enumerate(zip(anchors.sentences, anchors.count, strict=True)):
        row: dict[str, Any] = {"sentence_id": _id_of(one.sentence), "study_id": one.study_id}
        row |= {"sentence": plain(one.sentence), "count": int(count), "n_tokens": one.n_tokens}
        row |= {"eta": one.eta, "false_negatives_eta": negatives * (one.eta or 0.0)}
        others = np.delete(
            np.arange(len(patients)), anchors.said.indices[anchors.said.indptr[place]]
        )
        for way, (true, judged) in positives.items():
            share = float(shares[way][place]) if judged[place] else None
            ends = proportion(true[place, others], patients[others]).interval()
            low, high = ends if ends and judged[place] else (None, None)
            row |= {f"share_{way}": share, f"share_{way}_low": low, f"share_{way}_high": high}
            row[f"false_negatives_{way}"] = None if share is None else negatives * share
        yield row


def _id_of(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:12]


def model_scores(
    anchors: Anchors, model: ImageTextModel, embedder: Embedder
) -> NDArray[np.float32]:
    """Scores times γ², [D, n], by one image a study; −inf where it cannot be read."""
    cohort = embedder.cohort(anchors.records)
    if not cohort.records:
        raise DataError(f"no training image can be read: {embedder.rejects.rows[-1][1]}")
    column = {record.study_id: place for place, record in enumerate(anchors.records)}
    scores = np.full(anchors.said.shape, -np.inf, dtype=np.float32)
    found = score_matrix(model, cohort, [one.sentence for one in anchors.sentences])
    scores[:, [column[study] for study in cohort.studies]] = found * model.gamma_sq.item()
    return scores


def likeliest(
    said: Mask, scores: NDArray[np.float32], eta: Floats
) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
    """The likeliest pairs [p] of each sentence and studies that do not say it, and how likely.

    By Bayes a study u is a positive of a sentence x with the probability η(x) p(u | x) / p(u), and
    the scores [D, n] of a contrastive model estimate the ratio by ``e^s`` over its mean over the
    studies.  ``said`` is [D, n].
    """
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    chance = eta[:, None] * raised / raised.mean(axis=1, keepdims=True)
    chance[said] = -1.0
    each = min(PAIRS_EACH, chance.shape[1] - 1)
    study = np.argpartition(-chance, each, axis=1)[:, :each].ravel()
    sentence = np.repeat(np.arange(len(chance)), each)
    value = chance[sentence, study]
    order = np.argsort(-value, kind="stable")[: int((value > 0).sum())]
    return sentence[order], study[order], np.minimum(value[order], 1.0)


def _pair_rows(
    anchors: Anchors, scores: NDArray[np.float32], eta: Floats, positives: Told
) -> Iterator[dict[str, Any]]:
    """A row a pair; by each way whether it is a positive, where that is told."""
    found = likeliest(positives["repeats"][0], scores, eta)
    for sentence, study, chance in zip(*found, strict=True):
        yield {
            "sentence_id": _id_of(anchors.sentences[sentence].sentence),
            "study_id": anchors.records[study].study_id,
            "probability": float(chance),
            "score": float(scores[sentence, study]),
            **{
                way: int(true[sentence, study]) if judged[sentence] else None
                for way, (true, judged) in positives.items()
                if way != "repeats"
            },
        }
