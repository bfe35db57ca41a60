"""How well an image supports each sentence of a report."""

import math
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch

from cxrtext.images import Geometry
from cxrtext.index.scoring import exact_scores
from cxrtext.index.state import State
from cxrtext.models.reference import load_reference
from cxrtext.models.similarity import region_scores
from cxrtext.pausing import Pausing, finish
from cxrtext.service.answers import EmbeddedImage
from cxrtext.service.grounding import Grid, GroundedBox, Grounding, ground_grid
from cxrtext.service.report_sentences import ReportSentence, report_sentences
from cxrtext.service.support import ReferenceScores, Scores, index_reference, percentile
from cxrtext.service.wording import Wording, wording

if TYPE_CHECKING:
    from cxrtext.service.service import Service

Verdict = Literal["supported", "weak", "unsupported"]
Source = Literal["validation", "index", "none"]

SUPPORTED, WEAK = 75.0, 40.0
"""Percentiles from which on a sentence counts as supported, and as weakly supported."""


@dataclass(frozen=True, slots=True)
class ReferenceUsed:
    """What scores were compared with.

    Args:
        source: "validation" (kept with the checkpoint), "index", or "none".
        images: How many.
    """

    source: Source
    images: int


@dataclass(frozen=True, slots=True)
class SupportedSentence:
    """A sentence of a report, and how well an image supports it.

    Args:
        place: The sentence, its section and where it stands in the report.
        wording: How it puts what it says.
        support: Per cent of the reference images that fit it less; None without a reference.
        verdict: In words, by ``support``; not calibrated.
        grounding: Its score and where in the image it fits best.
    """

    place: ReportSentence
    wording: Wording
    support: float | None
    verdict: Verdict | None
    grounding: Grounding

    @property
    def section(self) -> str:
        """Its section."""
        return self.place.section

    @property
    def sentence(self) -> str:
        """Its text, on one line."""
        return self.place.sentence

    @property
    def start(self) -> int:
        """Where it starts in the report, in characters."""
        return self.place.start

    @property
    def end(self) -> int:
        """Where it ends."""
        return self.place.end

    @property
    def score(self) -> float:
        """Score of the whole image, in [−1, 1]."""
        return self.grounding.score

    @property
    def grid(self) -> Grid:
        """[h, w], region scores."""
        return self.grounding.grid

    @property
    def peak(self) -> tuple[float, float]:
        """The x and y of the best region, in original pixels."""
        return self.grounding.peak

    @property
    def threshold(self) -> float:
        """The score from which on a region counts for the boxes."""
        return self.grounding.threshold

    @property
    def boxes(self) -> list[GroundedBox]:
        """Groups of regions above the threshold, best first."""
        return self.grounding.boxes


@dataclass(frozen=True, slots=True)
class Verification:
    """A report against an image.

    Args:
        sentences: In the order of the report.
        reference: What their scores were compared with.
    """

    sentences: tuple[SupportedSentence, ...]
    reference: ReferenceUsed


def verify(
    service: "Service", image: EmbeddedImage, report: str, threshold: float | None = None
) -> Verification:
    """Say of every sentence of a report how well an image supports it.

    Args:
        service: What is loaded.
        image: The image.
        report: The report; sections other than findings, impression and conclusion are passed
            over (see :func:`.report_sentences`).
        threshold: From which score on a region counts for the boxes; by default halfway between
            the mean and the maximum of each sentence's map.

    Raises:
        InputError: The report is too long, or has no sentence that describes an image.
        CheckpointError: The checkpoint's reference is damaged, or another model's.

    Source: METHOD section 6.
    """
    return verify_sentences(service, image, report_sentences(report), threshold)


def verify_sentences(
    service: "Service",
    image: EmbeddedImage,
    places: Sequence[ReportSentence],
    threshold: float | None = None,
) -> Verification:
    """As :func:`verify`, of a report that is divided into sentences, at least one, already."""
    return finish(verify_pausing(service, image, places, threshold))


def verify_pausing(
    service: "Service",
    image: EmbeddedImage,
    places: Sequence[ReportSentence],
    threshold: float | None = None,
) -> Pausing[Verification]:
    """As :func:`verify_sentences`, with pauses."""
    sentences = [place.sentence for place in places]
    known = reference_scores(service)
    yield
    with torch.inference_mode():
        texts = service.embed_sentences(sentences)
        regions = image.regions[None].float().to(service.model.device)
        grids = region_scores(regions, texts)[:, 0].cpu().numpy()
        scores = exact_scores(service.model, regions, texts)[:, 0].tolist()
    side = math.isqrt(regions.shape[1])
    others: Sequence[Scores | None] = [None] * len(places)
    if known is not None:
        others = yield from known.of_pausing(sentences, texts, side)
    geometry = Geometry(image.height, image.width, service.model.spec.preprocessing)
    found = []
    for place, grid, score, other in zip(places, grids, scores, others, strict=True):
        support = None if other is None else percentile(score, other)
        grounding = ground_grid(grid.reshape(side, side), score, geometry, threshold)
        said = wording(place.sentence)
        found.append(SupportedSentence(place, said, support, verdict_of(support), grounding))
        yield
    return Verification(tuple(found), _used(known))


def verdict_of(support: float | None) -> Verdict | None:
    """A percentile in words: supported from 75 on, weak from 40 on, else unsupported."""
    if support is None:
        return None
    if support >= SUPPORTED:
        return "supported"
    return "weak" if support >= WEAK else "unsupported"


def _used(known: ReferenceScores | None) -> ReferenceUsed:
    if known is None:
        return ReferenceUsed("none", 0)
    kept = known.reference
    return ReferenceUsed("validation" if kept.source == "validation" else "index", len(kept))


@dataclass(frozen=True, slots=True)
class _Kept:
    """Reference scores of a service, and the states of the index that they were made from."""

    scores: ReferenceScores | None
    states: list[State]


_kept: "weakref.WeakKeyDictionary[Service, _Kept]" = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def reference_scores(service: "Service") -> ReferenceScores | None:
    """The reference of a service: the checkpoint's, else images of its index, else None.

    It is made once; one of an index again when the index has changed.

    Raises:
        CheckpointError: The checkpoint's reference is damaged, or another model's.
    """
    with _lock:
        kept = _kept.get(service)
        if kept is not None and kept.scores is not None and not kept.states:
            return kept.scores
        states = [part.state for part in service.archive.parts] if service.has_index else []
        if (
            kept is not None
            and len(kept.states) == len(states)
            and all(now is then for now, then in zip(states, kept.states, strict=True))
        ):
            return kept.scores
        kept = _made(service, states)
        _kept[service] = kept
        return kept.scores


def _made(service: "Service", states: list[State]) -> _Kept:
    model = service.model
    own = load_reference(model.folder, model) if model.folder is not None else None
    if own is not None:
        return _Kept(ReferenceScores(model, own), [])
    reference = index_reference(states)
    return _Kept(None if reference is None else ReferenceScores(model, reference), states)
