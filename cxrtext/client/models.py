"""What the HTTP API takes and answers, as models that the server writes and the client reads.

Docstrings and descriptions are part of the API's description.
"""

from typing import Annotated, Literal

from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field

from cxrtext.service.questions import Prompts as Prompts

Rounded = AfterValidator(lambda value: round(value, 6))
Finite = Annotated[float, Field(allow_inf_nan=False), Rounded]
Score = Annotated[
    float, Field(ge=-1.001, le=1.001, description="A similarity, in [-1, 1]."), Rounded
]
Probability = Annotated[float, Field(ge=0, le=1), Rounded]
Count = Annotated[int, Field(ge=0)]
Fingerprint = Annotated[str, Field(description="The model that answered.")]
Quad = tuple[Finite, Finite, Finite, Finite]
Region = Annotated[
    Quad, Field(description="x, y, width, height of what the model looks at, in original pixels.")
]
Peak = Annotated[tuple[Finite, Finite], Field(description="x and y of the best region's center.")]
Shift = Annotated[
    Finite,
    Field(
        description="The grid is as large as the region, and lies this share of its side further "
        "left and up: regions of a ResNet are centered there."
    ),
]
Threshold = Annotated[Score, Field(description="From this on a region counts for the boxes.")]
Grid = Annotated[list[list[Score]], Field(description="Region scores, rows from the top.")]


class Answer(BaseModel):
    """An answer, or a part of one, frozen; of a result of the service by its attributes.

    Numbers have six decimals.  A field that is not known is left out, so that a client reads the
    answers of a newer server.
    """

    model_config = ConfigDict(frozen=True, from_attributes=True)


# --- the server and what it has loaded ---


class Access(Answer):
    """What the caller may do."""

    key_id: str | None = Field(description="The caller's key; null without keys.")
    scopes: list[str]


class TrainingInfo(Answer):
    """What the model was trained on, as its checkpoint notes it."""

    data: str | None = Field(description="SHA-256 of the training data's tables.")
    studies: Count | None
    objective: str | None
    steps: Count | None
    date: str | None


class MeasuredFinding(Answer):
    """How well a finding was detected on images that the model did not see."""

    auc: Probability = Field(description="Area under the ROC curve.")
    low: Probability = Field(description="Lower end of its 95 % interval.")
    high: Probability
    calibration_error: Probability | None = Field(
        description="Expected error of the calibrated probability."
    )


class EvaluationInfo(Answer):
    """What ``cxrtext calibrate`` measured."""

    split: str
    images: Count
    findings: dict[str, MeasuredFinding]


class LimitInfo(Answer):
    """What a request may ask for at most."""

    max_body_bytes: int
    max_results: int
    max_prompts: int
    max_sentence_characters: int
    max_report_characters: int


class Measure(Answer):
    """A figure of the evaluation with its 95 % interval and what chance reaches."""

    name: str
    figure: str = Field(description="AUC, pointing game or median rank.")
    value: Finite
    low: Finite
    high: Finite
    control: Finite = Field(description="Chance; of places the films of other patients.")


class HowGood(Answer):
    """How good the model is on test images, in a few lines."""

    measured: bool = Field(description="Whether the checkpoint was evaluated.")
    at_chance: bool
    warning: str = Field(description="Why not to use the answers; else empty.")
    lines: list[str] = Field(description="What it finds, weakly, and not; what that rests on.")
    measures: list[Measure] = Field(
        default_factory=list, description="What the lines say, as numbers."
    )


class ModelInfo(Answer):
    """What is loaded."""

    version: str = Field(description="Of cxrtext.")
    model: Fingerprint
    image_encoder: str
    text_encoder_layers: int
    similarity: str
    dimension: int
    gamma_sq: Finite
    resize: int
    crop: int
    prompts: dict[str, Prompts] = Field(description="Of the findings, in their order.")
    calibrated: bool = Field(description="Whether the checkpoint has a calibration.")
    knows_images: bool = Field(
        default=False, description="Whether it says which images are unlike those of its training."
    )
    knows_sentences: bool = Field(default=False, description="The same of sentences.")
    says_where: bool = Field(default=True, description="Whether it sees parts of a film.")
    has_index: bool
    takes_images: bool = Field(description="Whether images can be added.")
    has_held: bool = Field(default=False, description="Whether /v1/held answers.")
    images: Count = Field(description="Indexed images.")
    sentences: Count = Field(description="Distinct indexed sentences.")
    columns: Count = Field(description="Columns that filters can name.")
    exact: bool = Field(description="Whether a search without a mode is exact.")
    access: Access
    trained: TrainingInfo | None
    measured: dict[str, Finite] | None = Field(
        description="Of the validation images, at the end of it."
    )
    evaluated: EvaluationInfo | None = Field(
        default=None, description="Null until the checkpoint is calibrated."
    )
    how_good: HowGood | None = Field(default=None, description="Null from an older server.")
    limits: LimitInfo
    notice: str = "Research use only. Not a medical device."


