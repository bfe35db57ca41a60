"""What the routes take and answer."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from cxrtext.evaluation import Prompts as ServicePrompts
    from cxrtext.index import ImageHit as ServiceImageHit
    from cxrtext.index import IndexedImage as ServiceImage
    from cxrtext.index import SentenceHit as ServiceSentenceHit
    from cxrtext.service import FindingScore as ServiceFinding
    from cxrtext.service import Grounding as ServiceGrounding
    from cxrtext.service import Service

DIGITS = 6
"""Decimals of a number in an answer."""

Finite = Annotated[float, Field(allow_inf_nan=False)]
Score = Annotated[float, Field(ge=-1.001, le=1.001, description="A similarity, in [-1, 1].")]
Probability = Annotated[float, Field(ge=0, le=1)]
Fingerprint = Annotated[str, Field(description="The model that answered.")]
Pair = tuple[Finite, Finite]
Quad = tuple[Finite, Finite, Finite, Finite]
Phrases = Annotated[list[str], Field(min_length=1)]

_IMAGE = {
    "image_id": "p0007/s0012.png",
    "study_id": "s0012",
    "patient_id": "p0007",
    "split": "test",
    "width": 2500,
    "height": 3056,
    "metadata": {"view": "PA", "age": "61"},
}


def _example(value: dict[str, Any]) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": [value]})


def _rounded(value: float) -> float:
    return round(float(value), DIGITS)


def _quad(box: tuple[float, float, float, float]) -> Quad:
    x, y, width, height = box
    return _rounded(x), _rounded(y), _rounded(width), _rounded(height)


class Prompts(BaseModel):
    """The prompts of one finding; several phrasings are averaged.

    Args:
        positive: Sentences that say that the finding is there.
        negative: Sentences that say that it is not.
    """

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"positive": ["Rib fracture."], "negative": ["No rib fracture."]}]
        },
    )

    positive: Phrases
    negative: Phrases

    @classmethod
    def of(cls, prompts: "ServicePrompts") -> "Prompts":
        """The service's prompts as an answer."""
        return cls(positive=list(prompts.positive), negative=list(prompts.negative))


class Finding(BaseModel):
    """A finding in an image."""

    model_config = _example({"finding": "Pneumothorax", "probability": 0.71, "score": 0.895})

    finding: str
    probability: Annotated[Probability, Field(description="Logistic of the score; not calibrated.")]
    score: Annotated[Finite, Field(description="Above 0 says present.")]

    @classmethod
    def of(cls, found: "ServiceFinding") -> "Finding":
        """The service's finding as an answer."""
        return cls(
            finding=found.finding,
            probability=_rounded(found.probability),
            score=_rounded(found.score),
        )


class Classification(BaseModel):
    """Zero-shot probabilities, one a finding."""

    model: Fingerprint
    findings: list[Finding]


class Box(BaseModel):
    """A group of neighbouring regions above the threshold."""

    bbox: Annotated[Quad, Field(description="x, y, width, height, in original pixels.")]
    score: Annotated[Score, Field(description="Highest region score in it.")]


class Grounded(BaseModel):
    """Where an image supports a sentence."""

    model_config = _example(
        {
            "model": "9f2c…",
            "score": 0.42,
            "grid": [[0.1, 0.2], [0.3, 0.6]],
            "region": [0, 278, 2500, 2500],
            "width": 2500,
            "height": 3056,
            "peak": [1875, 2153],
            "threshold": 0.45,
            "boxes": [{"bbox": [1250, 1528, 1250, 1250], "score": 0.6}],
        }
    )

    model: Fingerprint
    score: Score
    grid: Annotated[list[list[Score]], Field(description="Region scores, rows from the top.")]
    region: Annotated[
        Quad, Field(description="x, y, width, height of the grid, in original pixels.")
    ]
    width: int
    height: int
    peak: Annotated[Pair, Field(description="x and y of the best region's centre.")]
    threshold: Annotated[Score, Field(description="From this on a region counts for the boxes.")]
    boxes: list[Box]

    @classmethod
    def of(cls, model: str, found: "ServiceGrounding") -> "Grounded":
        """The service's grounding as an answer."""
        left, top, right, bottom = found.geometry.crop_box
        return cls(
            model=model,
            score=_rounded(found.score),
            grid=[[_rounded(value) for value in row] for row in found.grid],
            region=_quad((left, top, right - left, bottom - top)),
            width=found.geometry.width,
            height=found.geometry.height,
            peak=(_rounded(found.peak[0]), _rounded(found.peak[1])),
            threshold=_rounded(found.threshold),
            boxes=[Box(bbox=_quad(box.bbox), score=_rounded(box.score)) for box in found.boxes],
        )


