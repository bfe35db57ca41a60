"""From the service's results to what is sent: the client's models, with six decimals, and PNG."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from PIL import Image as Pictures

from cxrtext.client import models
from cxrtext.images import Geometry, encode_png
from cxrtext_api.runtime.uploads import Pixels

if TYPE_CHECKING:
    from cxrtext.evaluation.classification.calibration import FindingCalibration
    from cxrtext.images.placement import Placement
    from cxrtext.index import ImageHit, IndexedImage, SentenceHit
    from cxrtext.models.familiar import Unlike
    from cxrtext.service import EmbeddedImage, FindingScore, GroundedBox, Grounding, Service
    from cxrtext.service.verify.verify import SupportedSentence, Verification


def rounded(value: float) -> float:
    """A number with as many decimals as answers have."""
    return round(float(value), 6)


def quad(box: tuple[float, float, float, float]) -> models.Quad:
    """A box with rounded numbers."""
    x, y, width, height = box
    return rounded(x), rounded(y), rounded(width), rounded(height)


def grid_rows(grid: Iterable[Iterable[float]]) -> list[list[float]]:
    """A grid [h, w] as rows of rounded numbers."""
    return [[rounded(value) for value in row] for row in grid]


def _fields(image: "IndexedImage") -> dict[str, Any]:
    return {
        "image_id": image.image,
        "study_id": image.study_id,
        "patient_id": image.patient_id,
        "split": image.split,
        "width": image.width,
        "height": image.height,
        "metadata": dict(image.metadata),
    }


def image_of(image: "IndexedImage") -> models.Image:
    """An indexed image as an answer."""
    return models.Image(**_fields(image))


def detail_of(image: "IndexedImage", report: "Sequence[tuple[str, str]]") -> models.ImageDetail:
    """An indexed image and the sentences (section, text) of its study as an answer."""
    said = [models.ReportSentence(section=section, sentence=text) for section, text in report]
    return models.ImageDetail(**_fields(image), report=said)


def hit_of(hit: "ImageHit") -> models.ImageHit:
    """A found image as an answer."""
    labels = {finding: rounded(p) for finding, p in hit.labels.items()}
    return models.ImageHit(
        **_fields(hit.image),
        score=rounded(hit.score),
        labels=labels,
        unlike=None if hit.unlike is None else rounded(hit.unlike),
    )


def unlike_of(found: "Unlike | None") -> models.Unlike | None:
    """How unlike something is as an answer."""
    if found is None:
        return None
    return models.Unlike(
        distance=rounded(found.distance), threshold=rounded(found.threshold), flagged=found.flagged
    )


def publications_of(service: "Service") -> list[models.Publication]:
    """The publications that a service answers by."""
    return [
        models.Publication(digest=one.digest, published=one.published)
        for one in service.publications
    ]


def measured_of(found: "FindingCalibration | None") -> models.MeasuredFinding | None:
    """What was measured of a finding as an answer; None where its AUC is not known."""
    if found is None or found.auc is None:
        return None
    auc, low, high = found.auc
    return models.MeasuredFinding(auc=auc, low=low, high=high, calibration_error=found.error_after)


def finding_of(
    found: "FindingScore", evaluated: "FindingCalibration | None" = None
) -> models.Finding:
    """A finding as an answer."""
    return models.Finding(
        finding=found.finding,
        probability=rounded(found.probability),
        score=rounded(found.score),
        calibrated=found.calibrated,
        evaluated=measured_of(evaluated),
    )


def _boxes(boxes: "Iterable[GroundedBox]") -> list[models.Box]:
    return [models.Box(bbox=quad(box.bbox), score=rounded(box.score)) for box in boxes]


def _limits(found: "Grounding") -> tuple[float, float] | None:
    return None if found.scale is None else (rounded(found.scale[0]), rounded(found.scale[1]))


def _region(geometry: Geometry) -> models.Quad:
    left, top, right, bottom = geometry.crop_box
    return quad((left, top, right - left, bottom - top))


def _stored(place: "Placement | None", found: "Grounding") -> models.StoredPlace | None:
    if place is None or place.plain:
        return None
    x, y = place.points_to_stored(found.peak).tolist()
    return models.StoredPlace(
        movement=place.movement,
        width=place.stored_width,
        height=place.stored_height,
        peak=(rounded(x), rounded(y)),
        boxes=[quad(place.boxes_to_stored(box.bbox).tolist()) for box in found.boxes],
    )


def grounded_of(
    service: "Service", image: "EmbeddedImage", sentence: str, found: "Grounding"
) -> models.Grounded:
    """A grounding of a sentence in an image as an answer."""
    return models.Grounded(
        model=service.model.fingerprint,
        score=rounded(found.score),
        grid=grid_rows(found.grid),
        region=_region(found.geometry),
        shift=rounded(found.geometry.grid_shift),
        width=found.geometry.width,
        height=found.geometry.height,
        peak=(rounded(found.peak[0]), rounded(found.peak[1])),
        threshold=rounded(found.threshold),
        boxes=_boxes(found.boxes),
        stored=_stored(image.placement, found),
        limits=_limits(found),
        stands_out=found.stands_out,
        unlike=unlike_of(image.unlike),
        unlike_sentence=unlike_of(service.familiar.of_sentence(sentence)),
    )


def sentence_of(hit: "SentenceHit") -> models.SentenceHit:
    """A found sentence as an answer."""
    return models.SentenceHit(
        sentence=hit.sentence,
        score=rounded(hit.score),
        studies=hit.studies,
        lift=None if hit.lift is None else rounded(hit.lift),
    )


def verified_of(
    service: "Service", image: "EmbeddedImage", found: "Verification"
) -> models.Verified:
    """A verification of an image as an answer."""
    geometry = Geometry(image.height, image.width, service.model.spec.preprocessing)
    return models.Verified(
        model=service.model.fingerprint,
        width=image.width,
        height=image.height,
        region=_region(geometry),
        shift=rounded(geometry.grid_shift),
        reference=models.Reference(source=found.reference.source, images=found.reference.images),
        sentences=[_supported(service, sentence) for sentence in found.sentences],
        unlike=unlike_of(image.unlike),
    )


def _supported(service: "Service", found: "SupportedSentence") -> models.SupportedSentence:
    where = found.grounding
    return models.SupportedSentence(
        section=found.section,
        sentence=found.sentence,
        start=found.start,
        end=found.end,
        wording=found.wording,
        score=rounded(found.score),
        support=None if found.support is None else round(found.support, 2),
        verdict=found.verdict,
        reason=found.judgment.reason,
        basis=_basis(found),
        peak=(rounded(where.peak[0]), rounded(where.peak[1])),
        threshold=rounded(where.threshold),
        grid=grid_rows(where.grid),
        boxes=_boxes(where.boxes),
        limits=_limits(where),
        stands_out=where.stands_out,
        unlike=unlike_of(service.familiar.of_sentence(found.sentence)),
    )


def _basis(found: "SupportedSentence") -> models.Basis | None:
    basis = found.judgment.basis
    if basis is None:
        return None
    fields = {k: rounded(v) if isinstance(v, float) else v for k, v in asdict(basis).items()}
    return models.Basis.model_validate(fields)


def draw_image(pixels: Pixels) -> bytes:
    """An image as PNG."""
    return encode_png(Pictures.fromarray(pixels))


def draw_overlay(pixels: Pixels, found: "Grounding") -> bytes:
    """A heatmap over an image as PNG, in the size of these pixels, which may be a smaller copy."""
    return encode_png(found.drawn_on(pixels))