class Health(Answer):
    """The process answers."""

    status: Literal["ok"] = "ok"


class Readiness(Answer):
    """The model is loaded.

    Args:
        status: That questions are answered.
        writes: Whether what is added or deleted can be kept; None where the server keeps nothing.
    """

    status: Literal["ready"] = "ready"
    writes: bool | None = None


# --- the indexed images ---


class Image(Answer):
    """An indexed image."""

    image_id: str = Field(validation_alias=AliasChoices("image_id", "image"))
    study_id: str
    patient_id: str
    split: str
    width: int
    height: int
    metadata: dict[str, str]


class ImagePage(Answer):
    """Some of the indexed images, in the order in which they were indexed."""

    total: Count = Field(description="Images that the filter leaves.")
    offset: Count
    limit: Count
    images: list[Image]


class ReportSentence(Answer):
    """A sentence of a report."""

    section: str
    sentence: str


class ImageDetail(Image):
    """An indexed image with its study's report."""

    report: list[ReportSentence] = Field(description="Empty where the index holds no reports.")


class TimelineFilm(Answer):
    """A film of a patient."""

    image_id: str
    study_id: str
    view: str = Field(description="As the index has it; empty where it is not known.")
    projection: Literal["frontal", "lateral", "other"] | None = Field(
        description="Kind of its view; null where it is not known."
    )
    acquired: str | None = Field(
        description="When it was taken, as ISO 8601 has it, with a time where one is known."
    )
    days: int | None = Field(
        description="From the film that was asked about, negative where earlier; null where the "
        "films are in no order or have no dates."
    )


class Timeline(Answer):
    """A patient's films in the order of time, or why they are in none."""

    patient_id: str
    ordered: bool = Field(description="Whether the films are in the order of time.")
    reason: str | None = Field(description="Why they are not: one line.")
    shifted: bool = Field(
        description="Whether dates were shifted, all of a patient's by as many days: they are not "
        "the true ones, and the days between them are."
    )
    prior: str | None = Field(
        description="Of the latest earlier study the film of the same projection, to compare with."
    )
    films: list[TimelineFilm] = Field(description="The earliest first where they are in order.")


class AddedImage(Answer):
    """An image that was added; of a key that may not read, nothing but what it sent."""

    image_id: str
    width: int
    height: int
    study_id: str | None = None
    patient_id: str | None = None
    split: str | None = Field(default=None, description="Null for a key that may not read.")
    metadata: dict[str, str]
    report: list[ReportSentence] | None = Field(
        default=None, description="Null for a key that may not read."
    )
    looks: str | None = Field(
        default=None,
        description="What else than a frontal chest the picture looks like (lateral, turned, "
        "mirrored, inverted, other), as a small network guesses; null where it looks like one.",
    )


class ImageHit(Image):
    """An image found."""

    score: Finite = Field(description="In [-1, 1]; in [-2, 2] where something was not to be found.")
    labels: dict[str, Probability] = Field(
        default_factory=dict, description="Zero-shot probabilities that the index keeps."
    )
    unlike: Finite | None = Field(
        default=None,
        description="Distance from the images of the training over the limit, as the index keeps "
        "it: above 1 is flagged; null: not known.",
    )


class Column(Answer):
    """A column that filters can name."""

    name: str
    kind: Literal["number", "text"]
    least: Finite | None = None
    most: Finite | None = None
    values: list[str] | None = Field(
        default=None, description="The commonest values, at most 20, of a text."
    )


class Columns(Answer):
    """The columns that filters can name."""

    columns: list[Column]


class Deleted(Answer):
    """What was deleted."""

    deleted: Count = Field(description="Images.")


# --- questions about an image, the archive or a text ---


class Unlike(Answer):
    """How far an image or a sentence lies from those that the model was trained on."""

    distance: Finite = Field(
        ge=0,
        description="Of an image, about 1 for those it was trained on; of a sentence, the share of "
        "its words that its training reports hardly ever say.",
    )
    threshold: Finite = Field(description="What few held-out images or sentences exceed.")
    flagged: bool = Field(description="Whether it is above; answers then mean little.")


