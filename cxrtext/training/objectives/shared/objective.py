"""What an objective is: settings, what it asks of the data, and losses of anchors.

Sentences are the anchors and images the candidates; ``symmetric`` adds images as anchors of their
first sentence, with the sentences of other images as candidates.  A loss reads no value from the
device: what can be refused is refused before, on the CPU, where a batch is put together.
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


@dataclass(frozen=True, slots=True)
class Source:
    """What an objective may read, once, before any image is decoded.

    Images of training and validation, and the sentences of their studies.  ``model`` is the new
    one, before its first step and before a state is loaded, so that what it gives is the same when
    a run is resumed; ``progress`` is called with (done, total) of sentences.
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
    """The part of the tables that is trained and validated on."""
    used = [record for record in records if record.split in ("train", "val")]
    studies = {record.study_id for record in used}
    said = [sentence for sentence in sentences if sentence.study_id in studies]
    return Source(config, used, said, model, progress)


@dataclass(frozen=True, slots=True)
class Direction:
    """Anchors in rows, candidates in columns, and what is known of them."""

    scores: Tensor  # [A, C], scaled by γ²; −inf is not a candidate
    positive: Tensor  # [A], the column of each anchor's positive
    eta: Tensor  # [A], class probability of each anchor's sentence
    gamma_sq: Tensor
    known: Mapping[str, Any] = field(default_factory=dict)  # what the objective asked for
    # draws negatives; follows from the run's seed and the step alone, so that a resumed run draws
    # the same
    generator: torch.Generator | None = None
    texts: Tensor | None = None  # [A, D], the anchors' embeddings where they are sentences


@dataclass(frozen=True, slots=True)
class Terms:
    """What an objective makes of anchors, each [A].

    Losses in nats, to be averaged; of both directions, weighted so that they count the same.
    ``floored`` is whether a debiased loss is at its floor, ``without_negatives`` whether the
    objective removed every negative; None for other objectives.  ``advice`` is for where no anchor
    has a negative.
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
    """One or both directions as one, which weigh the same whatever their sizes."""
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


class Objective(ObjectiveSection):
    """The base of all objectives; the fields of a class are the keys of its section."""

    def files(self, config: Config) -> list[Path]:
        """The tables that are read beside manifest and sentences: they decide what a run does."""
        return []

    def prepare(self, source: Source) -> Ask:
        """Read and compute what is needed; the function gives :attr:`Direction.known`."""
        return lambda _: {}

    def __call__(self, d: Direction) -> Terms:
        """Losses of a batch, whose anchors are its sentences and whose candidates its images."""
        raise NotImplementedError


def as_objective(section: ObjectiveSection) -> Objective:
    """A section as what its file made it."""
    assert isinstance(section, Objective)  # noqa: S101 - every file of this package does
    return section


class Contrast(Objective):
    """Sentences are contrasted with images; with ``symmetric`` images with sentences too."""

    symmetric: bool = False
    more_negatives: ClassVar[str] = ""  # what leaves more negatives, beside larger batches

    def losses(self, d: Direction) -> Terms:
        """The losses in one direction, with what is worth logging of them."""
        raise NotImplementedError

    def turned(self, forward: Direction) -> Direction:
        """The other direction: images are the anchors of their first sentence.

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
        """What is known of images as anchors: by default what was [S, B] as [B, S]."""
        return {name: values.T for name, values in forward.known.items()}

    def directions(self, forward: Direction) -> list[Terms]:
        terms = [self.losses(forward)]
        if self.symmetric:
            terms.append(self.losses(self.turned(forward)))
        return terms

    def __call__(self, d: Direction) -> Terms:
        return joined(
            self.directions(d),
            f"objective.name: {self.name} leaves no anchor of this step a negative; "
            f"{self.more_negatives}, or raise training.batch",
        )


def removed(d: Direction, same: Tensor) -> Terms:
    """InfoNCE without the negatives of a mask [A, C]."""
    from cxrtext.objectives.contrastive import removed_terms

    losses, alone = removed_terms(d.scores, same, d.positive)
    return Terms(losses, without_negatives=alone)


def info_nce(d: Direction) -> Terms:
    from cxrtext.objectives.contrastive import info_nce_terms
    from cxrtext.objectives.scores import rows_of

    return Terms(info_nce_terms(rows_of(d.scores, d.positive)))


def debiased(d: Direction, eta: Tensor | float) -> Terms:
    """DCL with one class probability for all, or one an anchor."""
    from cxrtext.objectives.debiasing import debiased_terms
    from cxrtext.objectives.scores import rows_of

    return Terms(*debiased_terms(rows_of(d.scores, d.positive), eta, d.gamma_sq))


def table(key: str, given: Path | None, manifest: Path, name: str, stem: str) -> Path:
    """The table that a key names, or the one beside the manifest."""
    path = given or find_table(manifest.parent, stem)
    if path is None or not path.is_file():
        raise ConfigError(
            f"objective.{key}: {name} reads a table of {stem}, and there is no "
            f"{given or manifest.parent / f'{stem}.csv'}; give its path with objective.{key}"
        )
    return path
