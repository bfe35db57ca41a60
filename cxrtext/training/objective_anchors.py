"""Who is whose anchor: images instead of sentences, and sentences in turn."""

from dataclasses import replace

import torch
from torch import Tensor

from cxrtext.config import HardnegCclk
from cxrtext.training.metadata import Kernel, gram
from cxrtext.training.objective_directions import Direction, Terms, losses_of, needed


def hard_sentences(
    section: HardnegCclk, kernel: Kernel, forward: Direction, texts: Tensor
) -> Terms:
    """HardNeg-CCLK of sentences, z of each anchor being its own embedding.

    An image's candidate has the z of a sentence of its own, so the first, the second … sentences
    of the images are taken in turn.
    """
    image_of, images = forward.positive, forward.scores.shape[1]
    own, place = texts.detach(), _place_in_image(forward.positive)
    rows, parts = [], []
    for turn in range(int(place.max()) + 1):
        anchors = (place == turn).nonzero().flatten()
        z = own[:images].index_copy(0, image_of[anchors], own[anchors])
        part = replace(
            forward,
            scores=forward.scores[anchors],
            positive=image_of[anchors],
            eta=forward.eta[anchors],
            kernel=gram(z, [kernel]),
        )
        rows.append(anchors)
        parts.append(losses_of(section, part))
    order = torch.cat(rows).argsort()
    floored = [needed(part.floored, section.name, "floors") for part in parts]
    return Terms(torch.cat([part.losses for part in parts])[order], torch.cat(floored)[order])


def _place_in_image(image_of: Tensor) -> Tensor:
    """[S], how many earlier sentences each sentence's image has."""
    earlier = (image_of[:, None] == image_of).tril(diagonal=-1)
    return earlier.sum(dim=1)


def image_anchors(forward: Direction) -> Direction:
    """The other direction: images are the anchors of their first sentence.

    The other sentences of an image are no candidates.  Where a kernel compares candidates, they
    are the first sentences alone, one an image, so that it stays the images' own.
    """
    B = forward.scores.shape[1]
    first = torch.arange(B, device=forward.scores.device)
    if forward.kernel is not None:
        scores = forward.scores[:B].T
        return Direction(scores, first, forward.eta[:B], forward.gamma_sq, kernel=forward.kernel)
    others = forward.positive[:, None] == first
    others[first, first] = False
    return Direction(
        scores=forward.scores.masked_fill(others, -torch.inf).T,
        positive=first,
        eta=forward.eta[:B],
        gamma_sq=forward.gamma_sq,
        same=None if forward.same is None else forward.same.T,
        similarity=None if forward.similarity is None else forward.similarity.T,
        clusters=None if forward.clusters is None else forward.clusters[forward.positive],
        generator=forward.generator,
    )
