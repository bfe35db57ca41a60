"""Every objective as training uses it: S sentences of B images, chosen by a configuration.

Sentences are the anchors and images the candidates; ``symmetric`` adds images as anchors of their
first sentence, with the sentences of other images as candidates.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

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
    RemoveByReport,
    RemoveByTruth,
    WithKernel,
)
from cxrtext.errors import WorkError
from cxrtext.objectives import kernels
from cxrtext.objectives.conditional import conditional_alignment_terms, weights_of
from cxrtext.training.data.batches import Pairs
from cxrtext.training.losses.directions import (
    Direction,
    Terms,
    check_uniformity,
    check_weights,
    defined,
    hard_sentences,
    image_anchors,
    joined,
    losses_of,
    needed,
)
from cxrtext.training.losses.metadata import Kernel, Kind, gram, kernels_for

COMPARING_TEXTS = ("remove-by-text", "resample-by-text", "reweight-by-text")

ADVICE = {
    "remove-by-labels": "name fewer findings in objective.findings",
    "remove-by-text": "raise objective.threshold",
    "remove-by-report": "train on reports that affirm more",
    "remove-by-truth": "train on more different images",
    "fair-info-nce": "give fewer objective.clusters",
}
"""What leaves more negatives, beside larger batches."""
UNIFORMITY_T = 2.0


@dataclass(frozen=True, slots=True)
class Objective:
    """A loss of a batch; made by :func:`build_objective`."""

    section: ObjectiveSection  # the configuration
    kernels: Sequence[Kernel] = ()  # those of its metadata or embeddings

    def relate(self, pairs: Pairs) -> Pairs:
        """Work out what the objective reads of a batch beside its scores, on the CPU."""
        section, name, images = self.section, self.section.name, pairs.image_of
        if isinstance(section, Labelled):
            labels = needed(pairs.labels, name, "labels of the images' studies")
            return replace(pairs, same=objectives.same_labels(labels[images], labels))
        if name in COMPARING_TEXTS:
            vectors = needed(pairs.vectors, name, "text vectors of the sentences")
            count = int(images.max()) + 1
            return replace(pairs, similarity=similarity_to_images(vectors, images, count))
        if isinstance(section, RemoveByReport | RemoveByTruth):
            true = needed(pairs.true, name, "the images that each sentence is true of")
            return replace(pairs, same=true)
        if isinstance(section, HardnegCclk):
            # Sentences by how many earlier ones their image has.
            earlier = (images[:, None] == images).tril(diagonal=-1).sum(dim=1)
            turns = range(int(earlier.max()) + 1)
            return replace(pairs, rounds=tuple((earlier == n).nonzero().flatten() for n in turns))
        if isinstance(section, Conditional):
            metadata = needed(pairs.metadata, name, "metadata of the images")
            if isinstance(section, Clustered):
                return replace(pairs, clusters=metadata[:, 0].long())
            return self._with_kernel(pairs, metadata)
        return pairs

    def _with_kernel(self, pairs: Pairs, metadata: Tensor) -> Pairs:
        with defined(self.section):
            kernel = gram(metadata, self.kernels)
        weights = weights_of(kernel, pairs.image_of)
        check_weights(self.section, weights)
        try:
            check_uniformity(self.section, weights)
        except WorkError as error:
            return replace(pairs, kernel=kernel, undefined=str(error))
        return replace(pairs, kernel=kernel)

    def __call__(
        self,
        scores: Tensor,
        pairs: Pairs,
        gamma_sq: Tensor,
        texts: Tensor,
        generator: torch.Generator | None = None,
    ) -> Terms:
        """Losses of the sentences, and of the images where the objective is symmetric.

        Args:
            scores: [S, B], scaled by γ², of all sentences and images of the batch.
            pairs: How they belong together, related.
            texts: [S, D], the sentences' embeddings, unit vectors.
            generator: Draws the negatives of resample-by-text; it must follow from the run's seed
                and the step alone, so that a resumed run draws the same.
        """
        section = self.section
        if isinstance(section, AlignmentUniformity):
            return Terms(on_sphere(scores, pairs.image_of, gamma_sq, texts, section.weight))
        if pairs.undefined and scores.requires_grad:
            raise WorkError(pairs.undefined)
        forward = Direction(
            scores,
            pairs.image_of,
            pairs.eta,
            gamma_sq,
            pairs.same,
            pairs.similarity,
            pairs.clusters,
            pairs.kernel,
            generator,
        )
        if isinstance(section, HardnegCclk):
            kernel = self.kernels[0]
            terms = [hard_sentences(section, kernel, forward, texts, pairs.rounds)]
            z = texts[: scores.shape[1]].detach()
            forward = replace(forward, kernel=kernels.gram(kernel.name, z, kernel.sigma))
        else:
            terms = [self._losses(forward, pairs)]
        if isinstance(section, Contrast) and section.symmetric:
            terms.append(self._losses(image_anchors(forward), pairs))
        return joined(
            terms,
            f"objective.name: {section.name} leaves no anchor of this step a negative; "
            f"{ADVICE.get(section.name, '')}, or raise training.batch",
        )

    def _losses(self, direction: Direction, pairs: Pairs) -> Terms:
        if pairs.undefined:  # a small validation batch may be measured without repulsion
            kernel = needed(direction.kernel, self.section.name, "metadata of the images")
            weights = weights_of(kernel, direction.positive)
            return Terms(conditional_alignment_terms(direction.scores, weights))
        return losses_of(self.section, direction)


def build_objective(section: ObjectiveSection, kinds: Sequence[Kind] = ()) -> Objective:
    """Make the objective that a configuration names.

    ``kinds`` says what the columns of metadata hold: ``gather_extras(…).kinds``.
    """
    if isinstance(section, WithKernel) and len(kinds) != len(section.condition):
        raise ValueError(
            f"{section.name} needs one kind a column of {list(section.condition)}, got "
            f"{list(kinds)}; pass those of gather_extras"
        )
    return Objective(section, kernels_for(section, kinds))


def similarity_to_images(vectors: Tensor, image_of: Tensor, images: int) -> Tensor:
    """Similarity of each sentence to each image: to the most similar of the image's sentences.

    Unit vectors [S, d], each of an image of ``image_of`` [S], give cosines [S, B]; an image without
    a sentence is at −1.
    """
    cosines = vectors @ vectors.T
    lowest = cosines.new_full((len(vectors), images), -1.0)
    columns = image_of.expand(len(vectors), -1)
    return lowest.scatter_reduce(1, columns, cosines, "amax", include_self=True)


def on_sphere(
    scores: Tensor, image_of: Tensor, gamma_sq: Tensor, texts: Tensor, weight: float
) -> Tensor:
    """``‖x − x⁺‖² + λ log E e^{−t‖x − x'‖²}``, t = 2, of sentences and their images.

    A score over γ² is a cosine, whatever the similarity, so ``‖x − y‖² = 2 − 2 s/γ²``; an image
    has no one vector.  Hence uniformity is the mean of that among sentences and that between
    sentences and images, which stands for that among images; both leave out pairs of one study's
    image.  γ² cancels and is not learned.

    Of scores [S, B], scaled by γ², the image of each sentence [S], unit vectors [S, D] and the
    weight λ: [S], the alignment of each sentence plus the weighted uniformity of all.

    Source: Wang and Isola 2020 (alignment and uniformity), section 4; the form for scores is ours.
    """
    squared = 2 - 2 * scores.float() / gamma_sq
    own = image_of[:, None] == torch.arange(scores.shape[1], device=scores.device)
    alignment = squared.gather(1, image_of[:, None]).squeeze(1)
    with torch.autocast(texts.device.type, enabled=False):
        among = 2 - 2 * texts.float() @ texts.float().T
    uniformity = (_log_mean(among, image_of[:, None] == image_of) + _log_mean(squared, own)) / 2
    return alignment + weight * uniformity


def _log_mean(squared: Tensor, related: Tensor) -> Tensor:
    """``log E e^{−t d²}`` over pairs that are not related; 0 where there is none."""
    count = (~related).sum()
    none = count == 0
    logits = (-UNIFORMITY_T * squared).masked_fill(related & ~none, -torch.inf)
    # In float64, rounded once.
    log_count = count.clamp(min=1).double().log().to(squared.dtype)
    return torch.where(none, 0.0, torch.logsumexp(logits.flatten(), dim=0) - log_count)
