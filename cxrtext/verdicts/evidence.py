"""The evidence of an image for a finding, and for its side.

Two vectors ask for a finding: the mean of sentences that affirm only this finding, and the mean of
sentences that rule it out.  The evidence is the difference of their scores, times γ²: if a model
gives every sentence on pneumothorax a high score in an image, denied or not, it has no evidence.
Sentences that name the side ask for the side.
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
"""The most distinct sentences that are averaged."""


@dataclass(frozen=True, slots=True)
class Contrast:
    """The unit vectors [D] that ask for a finding.

    They are for sentences that affirm it, rule it out, and affirm it on the left and on the right;
    the last two are None unless sentences name both sides.
    """

    there: Tensor
    absent: Tensor
    left: Tensor | None = None
    right: Tensor | None = None


def contrasts_of(embed: Embed, studies: Iterable[Iterable[str]]) -> dict[str, Contrast]:
    """The contrast of each finding that some sentence of the reports affirms alone.

    If no sentence rules it out ("catheter"), sentences that affirm other findings stand in.  The
    choice of sentences does not depend on their order.  ``embed`` gives unit vectors [S, D] of S
    sentences.
    """
    by: dict[tuple[str, str], set[str]] = defaultdict(set)
    for sentence in {sentence for sentences in studies for sentence in sentences}:
        for kind in _kinds(assertions_of(sentence)):
            by[kind].add(sentence)
    chosen = {kind: _chosen(sentences) for kind, sentences in by.items()}
    distinct = sorted({sentence for sentences in chosen.values() for sentence in sentences})
    if not distinct:
        return {}
    vectors = dict(zip(distinct, embed(distinct), strict=True))
    means = {kind: _mean(vectors[text] for text in texts) for kind, texts in chosen.items()}
    contrasts = {}
    for name in sorted(name for name, kind in means if kind == "there"):
        others = [m for (other, kind), m in means.items() if other != name and kind == "there"]
        if (name, "absent") not in means and not others:
            continue
        absent = means[name, "absent"] if (name, "absent") in means else _mean(others)
        left, right = (means.get((name, side)) for side in ("left", "right"))
        sided = left is not None and right is not None
        contrasts[name] = Contrast(
            means[name, "there"], absent, left if sided else None, right if sided else None
        )
    return contrasts


def _kinds(assertions: Sequence[Assertion]) -> Iterable[tuple[str, str]]:
    """What a sentence is an example of: finding and "there", "absent", "left" or "right"."""
    for assertion in assertions:
        if not assertion.present and not assertion.side and not assertion.limited:
            yield assertion.finding, "absent"
    if len(assertions) == 1 and assertions[0].present:
        yield assertions[0].finding, "there"
        if assertions[0].side:
            yield assertions[0].finding, assertions[0].side


def _chosen(sentences: Iterable[str]) -> list[str]:
    """Choose at most :data:`MOST_SENTENCES`, whatever their order."""

    def key(sentence: str) -> tuple[bytes, str]:
        return hashlib.blake2b(sentence.encode(), digest_size=8).digest(), sentence

    return sorted(sentences, key=key)[:MOST_SENTENCES]


def _mean(vectors: Iterable[Tensor]) -> Tensor:
    return F.normalize(torch.stack(list(vectors)).float().mean(dim=0), dim=-1)


@torch.inference_mode()
def evidence_of(
    model: ImageTextModel, regions: Tensor, contrasts: Mapping[str, Contrast]
) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """The evidence of images for findings, and for the left side rather than the right.

    Regions [B, N, D] give evidence [B] that each finding is there, and [B] that it is on the left.
    The model's head for the side gives the latter, the same for all findings; without such a head
    it comes from sentences that name the side, only for findings that have them.
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
