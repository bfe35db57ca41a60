"""What an objective needs of the data beside images and sentences, read before any decoding."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from cxrtext.config import Clustered, Conditional, Config, DclEtaTrue, Labelled
from cxrtext.errors import ConfigError, DataError
from cxrtext.models import ImageTextModel
from cxrtext.records import ImageRecord, Sentence
from cxrtext.training.corrections import (
    LabelSet,
    TextVectors,
    label_sets,
    text_vectors,
    true_probabilities,
)
from cxrtext.training.data import Examples
from cxrtext.training.metadata import (
    Columns,
    Kind,
    Values,
    cluster,
    distinct_values,
    kernels_for,
    read_columns,
)

COMPARING_TEXTS = ("remove-by-text", "resample-by-text", "reweight-by-text")


@dataclass(frozen=True, slots=True)
class Extras:
    """What an objective needs; empty where it needs nothing.

    Args:
        labels: Findings by study, each [F].
        eta: Class probabilities by study, section and position, in place of the estimates.
        vectors: [U, d], of distinct sentences.
        vector_of: The row of ``vectors`` of each sentence.
        metadata: Metadata or cluster by name of the image, each [M].
        kinds: What the columns of metadata hold, for ``build_objective``.
    """

    labels: dict[str, LabelSet] = field(default_factory=dict)
    eta: dict[tuple[str, str, int], float] = field(default_factory=dict)
    vectors: TextVectors | None = None
    vector_of: dict[str, int] = field(default_factory=dict)
    metadata: dict[str, Values] = field(default_factory=dict)
    kinds: tuple[Kind, ...] = ()

    def attach(self, examples: Examples) -> Examples:
        """The examples of a split with what the objective needs."""
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
        if self.metadata:
            width = len(next(iter(self.metadata.values())))
            values = [self.metadata[record.name] for record in examples.records]
            shaped = np.asarray(values, dtype=np.float32).reshape(len(values), width)
            examples = replace(examples, metadata=shaped)
        return examples


def objective_files(config: Config) -> list[Path]:
    """The tables that the objective reads beside manifest and sentences.

    Their content decides what a run does, so it belongs into the fingerprint of its data.

    Raises:
        ConfigError: A table is not there.
    """
    objective, manifest = config.objective, config.data.manifest
    if isinstance(objective, Labelled):
        return [_table("labels", objective.labels, manifest, objective.name)]
    if isinstance(objective, DclEtaTrue):
        given = objective.true_probability
        return [_table("true_probability", given, manifest, objective.name, "truth")]
    return []


def _table(key: str, given: Path | None, manifest: Path, name: str, stem: str = "labels") -> Path:
    beside = [manifest.parent / f"{stem}{ending}" for ending in (".csv", ".parquet")]
    for path in [given] if given else beside:
        if path.is_file():
            return path
    raise ConfigError(
        f"objective.{key}: {name} reads a table of {stem}, and there is no {given or beside[0]}; "
        f"give its path with objective.{key}"
    )


def gather_extras(
    config: Config,
    records: Sequence[ImageRecord],
    sentences: Sequence[Sentence],
    model: ImageTextModel,
    progress: Callable[[int, int], None] | None = None,
) -> Extras:
    """Read and compute what the objective needs, once, before any image is decoded.

    Args:
        config: The configuration.
        records: The manifest.
        sentences: The sentences that are trained on.
        model: The new model, before its first step and before a state is loaded: text similarity
            is that of the language model, and the same when a run is resumed.
        progress: Called with (done, total) while sentences are compared.

    Returns:
        To be attached to the examples of each split.

    Raises:
        ConfigError: A table is not there, or kernels or clusters do not fit the data.
        DataError: A table is wrong, a column is missing, or a value of it is.
    """
    objective, name = config.objective, config.objective.name
    used = [record for record in records if record.split in ("train", "val")]
    studies = {record.study_id for record in used}
    said = [sentence for sentence in sentences if sentence.study_id in studies]
    training = [record for record in used if record.split == "train"]
    if not training or not said:
        return Extras()  # collect's caller says which two tables do not meet
    files = objective_files(config)
    if isinstance(objective, Labelled):
        return Extras(labels=label_sets(files[0], objective.findings, training))
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
        return _conditional(config, objective, used, columns)
    return Extras()


def _conditional(
    config: Config, objective: Conditional, used: Sequence[ImageRecord], columns: Columns
) -> Extras:
    values = columns.values
    if isinstance(objective, Clustered):
        fit = np.asarray([record.split == "train" for record in used])
        values = (
            distinct_values(config.data.manifest, columns, objective.condition)
            if objective.clusters is None
            else cluster(columns, fit, objective.clusters, config.training.seed)
        )
    kernels_for(objective, columns.kinds)  # refuses what does not fit
    by_name = {record.name: row for record, row in zip(used, values, strict=True)}
    return Extras(metadata=by_name, kinds=columns.kinds)
