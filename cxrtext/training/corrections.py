"""What tells false negatives: labels of studies, similarity of texts, true class probabilities."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from cxrtext.errors import DataError
from cxrtext.models import ImageTextModel
from cxrtext.records import CHEX5, ImageRecord, Sentence, read_labels, read_table

LabelSet = np.ndarray[tuple[int], np.dtype[np.bool_]]
TextVectors = np.ndarray[tuple[int, ...], np.dtype[np.float16]]

TRUTH = ("study_id", "section", "position", "rho")
"""Columns of a table of true class probabilities that are read."""


def label_sets(
    path: Path, findings: Sequence[str] | None, records: Sequence[ImageRecord]
) -> dict[str, LabelSet]:
    """The findings of each study that is trained on.

    Args:
        path: A table of labels; only 1 counts, and a study without a row has no finding.
        findings: The findings that count; None for those of CheX5 that have a column.
        records: The training images.

    Returns:
        By study, [F].

    Raises:
        DataError: The table is wrong, lacks a finding that was asked for, or gives none of the
            training studies a finding.
    """
    if findings is not None:
        # A misspelt finding would otherwise be absent everywhere, without a word.
        read_table(path, required=["study_id", *findings])
    wanted = tuple(findings or CHEX5)
    sets = {
        study: np.asarray([values[finding] == 1 for finding in wanted])
        for study, values in read_labels(path, wanted).items()
    }
    studies = {record.study_id for record in records}
    if not any(sets[study].any() for study in studies & sets.keys()):
        raise DataError(
            f"{path}: no training study has a 1 for any of {', '.join(wanted)} "
            f"({len(studies & sets.keys())} of {len(studies)} studies have a row); check study_id "
            "and objective.findings"
        )
    return sets


def true_probabilities(
    path: Path, sentences: Iterable[Sentence]
) -> dict[tuple[str, str, int], float]:
    """The true class probability of each sentence, matched by study, section and position.

    Args:
        path: A table with the columns of :data:`TRUTH`, as phantoms have it in ``truth.csv``; where
            it has a column ``sentence``, that must be the same text.
        sentences: The sentences that are trained on.

    Returns:
        By study, section and position.

    Raises:
        DataError: A sentence has no row or another text there, or a probability is none.
    """
    table = read_table(path, required=TRUTH)
    rows = {(row["study_id"], row["section"], row["position"]): row for row in table.rows}
    number = {id(row): i for i, row in enumerate(table.rows, 1)}
    found = {}
    for sentence in sentences:
        place = (sentence.study_id, sentence.section, sentence.position)
        where = f"study '{place[0]}', section {place[1]}, position {place[2]}"
        row = rows.get((place[0], place[1], str(place[2])))
        if row is None:
            raise DataError(
                f"{path}: no row for {where} of the table of sentences; give the truth of the "
                "same reports in objective.true_probability"
            )
        if row.get("sentence", sentence.sentence) != sentence.sentence:
            raise DataError(
                f"{path}: row {number[id(row)]}: another sentence than the table of sentences has "
                f"at {where}; score the reports that this truth was written for"
            )
        found[place] = _probability(path, number[id(row)], row["rho"])
    return found


def _probability(path: Path, row: int, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value < 1.0:
        raise DataError(
            f"{path}: row {row}: rho '{text}' is not a probability from 0 to below 1; mend it there"
        )
    return value


@torch.no_grad()
def text_vectors(
    model: ImageTextModel,
    sentences: Sequence[str],
    batch: int = 256,
    progress: Callable[[int, int], None] | None = None,
) -> TextVectors:
    """Unit vectors of distinct sentences, whose cosines tell how alike they are.

    Mean-pooled last hidden states of the text encoder, minus their mean, normalised.  The states
    of a BERT share one large direction: as they come, the cosine of any two sentences is high,
    often near 1, and how high differs from model to model.  Without the mean, cosines spread
    around 0, and one threshold means much the same for every model.

    Args:
        model: A model before its first step: its text encoder still is the language model's.
        sentences: Distinct sentences, U.
        batch: Sentences at a time.
        progress: Called with (done, total).

    Returns:
        [U, hidden size], float16, for half the memory.

    Source: Ethayarajh 2019 (How contextual are contextualized word representations?), section 4,
        for the shared direction; taking it away is ours.
    """
    encoder, training = model.text_encoder.backbone, model.training
    hidden = int(encoder.config.hidden_size)
    vectors = np.empty((len(sentences), hidden), dtype=np.float16)
    total, shift = torch.zeros(hidden, dtype=torch.float64), torch.zeros(hidden)
    order = sorted(range(len(sentences)), key=lambda i: len(sentences[i]))
    model.eval()
    for start in range(0, len(order), batch):
        rows = order[start : start + batch]
        tokens = model.tokenize([sentences[i] for i in rows])
        ids, mask = (tokens[n].to(model.device) for n in ("input_ids", "attention_mask"))
        states = encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        weights = mask[..., None].to(states.dtype)
        pooled = ((states * weights).sum(dim=1) / weights.sum(dim=1)).float().cpu()
        if start == 0:  # what all have in common would use up float16's digits
            shift = pooled.mean(dim=0)
        pooled -= shift
        total += pooled.double().sum(dim=0)
        vectors[rows] = pooled.half().numpy()
        if progress:
            progress(min(start + batch, len(order)), len(order))
    model.train(training)
    mean = (total / max(1, len(sentences))).float()
    for start in range(0, len(vectors), 4096):  # in place: the table may be of gigabytes
        part = torch.from_numpy(vectors[start : start + 4096]).float()
        vectors[start : start + 4096] = F.normalize(part - mean, dim=1).half().numpy()
    return vectors


def similarity_to_images(vectors: Tensor, image_of: Tensor, images: int) -> Tensor:
    """Similarity of each sentence to each image: to the most similar of the image's sentences.

    Args:
        vectors: [S, d], unit vectors.
        image_of: [S], the image of each.
        images: B.

    Returns:
        [S, B], cosines; an image without a sentence is at −1.
    """
    cosines = vectors @ vectors.T
    least = cosines.new_full((len(vectors), images), -1.0)
    columns = image_of.expand(len(vectors), -1)
    return least.scatter_reduce(1, columns, cosines, "amax", include_self=True)
