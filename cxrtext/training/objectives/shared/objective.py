"""The base of objectives: settings, what they need from the data, and losses of anchors.

Sentences are the anchors and images the candidates.  ``symmetric`` adds images as anchors, with
their first sentence as positive and other images' sentences as candidates.  A loss reads no value
from the device: bad data is refused before, on the CPU, when a batch is put together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from cxrtext.config import Config, ObjectiveSection
from cxrtext.errors import ConfigError
from cxrtext.evaluation.data import find_table
from cxrtext.records import ImageRecord, Sentence
from cxrtext.training.data.drawn import Ask

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from cxrtext.models import ImageTextModel
    from cxrtext.objectives.scores import Rows


@dataclass(frozen=True, slots=True)
class Source:
    """What an objective may read, once, before any image is decoded.

    It has the training and validation images, and the sentences of their studies.  ``model`` is the
    new model, before its first step and before a state is loaded, so that a resumed run gets the
    same results; ``progress`` is called with (done, total) of sentences.
    """

    config: Config
    records: Sequence[ImageRecord]
    sentences: Sequence[Sentence]
    model: ImageTextModel
    progress: Callable[[int, int], None] | None = None

    @property
    def training(self) -> list[ImageRecord]:
        return [record for record in self.records if record.split == "train"]


def source_of(
    config: Config,
    records: Sequence[ImageRecord],
    sentences: Sequence[Sentence],
    model: ImageTextModel,
    progress: Callable[[int, int], None] | None = None,
) -> Source:
    """The part of the tables for training and validation."""
    used = [record for record in records if record.split in ("train", "val")]
    studies = {record.study_id for record in used}
    used_sentences = [sentence for sentence in sentences if sentence.study_id in studies]
    return Source(config, used, used_sentences, model, progress)


@dataclass(frozen=True, slots=True)
class Direction:
    """Anchors in rows, candidates in columns, and what is known about them."""

    scores: Tensor  # [A, C], scaled by γ²; −inf is not a candidate
    positive: Tensor  # [A], the column of each anchor's positive
    eta: Tensor  # [A], class probability of each anchor's sentence
    gamma_sq: Tensor
    known: Mapping[str, Any] = field(default_factory=dict)  # what the objective asked for
    # draws negatives; depends only on the run's seed and the step, so that a resumed run draws the
    # same
    generator: torch.Generator | None = None
    texts: Tensor | None = None  # [A, D], without gradient, if the anchors are sentences

    @property
    def rows(self) -> Rows:
        from cxrtext.objectives.scores import rows_of

        return rows_of(self.scores, self.positive)


@dataclass(frozen=True, slots=True)
class Terms:
    """An objective's results, each [A].

    Losses are in nats, to be averaged; both directions are weighted to count the same.
    ``floored``: whether a debiased loss is at its floor; ``without_negatives``: whether the
    objective removed every negative; None for other objectives.  ``advice`` is for a batch in which
    no anchor has a negative.
    """

    losses: Tensor
    floored: Tensor | None = None
    without_negatives: Tensor | None = None
    advice: str = ""

    def measures(self) -> list[Tensor]:
        """The share of floored anchors, and the number of those without a negative."""
        zero = self.losses.new_zeros(())
        return [
            zero if self.floored is None else self.floored.float().mean(),
            zero if self.without_negatives is None else self.without_negatives.float().sum(),
        ]


def joined(terms: Sequence[Terms], advice: str = "") -> Terms:
    """Join directions so that they weigh the same, whatever their sizes."""
    import torch

    total = sum(len(part.losses) for part in terms)
    floored = [part.floored for part in terms if part.floored is not None]
    alone = [part.without_negatives for part in terms if part.without_negatives is not None]
    return Terms(
        torch.cat([part.losses * (total / (len(terms) * len(part.losses))) for part in terms]),
        torch.cat(floored) if floored else None,
        torch.cat(alone) if alone else None,
        advice,
    )


class Contrast(ObjectiveSection):
    """The base of all objectives; the fields of a class are the keys of its section.

    It contrasts sentences with images and, with ``symmetric``, images with sentences.
    """

    symmetric: bool = False
    more_negatives: ClassVar[str] = ""  # what leaves more negatives, apart from larger batches

    def files(self, config: Config) -> list[Path]:
        """Further tables that are read, besides manifest and sentences, and decide the run."""
        return []

    def prepare(self, source: Source) -> Ask:
        """Read and compute what is needed; the returned function gives :attr:`Direction.known`."""
        return lambda _: {}

    def losses(self, d: Direction) -> Terms:
        """The losses in one direction, and what to log about them."""
        raise NotImplementedError

    def turned(self, forward: Direction) -> Direction:
        """The other direction: images are anchors, with their first sentence as positive.

        The other sentences of an image are not candidates.
        """
        import torch

        B = forward.scores.shape[1]
        first = torch.arange(B, device=forward.scores.device)
        others = forward.positive[:, None] == first
        others[first, first] = False
        return replace(
            forward,
            scores=forward.scores.masked_fill(others, -torch.inf).T,
            positive=first,
            eta=forward.eta[:B],
            known=self.turn_known(forward),
        )

    def turn_known(self, forward: Direction) -> Mapping[str, Any]:
        """What is known with images as anchors: by default each [S, B] as [B, S]."""
        return {name: values.T for name, values in forward.known.items()}

    def directions(self, forward: Direction) -> list[Terms]:
        terms = [self.losses(forward)]
        if self.symmetric:
            terms.append(self.losses(self.turned(forward)))
        return terms

    def __call__(self, d: Direction) -> Terms:
        """Losses of a batch with its sentences as anchors and its images as candidates."""
        return joined(
            self.directions(d),
            f"objective.name: {self.name} leaves no anchor of this step a negative; "
            f"{self.more_negatives}, or raise training.batch",
        )


def as_objective(section: ObjectiveSection) -> Contrast:
    assert isinstance(section, Contrast)  # noqa: S101 - every file of this package defines one
    return section


def removed(d: Direction, same: Tensor) -> Terms:
    """InfoNCE without the negatives in a mask [A, C]."""
    from cxrtext.objectives.contrastive import removed_terms

    losses, alone = removed_terms(d.scores, same, d.positive)
    return Terms(losses, without_negatives=alone)


def info_nce(d: Direction) -> Terms:
    from cxrtext.objectives.contrastive import info_nce_terms

    return Terms(info_nce_terms(d.rows))


def debiased(d: Direction, eta: Tensor | float) -> Terms:
    """DCL with one class probability for all anchors, or one for each."""
    from cxrtext.objectives.debiasing import debiased_terms

    return Terms(*debiased_terms(d.rows, eta, d.gamma_sq))


def table(key: str, given: Path | None, manifest: Path, name: str, stem: str) -> Path:
    """The table that a key names, or the one beside the manifest."""
    path = given or find_table(manifest.parent, stem)
    if path is None or not path.is_file():
        raise ConfigError(
            f"objective.{key}: {name} needs a table of {stem}, and there is no "
            f"{given or manifest.parent / f'{stem}.csv'}; give its path with objective.{key}"
        )
    return path
