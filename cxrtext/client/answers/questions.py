"""Answers to questions about an image, the archive or a text."""

from typing import Annotated, Any, Literal

from pydantic import Field

from cxrtext.client.answers.archive import HIT, ImageHit
from cxrtext.client.answers.parts import (
    FINGERPRINT,
    Answer,
    Count,
    Fingerprint,
    Finite,
    Grid,
    Pair,
    Probability,
    Quad,
    Score,
    example,
)

FINDING: dict[str, Any] = {"finding": "Pneumothorax", "probability": 0.71, "score": 0.895}
BOXES: list[dict[str, Any]] = [{"bbox": [1250, 1528, 1250, 1250], "score": 0.6}]
PLACE: dict[str, Any] = {"region": [0, 278, 2500, 2500], "width": 2500, "height": 3056}
SENTENCE: dict[str, Any] = {
    "section": "findings",
    "sentence": "Small left pleural effusion.",
    "start": 10,
    "end": 38,
    "wording": "affirmed",
    "score": 0.42,
    "support": 91.4,
    "verdict": "supported",
    "peak": [1875, 2153],
    "threshold": 0.45,
    "grid": [[0.1, 0.2], [0.3, 0.6]],
    "boxes": BOXES,
}


class Finding(Answer):
    """A finding in an image."""

    model_config = example(FINDING)

    finding: str
    probability: Annotated[
        Probability, Field(description="Logistic of the score, calibrated where the model is.")
    ]
    score: Annotated[Finite, Field(description="Above 0 says present.")]
    calibrated: Annotated[
        bool, Field(description="Whether this finding's probability is calibrated.")
    ] = False


class Classification(Answer):
    """Zero-shot probabilities, one a finding."""

    model_config = example({"model": FINGERPRINT, "calibrated": False, "findings": [FINDING]})

    model: Fingerprint
    calibrated: Annotated[bool, Field(description="Whether every probability is.")]
    findings: list[Finding]


class Box(Answer):
    """A group of neighbouring regions above the threshold."""

    bbox: Annotated[Quad, Field(description="x, y, width, height, in original pixels.")]
    score: Annotated[Score, Field(description="Highest region score in it.")]


class Grounded(Answer):
    """Where an image supports a sentence."""

    model_config = example(
        {
            "model": FINGERPRINT,
            "score": 0.42,
            "grid": [[0.1, 0.2], [0.3, 0.6]],
            **PLACE,
            "peak": [1875, 2153],
            "threshold": 0.45,
            "boxes": BOXES,
        }
    )

    model: Fingerprint
    score: Score
    grid: Grid
    region: Annotated[
        Quad, Field(description="x, y, width, height of the grid, in original pixels.")
    ]
    width: int
    height: int
    peak: Annotated[Pair, Field(description="x and y of the best region's centre.")]
    threshold: Annotated[Score, Field(description="From this on a region counts for the boxes.")]
    boxes: list[Box]


class Reference(Answer):
    """Images with whose scores those of a report's sentences are compared."""

    model_config = example({"source": "validation", "images": 512})

    source: Literal["validation", "index", "none"]
    images: Count


class SupportedSentence(Answer):
    """A sentence of a report, and how well an image supports it."""

    model_config = example(SENTENCE)

    section: str
    sentence: str
    start: Annotated[Count, Field(description="Its first character in the report, from 0.")]
    end: Annotated[Count, Field(description="The character behind its last one.")]
    wording: Literal["affirmed", "negated", "uncertain"]
    score: Score
    support: Annotated[
        float | None,
        Field(ge=0, le=100, description="Percentile of the score among the reference images."),
    ]
    verdict: Literal["supported", "weak", "unsupported"] | None
    peak: Annotated[Pair, Field(description="x and y of the best region's centre.")]
    threshold: Annotated[Score, Field(description="From this on a region counts for the boxes.")]
    grid: Grid
    boxes: list[Box]


class Verified(Answer):
    """A report against an image, sentence by sentence."""

    model_config = example(
        {
            "model": FINGERPRINT,
            **PLACE,
            "reference": {"source": "validation", "images": 512},
            "sentences": [SENTENCE],
        }
    )

    model: Fingerprint
    width: int
    height: int
    region: Annotated[
        Quad, Field(description="x, y, width, height of the grids, in original pixels.")
    ]
    reference: Reference
    sentences: list[SupportedSentence]


class SentenceHit(Answer):
    """A sentence found."""

    model_config = example({"sentence": "Small left pleural effusion.", "score": 0.6, "studies": 3})

    sentence: str
    score: Score
    studies: Annotated[Count, Field(description="How many indexed studies say it.")]


class Found(Answer):
    """What a search found, best first: images or sentences, as ``target`` says."""

    model_config = example(
        {
            "model": FINGERPRINT,
            "target": "images",
            "images": [HIT],
            "sentences": [],
            "matching": 2500,
            "scored": 174,
            "exact": True,
            "warning": None,
            "offset": 0,
            "k": 10,
        }
    )

    model: Fingerprint
    target: Literal["images", "sentences"]
    images: list[ImageHit] = Field(default_factory=list)
    sentences: list[SentenceHit] = Field(default_factory=list)
    matching: Annotated[Count, Field(description="Images, or sentences, that were looked among.")]
    scored: Annotated[Count, Field(description="How many of them were scored exactly.")]
    exact: Annotated[bool, Field(description="Whether these are proven to be the best.")]
    warning: Annotated[str | None, Field(description="Why to distrust the results.")] = None
    offset: Count = 0
    k: Count


class ScoredSentence(Answer):
    """What the language model says of a sentence; its text is not repeated."""

    model_config = example(
        {"sentence_index": 0, "log_likelihood": -9.81, "tokens": 6, "unknown": 0, "eta": 0.0064}
    )

    sentence_index: Annotated[Count, Field(description="Its place in what was sent, from 0.")]
    log_likelihood: Annotated[float, Field(le=0, description="Pseudo-log-likelihood, in nats.")]
    tokens: Annotated[Count, Field(description="Word pieces.")]
    unknown: Annotated[
        Count, Field(description="Words that the language model's vocabulary lacks.")
    ] = 0
    eta: Annotated[
        Probability | None,
        Field(description="Estimated class probability; null where too few words are known."),
    ]
    reason: Annotated[str | None, Field(description="Why there is no eta.")] = None


class ScoredText(Answer):
    """Pseudo-log-likelihoods of sentences, in the order in which they were sent."""

    model: Annotated[str, Field(description="The language model.")]
    sentences: list[ScoredSentence]
    warning: Annotated[
        str | None, Field(description="That the text is foreign to the language model.")
    ] = None
