"""The evidence of an image for a finding, and for its side.

A finding is asked for by two vectors: the mean of sentences that affirm it alone, and the mean of
sentences that rule it out.  The evidence is the difference of their scores, times γ²: a model that
scores every sentence on pneumothorax high in an image, denied or not, has no evidence of one.  The
side is asked for by sentences that name it.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from cxrtext.models import ImageTextModel
from cxrtext.text.assertions import Assertion, assertions_of

Floats = NDArray[np.float64]
Embed = Callable[[Sequence[str]], Tensor]

MOST_SENTENCES = 64
"""Distinct sentences whose vectors are averaged."""


@dataclass(frozen=True, slots=True)
class Contrast:
    """What a finding is asked for by: unit vectors [D].

    Sentences that affirm it and that rule it out; that affirm it on the left and on the right,
    None where none name one of them.
    """

    there: Tensor
    absent: Tensor
    left: Tensor | None = None
    right: Tensor | None = None


def contrasts_of(embed: Embed, studies: Iterable[Iterable[str]]) -> dict[str, Contrast]:
    """The contrast of each finding that sentences of reports affirm alone.

    Where none rules it out ("catheter"), those that affirm other findings stand for them.  Which
    sentences are used depends on no order.  ``embed`` gives unit vectors [S, D] of S sentences.
    """
    by: dict[tuple[str, str], set[str]] = defaultdict(set)
    for sentence in {sentence for sentences in studies for sentence in sentences}:
        for kind in _kinds(assertions_of(sentence)):
            by[kind].add(sentence)
    chosen = {kind: _chosen(some) for kind, some in by.items()}
    distinct = sorted({sentence for some in chosen.values() for sentence in some})
    if not distinct:
        return {}
    vectors = dict(zip(distinct, embed(distinct), strict=True))
    means = {kind: _mean(vectors[one] for one in some) for kind, some in chosen.items()}
    found = {}
    for name in sorted(name for name, kind in means if kind == "there"):
        others = [m for (one, kind), m in means.items() if one != name and kind == "there"]
        if (name, "absent") not in means and not others:
            continue
        absent = means[name, "absent"] if (name, "absent") in means else _mean(others)
        left, right = (means.get((name, side)) for side in ("left", "right"))
        sided = left is not None and right is not None
        found[name] = Contrast(
            means[name, "there"], absent, left if sided else None, right if sided else None
        )
    return found


def _kinds(said: Sequence[Assertion]) -> Iterable[tuple[str, str]]:
    """What a sentence is an example of: finding and "there", "absent", "left" or "right"."""
    for one in said:
        if not one.present and not one.side and not one.limited:
            yield one.finding, "absent"
    if len(said) == 1 and said[0].present:
        yield said[0].finding, "there"
        if said[0].side:
            yield said[0].finding, said[0].side


def _chosen(sentences: Iterable[str]) -> list[str]:
    """At most :data:`MOST_SENTENCES` of them, which depends on no order."""
    ranked = sorted(
        (hashlib.blake2b(one.encode(), digest_size=8).digest(), one) for one in sentences
    )
    return [one for _, one in ranked[:MOST_SENTENCES]]


def _mean(vectors: Iterable[Tensor]) -> Tensor:
    return F.normalize(torch.stack(list(vectors)).float().mean(dim=0), dim=-1)


@torch.inference_mode()
def evidence_of(
    model: ImageTextModel, regions: Tensor, contrasts: Mapping[str, Contrast]
) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """The evidence of images for findings, and for the left side rather than the right.

    Regions [B, N, D] -> [B] that each finding is there; and [B] that it is on the left: by the head
    of the side where one tells, the same for all, else of those that sentences name by side.
    """
    names = list(contrasts)
    if not names:
        return {}, {}
    left = None if model.heads is None else model.heads.left(regions.to(model.device))
    sided = [name for name in names if left is None and contrasts[name].left is not None]
    plus = [contrasts[n].there for n in names] + [contrasts[n].left for n in sided]
    minus = [contrasts[n].absent for n in names] + [contrasts[n].right for n in sided]
    vectors = torch.stack([v for v in plus + minus if v is not None]).to(model.device)
    scores = model.scores(regions.to(model.device).float(), vectors) * model.gamma_sq
    high, low = scores.double().cpu().numpy().reshape(2, len(plus), -1)
    rows = high - low
    presence, by_words = dict(zip(names, rows, strict=False)), rows[len(names) :]
    if left is not None:
        return presence, dict.fromkeys(names, left.double().cpu().numpy())
    return presence, dict(zip(sided, by_words, strict=True))
