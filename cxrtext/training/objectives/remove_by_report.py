"""What an objective needs of the data beside images and sentences, read before any decoding.

Labels of studies, the similarity of texts and true class probabilities tell false negatives.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from cxrtext.config import (
    Clustered,
    Conditional,
    Config,
    DclEtaTrue,
    Labelled,
    RemoveByReport,
    RemoveByTruth,
)
from cxrtext.errors import ConfigError, DataError
from cxrtext.evaluation.data import find_table
from cxrtext.models import ImageTextModel
from cxrtext.models.text_encoder import mean_state
from cxrtext.phantom.truth import KnownTruth, read_truth
from cxrtext.records import CHEX5, ImageRecord, Sentence, read_labels, read_table
from cxrtext.text.entailment import Statement, statement_of
from cxrtext.training.data.loader import Examples
from cxrtext.training.losses.metadata import (
    Kind,
    Values,
    as_number,
    cluster,
    distinct_values,
    kernels_for,
    read_columns,
)
from cxrtext.training.losses.objective import COMPARING_TEXTS

Mask = NDArray[np.bool_]
Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ByReport:
    """Whether reports make sentences true, as `cxrtext.text.entailment` says, a batch at once."""

    statements: Sequence[Statement]  # of distinct sentences, [U]
    said: Rows  # [sentences], the statement of each
    reports: Sequence[Rows]  # for each example, the places of its report's sentences in said

    def __call__(self, sentences: Sequence[int], examples: Rows) -> Mask:
        """Whether each sentence is true of each example, [S, B]."""
        asking, ask = np.unique(self.said[list(sentences)], return_inverse=True)
        own = [np.unique(self.said[self.reports[int(i)]]) for i in examples]
        telling, tell = np.unique(np.concatenate(own), return_inverse=True)
        of_report = np.zeros((len(telling), len(examples)), dtype=np.float32)
        of_report[tell, np.repeat(np.arange(len(own)), [len(one) for one in own])] = 1.0
        asked = [self.statements[i].asked for i in asking]
        denied = [self.statements[i].denied for i in asking]
        words = {word: k for k, word in enumerate(sorted(set().union(*asked, *denied)))}
        told = _marked([self.statements[i].offered for i in telling], words).T
        count = np.asarray([[len(one)] for one in asked], dtype=np.float32)
        enough = (_marked(asked, words) @ told == count).astype(np.float32)
        against = (_marked(denied, words) @ told > 0).astype(np.float32)
        true: Mask = (enough @ of_report > 0) & ~(against @ of_report > 0)
        return true[ask]


def _marked(sets: Sequence[frozenset[str]], words: dict[str, int]) -> NDArray[np.float32]:
    """Sets of words as rows of zeros and ones; other words are left out."""
    marked = np.zeros((len(sets), len(words)), dtype=np.float32)
    for row, one in enumerate(sets):
        marked[row, [words[word] for word in one if word in words]] = 1.0
    return marked


@dataclass(frozen=True, slots=True)
class ByTruth:
    claims: Rows  # [sentences], the row of true of each; −1 where no image tells it
    true: Mask  # [claims, examples]

    def __call__(self, sentences: Sequence[int], examples: Rows) -> Mask:
        rows = self.claims[list(sentences)]
        found: Mask = self.true[rows][:, examples] & (rows >= 0)[:, None]
        return found


def by_report(
    statements: dict[str, Statement], texts: Sequence[Sentence], reports: Sequence[Rows]
) -> ByReport:
    """Match statements, by sentence, with the sentences and reports of examples."""
    place = {text: number for number, text in enumerate(statements)}
    said = np.asarray([place[one.sentence] for one in texts], dtype=np.int64)
    return ByReport(tuple(statements.values()), said, reports)


def by_truth(
    known: KnownTruth, texts: Sequence[Sentence], records: Sequence[ImageRecord]
) -> ByTruth:
    """Match what is known of a drawn set with the sentences and images of examples."""
    claims = [known.claims.get(one.sentence) for one in texts]
    distinct = list(dict.fromkeys(claim for claim in claims if claim is not None))
    place = {claim: number for number, claim in enumerate(distinct)}
    rows = np.asarray([-1 if claim is None else place[claim] for claim in claims], dtype=np.int64)
    true = known.holds(distinct, [record.study_id for record in records])
    # A row for the sentences that no image tells, so that −1 is a row as well.
    return ByTruth(rows, np.concatenate([true, np.zeros((1, len(records)), dtype=np.bool_)]))


TRUTH = ("study_id", "section", "position", "rho")
"""Columns of a table of true class probabilities that are read."""
LabelSet = np.ndarray[tuple[int], np.dtype[np.bool_]]
TextVectors = np.ndarray[tuple[int, ...], np.dtype[np.float16]]


@dataclass(frozen=True, slots=True)
class Extras:
    """What an objective needs; empty where it needs nothing.

    Findings by study, each [F]; class probabilities by study, section and position, in place of
    the estimates; vectors [U, d] of distinct sentences, and the row of each sentence; what distinct
    sentences say, or what drawn images show; metadata or cluster by name of the image, each [M],
    and what the columns hold, for ``build_objective``.
    """

    labels: dict[str, LabelSet] = field(default_factory=dict)
    eta: dict[tuple[str, str, int], float] = field(default_factory=dict)
    vectors: TextVectors | None = None
    vector_of: dict[str, int] = field(default_factory=dict)
    statements: dict[str, Statement] = field(default_factory=dict)
    truth: KnownTruth | None = None
    metadata: dict[str, Values] = field(default_factory=dict)
    kinds: tuple[Kind, ...] = ()

    def attach(self, examples: Examples) -> Examples:
        if self.labels:
            none = np.zeros_like(next(iter(self.labels.values())))
            sets = [self.labels.get(record.study_id, none) for record in examples.records]
            examples = replace(examples, labels=np.asarray(sets).reshape(len(sets), len(none)))
        if self.eta:
            eta = [self.eta[s.study_id, s.section, s.position] for s in examples.texts]
            examples = replace(examples, eta=np.asarray(eta, dtype=np.float32))
        if self.vectors is not None:
            rows = np.asarray([self.vector_of[s.sentence] for s in examples.texts], dtype=np.int64)
            examples = replace(examples, vectors=self.vectors, vector_of=rows)
        if self.statements:
            known = by_report(self.statements, examples.texts, examples.sentences)
            examples = replace(examples, entailed=known)
        if self.truth is not None:
            shown = by_truth(self.truth, examples.texts, examples.records)
            examples = replace(examples, entailed=shown)
        if self.metadata:
            width = len(next(iter(self.metadata.values())))
            values = [self.metadata[record.name] for record in examples.records]
            shaped = np.asarray(values, dtype=np.float32).reshape(len(values), width)
            examples = replace(examples, metadata=shaped)
        return examples


def objective_files(config: Config) -> list[Path]:
    """The tables that the objective reads beside manifest and sentences.

    Their content decides what a run does, so it belongs into the fingerprint of its data.
    """
    objective, manifest = config.objective, config.data.manifest
    if isinstance(objective, Labelled):
        return [_table("labels", objective.labels, manifest, objective.name)]
    if isinstance(objective, RemoveByTruth):
        table = find_table(manifest.parent, "truth")
        return [] if table is None else [table]
    if isinstance(objective, DclEtaTrue):
        given = objective.true_probability
        return [_table("true_probability", given, manifest, objective.name, "truth")]
    return []


def _table(key: str, given: Path | None, manifest: Path, name: str, stem: str = "labels") -> Path:
    path = given or find_table(manifest.parent, stem)
    if path is None or not path.is_file():
        raise ConfigError(
            f"objective.{key}: {name} reads a table of {stem}, and there is no "
            f"{given or manifest.parent / f'{stem}.csv'}; give its path with objective.{key}"
        )
    return path


def gather_extras(
    config: Config,
    records: Sequence[ImageRecord],
    sentences: Sequence[Sentence],
    model: ImageTextModel,
    progress: Callable[[int, int], None] | None = None,
) -> Extras:
    """Read and compute what the objective needs, once, before any image is decoded.

    ``model`` is the new one, before its first step and before a state is loaded: text similarity is
    that of the language model, and the same when a run is resumed.  ``progress`` is called with
    (done, total) while sentences are compared.
    """
    objective, name = config.objective, config.objective.name
    used = [record for record in records if record.split in ("train", "val")]
    studies = {record.study_id for record in used}
    said = [sentence for sentence in sentences if sentence.study_id in studies]
    training = [record for record in used if record.split == "train"]
    if not training or not said:
        return Extras()  # the reader of tables says which two do not meet
    files = objective_files(config)
    if isinstance(objective, Labelled):
        return Extras(labels=label_sets(files[0], objective.findings, training))
    if isinstance(objective, RemoveByReport):
        texts = dict.fromkeys(sentence.sentence for sentence in said)
        return Extras(statements={text: statement_of(text) for text in texts})
    if isinstance(objective, RemoveByTruth):
        folder = config.data.manifest.parent
        if (known := read_truth(folder)) is None:
            raise ConfigError(
                f"{folder}: 'cxrtext phantom' did not write it, and remove-by-truth wants images "
                "that it drew; take another objective.name"
            )
        return Extras(truth=known)
    if isinstance(objective, DclEtaTrue):
        return Extras(eta=true_probabilities(files[0], said))
    if name in COMPARING_TEXTS:
        distinct = list(dict.fromkeys(sentence.sentence for sentence in said))
        if len(distinct) < 2:
            raise DataError(
                f"{config.data.sentences}: all sentences are the same, so {name} cannot tell any "
                "apart; take another objective.name"
            )
        vectors = text_vectors(model, distinct, progress=progress)
        return Extras(vectors=vectors, vector_of={text: i for i, text in enumerate(distinct)})
    if isinstance(objective, Conditional):
        columns = read_columns(config.data.manifest, used, objective.condition)
        kernels_for(objective, columns.kinds)  # refuses what does not fit
        values = columns.values
        if isinstance(objective, Clustered):
            fit = np.asarray([record.split == "train" for record in used])
            values = (
                distinct_values(config.data.manifest, columns, objective.condition)
                if objective.clusters is None
                else cluster(columns, fit, objective.clusters, config.training.seed)
            )
        by_name = {record.name: row for record, row in zip(used, values, strict=True)}
        return Extras(metadata=by_name, kinds=columns.kinds)
    return Extras()


def label_sets(
    path: Path, findings: Sequence[str] | None, records: Sequence[ImageRecord]
) -> dict[str, LabelSet]:
    """The findings of each study that is trained on, [F] by study.

    Only 1 counts, and a study without a row has no finding; ``findings`` is None for those of CheX5
    that have a column.
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

    ``path`` is a table with the columns of :data:`TRUTH`, as phantoms have it in ``truth.csv``;
    where it has a column ``sentence``, that must be the same text.
    """
    rows = {
        (row["study_id"], row["section"], row["position"]): (number, row)
        for number, row in enumerate(read_table(path, required=TRUTH).rows, 1)
    }
    found = {}
    for sentence in sentences:
        study, section, position = sentence.study_id, sentence.section, sentence.position
        where = f"study '{study}', section {section}, position {position}"
        if (study, section, str(position)) not in rows:
            raise DataError(
                f"{path}: no row for {where} of the table of sentences; give the truth of the "
                "same reports in objective.true_probability"
            )
        number, row = rows[study, section, str(position)]
        if row.get("sentence", sentence.sentence) != sentence.sentence:
            raise DataError(
                f"{path}: row {number}: another sentence than the table of sentences has at "
                f"{where}; score the reports that this truth was written for"
            )
        probability = as_number(row["rho"])
        if probability is None or not 0.0 <= probability < 1.0:
            raise DataError(
                f"{path}: row {number}: rho '{row['rho']}' is not a probability from 0 to below 1; "
                "fix it there"
            )
        found[study, section, position] = probability
    return found


@torch.no_grad()
def text_vectors(
    model: ImageTextModel,
    sentences: Sequence[str],
    batch: int = 256,
    progress: Callable[[int, int], None] | None = None,
) -> TextVectors:
    """Unit vectors of distinct sentences, whose cosines tell how alike they are.

    Mean-pooled last hidden states of the text encoder, minus their mean, normalized.  The states
    of a BERT share one large direction: as they come, the cosine of any two sentences is high,
    often near 1, and how high differs from model to model.  Without the mean, cosines spread
    around 0, and one threshold means much the same for every model.

    The model is one before its first step: its text encoder still is the language model's.  U
    sentences give [U, hidden size], float16, for half the memory.

    Source: Ethayarajh 2019 (How contextual are contextualized word representations?), section 4,
        for the shared direction; taking it away is ours.
    """
    encoder, training = model.text_encoder.trunk, model.training
    hidden = int(model.spec.text["hidden_size"])
    vectors = np.empty((len(sentences), hidden), dtype=np.float16)
    total, shift = torch.zeros(hidden, dtype=torch.float64), torch.zeros(hidden)
    order = sorted(range(len(sentences)), key=lambda i: len(sentences[i]))
    model.eval()
    for start in range(0, len(order), batch):
        rows = order[start : start + batch]
        tokens = model.tokenize([sentences[i] for i in rows])
        ids, mask = (tokens[n].to(model.device) for n in ("input_ids", "attention_mask"))
        states = encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        pooled = mean_state(states, mask).cpu()
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