class Image(BaseModel):
    """An indexed image."""

    model_config = _example(_IMAGE)

    image_id: str
    study_id: str
    patient_id: str
    split: str
    width: int
    height: int
    metadata: dict[str, str]

    @staticmethod
    def fields_of(image: "ServiceImage") -> dict[str, Any]:
        """What is told of an indexed image; its path is not."""
        return {
            "image_id": image.image,
            "study_id": image.study_id,
            "patient_id": image.patient_id,
            "split": image.split,
            "width": image.width,
            "height": image.height,
            "metadata": dict(image.metadata),
        }


class ImagePage(BaseModel):
    """Some of the indexed images, in the order in which they were indexed."""

    total: int
    offset: int
    limit: int
    images: list[Image]


class ReportSentence(BaseModel):
    """A sentence of a report."""

    section: str
    sentence: str


class ImageDetail(Image):
    """An indexed image with its study's report."""

    model_config = _example(
        {**_IMAGE, "report": [{"section": "findings", "sentence": "The heart is enlarged."}]}
    )

    report: Annotated[
        list[ReportSentence], Field(description="Empty where the index holds no reports.")
    ]


class ImageHit(Image):
    """An image found."""

    model_config = _example({**_IMAGE, "score": 0.58})

    score: Score

    @classmethod
    def of(cls, hit: "ServiceImageHit") -> "ImageHit":
        """The service's hit as an answer."""
        return cls(**Image.fields_of(hit.image), score=_rounded(hit.score))


class SentenceHit(BaseModel):
    """A sentence found."""

    model_config = _example(
        {"sentence": "Small left pleural effusion.", "score": 0.6, "studies": 3}
    )

    sentence: str
    score: Score
    studies: Annotated[int, Field(description="How many indexed studies say it.")]

    @classmethod
    def of(cls, hit: "ServiceSentenceHit") -> "SentenceHit":
        """The service's hit as an answer."""
        return cls(sentence=hit.sentence, score=_rounded(hit.score), studies=hit.studies)


class Found(BaseModel):
    """What a search found, best first: images or sentences, as ``target`` says."""

    model: Fingerprint
    target: Literal["images", "sentences"]
    images: list[ImageHit] = []
    sentences: list[SentenceHit] = []


class ModelInfo(BaseModel):
    """What is loaded."""

    version: Annotated[str, Field(description="Of cxrtext.")]
    model: Fingerprint
    image_encoder: str
    text_encoder_layers: int
    similarity: str
    dimension: int
    gamma_sq: Finite
    resize: int
    crop: int
    prompts: Annotated[dict[str, Prompts], Field(description="Of the findings, in their order.")]
    has_index: bool
    images: Annotated[int, Field(description="Indexed images.")]
    sentences: Annotated[int, Field(description="Distinct indexed sentences.")]
    max_body_bytes: Annotated[int, Field(description="Largest request.")]
    notice: str = "Research use only. Not a medical device."

    @classmethod
    def of(cls, service: "Service", version: str, max_body_bytes: int) -> "ModelInfo":
        """What a service has loaded."""
        about = service.describe()
        return cls(
            version=version,
            model=about["fingerprint"],
            prompts={name: Prompts.of(prompts) for name, prompts in service.prompts.items()},
            has_index=service.has_index,
            max_body_bytes=max_body_bytes,
            **{name: about[name] for name in cls.model_fields if name in about},
        )


class Health(BaseModel):
    """The process answers."""

    status: Literal["ok"] = "ok"


class Readiness(BaseModel):
    """The model is loaded."""

    status: Literal["ready"] = "ready"
