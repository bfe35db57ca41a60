"""Both directions of a pairing: sentences against images, and images against sentences."""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cxrtext.objectives.scores import positive_columns

_BY_CANDIDATE = ("clusters", "embeddings")


def symmetric(objective: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Make an objective contrast in both directions.

    The result takes the objective's arguments and gives, for each pair of an anchor and its
    positive, half the sum of two losses: the anchor's against the candidates, and the positive's
    against the anchors.  For the second, every [A, C] argument is transposed, ``kernel``,
    ``clusters`` and ``embeddings`` are taken in the order of the anchors' positives, and all else
    stays, so that an image takes the η of its paired sentence.  Sentences of the same image are no
    negatives of it.

    ``extra``, which are scores of one direction, raise a ``ValueError``.
    """
    names = [name for name in inspect.signature(objective).parameters if name != "scores"]

    def both(scores: Tensor, *args: Any, positive: Tensor | None = None, **kwargs: Any) -> Tensor:
        given = dict(zip(names, args, strict=False))
        if positive is None and "positive" in given:
            positive = given.pop("positive")
            args = args[: names.index("positive")]
        given.update(kwargs)
        if given.get("extra") is not None:
            raise ValueError("extra positives belong to one direction; symmetric cannot take them")
        columns = positive_columns(scores, positive)
        chosen = {} if positive is None else {"positive": positive}
        forward = objective(scores, *args, **kwargs, **chosen)

        def transpose(name: str, value: Any) -> Any:
            return _transposed(name, value, scores, columns)

        transposed_args = [transpose(name, value) for name, value in zip(names, args, strict=False)]
        transposed = {name: transpose(name, value) for name, value in kwargs.items()}
        # An image's other sentences are no candidates: they are its positives too.
        shared = columns[:, None] == columns
        shared = shared & ~torch.eye(len(columns), dtype=torch.bool, device=columns.device)
        back = scores[:, columns].T.masked_fill(shared, -torch.inf)
        return (forward + objective(back, *transposed_args, **transposed)) / 2

    return both


def _transposed(name: str, value: Any, scores: Tensor, columns: Tensor) -> Any:
    """An argument as it is seen from the other side."""
    if not isinstance(value, Tensor):
        return value
    if name == "kernel":
        return value[columns][:, columns]
    if name in _BY_CANDIDATE:
        return value[columns]
    return value[:, columns].T if value.shape == scores.shape else value