UnlikeImage = Annotated[
    Unlike | None,
    Field(description="How unlike those of the training the image is; null: not known."),
]
UnlikeSentence = Annotated[
    Unlike | None,
    Field(description="How unlike those of the training the sentence is; null: not known."),
]


Limits = Annotated[
    tuple[Score, Score] | None,
    Field(
        description="Region scores between which the sentence's heatmaps shade: what the best "
        "region of 75 % and of 99 % of the reference images stays below; null without them."
    ),
]
StandsOut = Annotated[
    bool | None, Field(description="Whether any region is above the lower limit.")
]


class Finding(Answer):
    """A finding in an image."""

    finding: str
    probability: Probability = Field(
        description="Logistic of the score, calibrated where the model is."
    )
    score: Finite = Field(description="Above 0 says present.")
    calibrated: bool = Field(
        default=False, description="Whether this finding's probability is calibrated."
    )
    flagged: bool | None = Field(
        default=None,
        description="Whether it is above the threshold that was kept; null: not calibrated.",
    )
    group: str | None = Field(
        default=None,
        description='Whose threshold that is: "view=AP", or "pooled" of all groups together.',
        examples=["view=AP"],
    )
    by_head: bool = Field(
        default=False,
        description="Whether a head that was trained on this finding gave the score, not prompts.",
    )
    evaluated: MeasuredFinding | None = Field(
        default=None,
        description="How well it is detected with these prompts; null: it was not evaluated.",
    )


class Classification(Answer):
    """Zero-shot probabilities, one a finding."""

    model: Fingerprint
    calibrated: bool = Field(description="Whether every probability is; never of an unlike image.")
    findings: list[Finding]
    unlike: UnlikeImage = None


class Box(Answer):
    """A group of neighboring regions above the threshold."""

    bbox: Quad = Field(description="x, y, width, height, in original pixels.")
    score: Score = Field(description="Highest region score in it.")


class StoredPlace(Answer):
    """Coordinates in the rows and columns that a DICOM file stores."""

    movement: Literal["", "mirrored", "turned"] = Field(
        description="How the file stores the picture, as its header says."
    )
    width: int
    height: int
    peak: Peak
    boxes: list[Quad] = Field(description="x, y, width, height of each of the boxes.")


class Grounded(Answer):
    """Where an image supports a sentence."""

    model: Fingerprint
    score: Score
    grid: Grid
    region: Region
    shift: Shift = 0.0
    width: int
    height: int
    peak: Peak
    threshold: Threshold
    boxes: list[Box]
    stored: StoredPlace | None = Field(
        default=None,
        description="Peak and boxes in the file's own pixels, where a DICOM header made the "
        "picture shown another: turned, mirrored, or with square pixels.",
    )
    limits: Limits = None
    stands_out: StandsOut = None
    unlike: UnlikeImage = None
    unlike_sentence: UnlikeSentence = None
    read_as: str | None = Field(
        default=None, description="The sentence as it was embedded; null: as it was sent."
    )
    side: Literal["left", "right"] | None = Field(
        default=None,
        description="The patient's side that the image speaks for, by a head that was trained for "
        "sides; null where the sentence names none, or no head tells sides.",
    )
    support: float | None = Field(
        default=None,
        ge=0,
        le=100,
        description="Percentile of the score among the reference images.",
    )


class Reference(Answer):
    """Images with whose scores those of a report's sentences are compared."""

    source: Literal["validation", "index", "none"]
    images: Count


class Basis(Answer):
    """What a verdict rests on: evidence, thresholds and the errors that they make."""

    finding: str = Field(description='What decided: "left effusion", "no pneumothorax".')
    test: Literal["presence", "side"] | None = Field(
        description="Whether the finding itself or its side decided; null where not judged."
    )
    auc: Probability | None = Field(description="Of that, on validation images.")
    evidence: Finite | None = Field(description="High where the image speaks for the sentence.")
    unsupported_below: Finite | None
    supported_above: Finite | None
    true_unsupported: Probability | None = Field(
        description="Measured share of images of which it is true below the first threshold."
    )
    false_supported: Probability | None = Field(
        description="Measured share of images of which it is false above the second threshold."
    )
    true_images: Count | None = Field(description="Validation images of which it is true.")
    false_images: Count | None = Field(description="Validation images of which it is false.")


