"""Every objective as training uses it: S sentences of B images, chosen by a configuration.

Sentences are the anchors and images the candidates; ``symmetric`` adds images as anchors of their
first sentence, with the sentences of other images as candidates.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from cxrtext import objectives
from cxrtext.config import (
    AlignmentUniformity,
    Clustered,
    Conditional,
    Contrast,
    HardnegCclk,
    Labelled,
    ObjectiveSection,
    WithKernel,
)
from cxrtext.errors import WorkError
from cxrtext.training.corrections import similarity_to_images
from cxrtext.training.metadata import Kernel, Kind, gram, kernels_for
from cxrtext.training.objective_anchors import hard_sentences, image_anchors
from cxrtext.training.objective_directions import Direction, Terms, defined, losses_of, needed
from cxrtext.training.objective_extras import (
    COMPARING_TEXTS,
    Extras,
    gather_extras,
    objective_files,
)
from cxrtext.training.objective_pairs import Pairs, Result
from cxrtext.training.objective_sphere import losses_on_sphere

__all__ = [
    "Extras",
    "Objective",
    "Pairs",
    "Result",
    "build_objective",
    "gather_extras",
    "objective_files",
]

MENDS = {
    "remove-by-labels": "name fewer findings in objective.findings",
    "remove-by-text": "raise objective.threshold",
    "fair-info-nce": "give fewer objective.clusters",
}
"""What leaves more negatives, beside larger batches."""


class Objective(Protocol):
    """A loss of a batch; see :func:`build_objective`."""

    def __call__(
        self,
        scores: Tensor,
        pairs: Pairs,
        gamma_sq: Tensor,
        texts: Tensor,
        generator: torch.Generator | None = None,
    ) -> Result:
        """Losses of the sentences, and of the images where the objective is symmetric.

        Args:
            scores: [S, B], scaled by γ², of all sentences and images of the batch.
            pairs: How they belong together.
            gamma_sq: γ².
            texts: [S, D], the sentences' embeddings, unit vectors.
            generator: Draws the negatives of resample-by-text; it must follow from the run's seed
                and the step alone, so that a resumed run draws the same.

        Raises:
            ValueError: ``pairs`` lacks what the objective needs.
            WorkError: No anchor of a training batch has a negative, or all metadata are alike.
        """


def build_objective(section: ObjectiveSection, kinds: Sequence[Kind] = ()) -> Objective:
    """Make the objective that a configuration names.

    Args:
        section: The configuration.
        kinds: What the columns of metadata hold: ``gather_extras(…).kinds``.

    Returns:
        A function of scores, pairs, γ² and texts.

    Raises:
        ConfigError: A kernel does not fit what a column holds.
        ValueError: The objective is conditional and ``kinds`` has not one kind a column.
    """
    if isinstance(section, WithKernel) and len(kinds) != len(section.condition):
        raise ValueError(
            f"{section.name} needs one kind a column of {list(section.condition)}, got "
            f"{list(kinds)}; pass those of gather_extras"
        )
    return partial(_evaluate, section, kernels_for(section, kinds))


def _evaluate(
    section: ObjectiveSection,
    parts: Sequence[Kernel],
    scores: Tensor,
    pairs: Pairs,
    gamma_sq: Tensor,
    texts: Tensor,
    generator: torch.Generator | None = None,
) -> Result:
    if isinstance(section, AlignmentUniformity):
        losses = losses_on_sphere(scores, pairs.image_of, gamma_sq, texts, section.weight)
        return Result(losses)
    if isinstance(section, HardnegCclk) and not bool(torch.isfinite(texts).all()):
        # Diverged: a loss that is no number, as other objectives give, not a kernel's complaint.
        return Result(scores.sum(dim=1) * torch.nan)
    known = _known(section, parts, scores, pairs, texts)
    forward = Direction(scores, pairs.image_of, pairs.eta, gamma_sq, generator=generator, **known)
    with defined(section) if parts else nullcontext():
        if isinstance(section, HardnegCclk):
            terms = [hard_sentences(section, parts[0], forward, texts)]
        else:
            terms = [losses_of(section, forward)]
        if isinstance(section, Contrast) and section.symmetric:
            terms.append(losses_of(section, image_anchors(forward)))
    result = _joined(terms)
    if scores.requires_grad and result.without_negatives == len(result.losses):
        raise WorkError(
            f"objective.name: {section.name} leaves no anchor of this step a negative; "
            f"{MENDS[section.name]}, or raise training.batch"
        )
    return result


def _known(
    section: ObjectiveSection, parts: Sequence[Kernel], scores: Tensor, pairs: Pairs, texts: Tensor
) -> dict[str, Tensor]:
    """What the objective reads of the batch, sentences in rows and images in columns."""
    name, images = section.name, scores.shape[1]
    if isinstance(section, Labelled):
        labels = needed(pairs.labels, name, "labels of the images' studies")
        return {"same": objectives.same_labels(labels[pairs.image_of], labels)}
    if name in COMPARING_TEXTS:
        vectors = needed(pairs.vectors, name, "text vectors of the sentences")
        return {"similarity": similarity_to_images(vectors, pairs.image_of, images)}
    if isinstance(section, HardnegCclk):
        return {"kernel": gram(texts[:images].detach(), parts)}
    if not isinstance(section, Conditional):
        return {}
    metadata = needed(pairs.metadata, name, "metadata of the images")
    if isinstance(section, Clustered):
        return {"clusters": metadata[:, 0].long()}
    with defined(section):
        return {"kernel": gram(metadata, parts)}


def _joined(terms: Sequence[Terms]) -> Result:
    """One result of one or both directions, which weigh the same whatever their sizes."""
    total = sum(len(part.losses) for part in terms)
    weighted = [part.losses * (total / (len(terms) * len(part.losses))) for part in terms]
    floored = [part.floored for part in terms if part.floored is not None]
    alone = [part.without_negatives for part in terms if part.without_negatives is not None]
    return Result(
        torch.cat(weighted),
        float(torch.cat(floored).float().mean()) if floored else 0.0,
        int(torch.cat(alone).sum()) if alone else 0,
    )
