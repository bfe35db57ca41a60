"""The service's findings, places and sentences as answers."""

from typing import TYPE_CHECKING

from cxrtext.client.answers import (
    Box,
    Finding,
    Grounded,
    Reference,
    SentenceHit,
    SupportedSentence,
    Verified,
)
from cxrtext_api.schemas.rounding import grid_rows, quad, rounded

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cxrtext.client.answers.parts import Quad
    from cxrtext.images import Geometry
    from cxrtext.index import SentenceHit as ServiceSentenceHit
    from cxrtext.service import EmbeddedImage, FindingScore, GroundedBox, Grounding, Service
    from cxrtext.service.verify.verify import SupportedSentence as ServiceSentence
    from cxrtext.service.verify.verify import Verification


def finding_of(found: "FindingScore") -> Finding:
    """A finding as an answer."""
    return Finding(
        finding=found.finding,
        probability=rounded(found.probability),
        score=rounded(found.score),
        calibrated=found.calibrated,
    )


def _boxes(boxes: "Iterable[GroundedBox]") -> list[Box]:
    return [Box(bbox=quad(box.bbox), score=rounded(box.score)) for box in boxes]


def _region(geometry: "Geometry") -> "Quad":
    left, top, right, bottom = geometry.crop_box
    return quad((left, top, right - left, bottom - top))


def grounded_of(model: str, found: "Grounding") -> Grounded:
    """A grounding as an answer."""
    return Grounded(
        model=model,
        score=rounded(found.score),
        grid=grid_rows(found.grid),
        region=_region(found.geometry),
        width=found.geometry.width,
        height=found.geometry.height,
        peak=(rounded(found.peak[0]), rounded(found.peak[1])),
        threshold=rounded(found.threshold),
        boxes=_boxes(found.boxes),
    )


def sentence_of(hit: "ServiceSentenceHit") -> SentenceHit:
    """A found sentence as an answer."""
    return SentenceHit(sentence=hit.sentence, score=rounded(hit.score), studies=hit.studies)


def verified_of(service: "Service", image: "EmbeddedImage", found: "Verification") -> Verified:
    """A verification of an image as an answer."""
    from cxrtext.images import Geometry

    geometry = Geometry(image.height, image.width, service.model.spec.preprocessing)
    return Verified(
        model=service.model.fingerprint,
        width=image.width,
        height=image.height,
        region=_region(geometry),
        reference=Reference(source=found.reference.source, images=found.reference.images),
        sentences=[_supported(sentence) for sentence in found.sentences],
    )


def _supported(found: "ServiceSentence") -> SupportedSentence:
    where = found.grounding
    return SupportedSentence(
        section=found.section,
        sentence=found.sentence,
        start=found.start,
        end=found.end,
        wording=found.wording,
        score=rounded(found.score),
        support=None if found.support is None else round(found.support, 2),
        verdict=found.verdict,
        peak=(rounded(where.peak[0]), rounded(where.peak[1])),
        threshold=rounded(where.threshold),
        grid=grid_rows(where.grid),
        boxes=_boxes(where.boxes),
    )