class SupportedSentence(Answer):
    """A sentence of a report, and how well an image supports it."""

    section: str
    sentence: str
    start: Count = Field(description="Its first character in the report, from 0.")
    end: Count = Field(description="The character behind its last one.")
    wording: Literal["affirmed", "negated", "uncertain"]
    score: Score
    support: float | None = Field(
        ge=0, le=100, description="Percentile of the score among the reference images."
    )
    verdict: Literal["supported", "weak", "unsupported", "not judged"] = Field(
        description="By thresholds calibrated on validation images for the sentence's finding."
    )
    reason: str | None = Field(default=None, description="Why it is not judged.")
    basis: Basis | None = Field(
        default=None, description="Null where the sentence names no calibrated finding."
    )
    peak: Peak
    threshold: Threshold
    grid: Grid
    boxes: list[Box]
    limits: Limits = None
    stands_out: StandsOut = None
    unlike: UnlikeSentence = None


class Verified(Answer):
    """A report against an image, sentence by sentence."""

    model: Fingerprint
    width: int
    height: int
    region: Region
    shift: Shift = 0.0
    reference: Reference
    sentences: list[SupportedSentence]
    unlike: UnlikeImage = None


class SentenceHit(Answer):
    """A sentence found."""

    sentence: str
    score: Score
    studies: Count = Field(description="How many indexed studies say it.")
    lift: Finite | None = Field(
        default=None,
        description="Of a search by an image: how much better it fits than the archive's other "
        "images, an estimate of log p(image | sentence) / p(image) in nats; hits are ranked by it. "
        "Null for a search by a sentence, and in an archive of fewer than 16 images.",
    )


class Found(Answer):
    """What a search found, best first: images or sentences, as ``target`` says."""

    model: Fingerprint
    target: Literal["images", "sentences"]
    images: list[ImageHit] = Field(default_factory=list)
    sentences: list[SentenceHit] = Field(default_factory=list)
    matching: Count = Field(description="Images, or sentences, that were looked among.")
    scored: Count = Field(description="How many of them were scored exactly.")
    exact: bool = Field(description="Whether these are proven to be the best.")
    warning: str | None = Field(default=None, description="Why to distrust the results.")
    unlike: Unlike | None = Field(
        default=None,
        description="How unlike those of the training the image is; null: not known, or no image.",
    )
    unlike_sentences: list[UnlikeSentence] = Field(
        default_factory=list, description="The same of each query, then of each not."
    )
    read_as: list[str | None] = Field(
        default_factory=list,
        description="Each query, then each not, as it was embedded; null: as it was sent.",
    )
    caution: str | None = Field(
        default=None, description="Why a verdict on one of the sentences would not be given."
    )
    offset: Count = 0
    k: Count


class HeldItem(Answer):
    """What waits for somebody to decide: an object, a message, a deletion or a report."""

    name: str = Field(description="A number; of a report r and a number.")
    what: Literal["object", "message", "deletion", "report"]
    state: Literal["held", "failed"]
    source: str = Field(description="Where it came from.")
    received: str
    why: str
    hides: str = Field(description="What nobody sees until somebody decides.")
    studies: list[str] = Field(description="The studies that it concerns.")
    accession: str = Field(description="Of a report; else empty.")
    patient: str = Field(description="Whom a report names; else empty.")


class HeldItems(Answer):
    """What is held, the first received first."""

    held: list[HeldItem]


class Decided(Answer):
    """How much was decided."""

    decided: Count


MarkKind = Literal["finding", "sentence", "hit", "box"]
MarkVerdict = Literal["right", "wrong", "unclear"]


class Mark(Answer):
    """What a reader said of one thing that was shown of an image."""

    who: str = Field(description="The name of the key; '-' on a server without keys.")
    made: str
    model: Fingerprint
    image_id: str = Field(validation_alias=AliasChoices("image_id", "image"))
    study_id: str
    patient_id: str
    kind: MarkKind
    text: str = Field(description="The finding, the sentence, or the word of a box.")
    said: bool = Field(description="Whether it was said to be there; the verdict is on that.")
    verdict: MarkVerdict
    box: Quad | None = Field(description="x, y, w, h in pixels of the original.")


class Marks(Answer):
    """Of each reader the last mark on each thing, the oldest first, a page of them."""

    marks: list[Mark]
    next: Count | None = Field(description="``after`` of the next page; null: this is the last.")
