"""Indexed images as answers; their paths are not told."""

from typing import TYPE_CHECKING, Any

from cxrtext.client.answers import Image, ImageDetail, ImageHit, ReportSentence
from cxrtext_api.schemas.rounding import rounded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cxrtext.index import ImageHit as ServiceHit
    from cxrtext.index import IndexedImage


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


def image_of(image: "IndexedImage") -> Image:
    """An indexed image as an answer."""
    return Image(**_fields(image))


def detail_of(image: "IndexedImage", report: "Sequence[tuple[str, str]]") -> ImageDetail:
    """An indexed image and the sentences (section, text) of its study as an answer."""
    said = [ReportSentence(section=section, sentence=text) for section, text in report]
    return ImageDetail(**_fields(image), report=said)


def hit_of(hit: "ServiceHit") -> ImageHit:
    """A found image as an answer."""
    labels = {finding: rounded(p) for finding, p in hit.labels.items()}
    return ImageHit(**_fields(hit.image), score=rounded(hit.score), labels=labels)
