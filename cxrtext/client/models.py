"""The answers of the HTTP API, as models that the server writes and the client reads.

Docstrings and descriptions become part of the API's description.
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
    Quad, Field(description="x, y, width, height of the part the model sees, in original pixels.")
]
Peak = Annotated[tuple[Finite, Finite], Field(description="x and y of the best region's center.")]
Shift = Annotated[
    Finite,
    Field(
        description="The grid is as large as the region, but shifted left and up by this share of "
        "its side, as the regions of a ResNet are centered there."
    ),
]
Threshold = Annotated[Score, Field(description="Regions from this score up count for the boxes.")]
Grid = Annotated[list[list[Score]], Field(description="Region scores, rows from the top.")]


class Answer(BaseModel):
    """An answer, or a part of one, frozen; it can be made from a service's result by attributes.

    Numbers have six decimals.  Unknown fields are ignored, so that a client can read the answers of
    a newer server.
    """

    model_config = ConfigDict(frozen=True, from_attributes=True, use_attribute_docstrings=True)


# --- the server and what it has loaded ---


class Access(Answer):
    """What the caller may do."""

    key_id: str | None = Field(description="The caller's key; null without keys.")
    scopes: list[str]


class TrainingInfo(Answer):
    """What the model was trained on, from its checkpoint."""

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
    calibration_error: Probability | None
    """Expected error of the calibrated probability."""


class EvaluationInfo(Answer):
    """What ``cxrtext calibrate`` measured."""

    split: str
    images: Count
    findings: dict[str, MeasuredFinding]


class LimitInfo(Answer):
    """The most that a request may ask for."""

    max_body_bytes: int
    max_results: int
    max_prompts: int
    max_sentence_characters: int
    max_report_characters: int


class Measure(Answer):
    """A figure of the evaluation with its 95 % interval and the value of chance."""

    name: str
    figure: str = Field(description="AUC, pointing game or median rank.")
    value: Finite
    low: Finite
    high: Finite
    control: Finite = Field(description="Chance; for places, other patients' films.")


class HowGood(Answer):
    """How good the model is on test images, in a few lines."""

    measured: bool = Field(description="Whether the checkpoint was evaluated.")
    at_chance: bool
    warning: str = Field(description="Why not to use the answers; else empty.")
    lines: list[str] = Field(description="What it finds well, weakly or not at all, and why.")
    measures: list[Measure] = Field(default_factory=list, description="The same as numbers.")


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
    prompts: dict[str, Prompts] = Field(description="By finding, in order.")
    calibrated: bool = Field(description="Whether the checkpoint has a calibration.")
    knows_images: bool = False
    """Whether it says which images are unlike its training images."""
    knows_sentences: bool = Field(default=False, description="The same for sentences.")
    says_where: bool = Field(default=True, description="Whether it can say where in a film.")
    has_index: bool
    takes_images: bool = Field(description="Whether images can be added.")
    has_held: bool = Field(default=False, description="Whether /v1/held answers.")
    images: Count = Field(description="Indexed images.")
    sentences: Count = Field(description="Distinct indexed sentences.")
    columns: Count = Field(description="Columns that filters can name.")
    exact: bool = Field(description="Whether a search without a mode is exact.")
    access: Access
    trained: TrainingInfo | None
    measured: dict[str, Finite] | None
    """On the validation images, at the end of training."""
    evaluated: EvaluationInfo | None = None
    """Null until the checkpoint is calibrated."""
    how_good: HowGood | None = Field(default=None, description="Null from an older server.")
    limits: LimitInfo
    notice: str = "Research use only. Not a medical device."


class Health(Answer):
    """The process answers."""

    status: Literal["ok"] = "ok"


class Readiness(Answer):
    """The model is loaded.

    Args:
        status: Always ``ready``.
    """

    status: Literal["ready"] = "ready"


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
    """Some of the indexed images, in the order of indexing."""

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

    report: list[ReportSentence] = Field(description="Empty if the index has no report for it.")


class TimelineFilm(Answer):
    """A film of a patient."""

    image_id: str
    study_id: str
    view: str = Field(description="As in the index; empty if unknown.")
    projection: Literal["frontal", "lateral", "other"] | None
    """Kind of its view; null if unknown."""
    acquired: str | None
    """When it was taken, in ISO 8601, with the time if it is known."""
    days: int | None = Field(
        description="Days since the film that was asked about, negative if earlier; null if the "
        "films have no order or no dates."
    )


class Timeline(Answer):
    """A patient's films in order of time, or why their order is unknown."""

    patient_id: str
    ordered: bool = Field(description="Whether the films are in order of time.")
    reason: str | None = Field(description="Why they are not, in one line.")
    shifted: bool = Field(
        description="Whether all of the patient's dates were shifted by the same number of days: "
        "the dates are not true, but the days between them are."
    )
    prior: str | None = Field(
        description="A film to compare with: of the same projection, from the latest earlier study "
        "that has one."
    )
    films: list[TimelineFilm] = Field(description="The earliest first, if they are in order.")


class AddedImage(ImageDetail):
    """An added image."""

    looks: str | None = Field(
        default=None,
        description="A small network's guess what the picture looks like (lateral, turned, "
        "mirrored, inverted, other); null if it looks like a frontal chest.",
    )


class ImageHit(Image):
    """An image found."""

    score: Finite = Field(description="In [-1, 1]; in [-2, 2] if the search excludes something.")
    labels: dict[str, Probability] = Field(default_factory=dict)
    """Zero-shot probabilities that the index keeps."""
    unlike: Finite | None = Field(
        default=None,
        description="Distance from the training images over the limit, from the index: above 1 it "
        "is flagged; null if unknown.",
    )


class Column(Answer):
    """A column that filters can name."""

    name: str
    kind: Literal["number", "text"]
    least: Finite | None = None
    most: Finite | None = None
    values: list[str] | None = None
    """For text, the most common values, at most 20."""


class Columns(Answer):
    """The columns that filters can name."""

    columns: list[Column]


class Deleted(Answer):
    """What was deleted."""

    deleted: Count = Field(description="Images.")


# --- questions about an image, the archive or a text ---


class Unlike(Answer):
    """How far an image or a sentence is from those that the model was trained on."""

    distance: Finite = Field(
        ge=0,
        description="For an image, about 1 if the model was trained on it; for a sentence, the "
        "share of its words that hardly ever occur in the training reports.",
    )
    threshold: Finite = Field(description="Few held-out images or sentences exceed this.")
    flagged: bool = Field(description="Whether it is above; answers then mean little.")


UnlikeImage = Annotated[
    Unlike | None,
    Field(description="How unlike the training images the image is; null if unknown."),
]
UnlikeSentence = Annotated[
    Unlike | None,
    Field(description="How unlike the training sentences the sentence is; null if unknown."),
]
Limits = Annotated[
    tuple[Score, Score] | None,
    Field(
        description="Region scores where the color of the sentence's heatmaps begins and is full: "
        "the best region stays below them in 75 % and in 99 % of the reference images; null "
        "without these."
    ),
]
StandsOut = Annotated[
    bool | None, Field(description="Whether any region is above the lower limit.")
]


class Finding(Answer):
    """A finding in an image."""

    finding: str
    probability: Probability
    """Logistic of the score, calibrated if the model is."""
    score: Finite = Field(description="Above 0 means present.")
    calibrated: bool = False
    """Whether this finding's probability is calibrated."""
    flagged: bool | None = None
    """Whether it is above the kept threshold; null if not calibrated."""
    group: str | None = Field(default=None, examples=["view=AP"])
    """The group of that threshold: "view=AP", or "pooled" for all groups together."""
    by_head: bool = False
    """Whether a head trained on this finding, not the prompts, gave the score."""
    evaluated: MeasuredFinding | None = None
    """How well it is detected with these prompts; null if not evaluated."""


class Classification(Answer):
    """Zero-shot probabilities, one per finding."""

    model: Fingerprint
    calibrated: bool = Field(description="Whether all are calibrated; never for an unlike image.")
    findings: list[Finding]
    unlike: UnlikeImage = None


class Box(Answer):
    """A group of neighboring regions above the threshold."""

    bbox: Quad = Field(description="x, y, width, height, in original pixels.")
    score: Score = Field(description="Highest region score in it.")


class StoredPlace(Answer):
    """Coordinates in the rows and columns that a DICOM file stores."""

    movement: Literal["", "mirrored", "turned"]
    """How the file stores the picture, from its header."""
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
        description="Peak and boxes in the file's own pixels, if the displayed picture differs by "
        "its DICOM header: turned, mirrored, or with square pixels.",
    )
    limits: Limits = None
    stands_out: StandsOut = None
    unlike: UnlikeImage = None
    unlike_sentence: UnlikeSentence = None
    read_as: str | None = None
    """The sentence as it was embedded; null if unchanged."""
    side: Literal["left", "right"] | None = Field(
        default=None,
        description="The patient's side with the finding, from a head trained for sides; null if "
        "the sentence names no side, or there is no such head.",
    )
    support: float | None = Field(default=None, ge=0, le=100)
    """Percentile of the score among the reference images."""


class Reference(Answer):
    """The images whose scores a report's sentences are compared with."""

    source: Literal["validation", "index", "none"]
    images: Count


class Basis(Answer):
    """The basis of a verdict: evidence, thresholds and their errors."""

    finding: str = Field(description='What decided: "left effusion", "no pneumothorax".')
    test: Literal["presence", "side"] | None
    """Whether the finding itself or its side decided; null if not judged."""
    auc: Probability | None = Field(description="Of that test, on validation images.")
    evidence: Finite | None = Field(description="High if the image supports the sentence.")
    unsupported_below: Finite | None
    supported_above: Finite | None
    true_unsupported: Probability | None
    """Measured share below the first threshold among images where it is true."""
    false_supported: Probability | None
    """Measured share above the second threshold among images where it is false."""
    true_images: Count | None = Field(description="Validation images where it is true.")
    false_images: Count | None = Field(description="Validation images where it is false.")


class SupportedSentence(Answer):
    """A sentence of a report, and how well an image supports it."""

    section: str
    sentence: str
    start: Count = Field(description="Its first character in the report, from 0.")
    end: Count = Field(description="The position after its last character.")
    wording: Literal["affirmed", "negated", "uncertain"]
    score: Score
    support: float | None = Field(ge=0, le=100)
    """Percentile of the score among the reference images."""
    verdict: Literal["supported", "weak", "unsupported", "not judged"]
    """By thresholds calibrated on validation images for the sentence's finding."""
    reason: str | None = Field(default=None, description="Why it is not judged.")
    basis: Basis | None = None
    """Null if the sentence names no calibrated finding."""
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
        description="For a search by an image: how much better it fits than the archive's other "
        "images, an estimate of log p(image | sentence) / p(image) in nats; hits are ranked by it. "
        "Null for a search by a sentence, and in an archive of fewer than 16 images.",
    )


class Found(Answer):
    """What a search found, best first: images or sentences, as ``target`` says."""

    model: Fingerprint
    target: Literal["images", "sentences"]
    images: list[ImageHit] = Field(default_factory=list)
    sentences: list[SentenceHit] = Field(default_factory=list)
    matching: Count = Field(description="Images or sentences that were searched.")
    scored: Count = Field(description="How many of them were scored exactly.")
    exact: bool = Field(description="Whether these are proven to be the best.")
    warning: str | None = Field(default=None, description="Why to distrust the results.")
    unlike: Unlike | None = None
    """How unlike the training images the image is; null if unknown or no image."""
    unlike_sentences: list[UnlikeSentence] = Field(default_factory=list)
    """The same for each query, then for each not."""
    read_as: list[str | None] = Field(default_factory=list)
    """Each query, then each not, as it was embedded; null if unchanged."""
    caution: str | None = None
    """Why verify would not judge one of the sentences."""
    offset: Count = 0
    k: Count


class HeldItem(Answer):
    """What waits for a decision: an object, a message, a deletion or a report."""

    name: str = Field(description="A number; for a report, r and a number.")
    what: Literal["object", "message", "deletion", "report"]
    state: Literal["held", "failed"]
    source: str = Field(description="Where it came from.")
    received: str
    why: str
    hides: str = Field(description="What nobody sees until somebody decides.")
    studies: list[str] = Field(description="The studies that it concerns.")
    accession: str = Field(description="A report's accession number; else empty.")
    patient: str = Field(description="The patient that a report names; else empty.")


class HeldItems(Answer):
    """What is held, the oldest first."""

    held: list[HeldItem]


class Decided(Answer):
    """How much was decided."""

    decided: Count


MarkKind = Literal["finding", "sentence", "hit", "box"]
MarkVerdict = Literal["right", "wrong", "unclear"]


class Mark(Answer):
    """What a reader said about one answer for an image."""

    who: str = Field(description="The name of the key; '-' on a server without keys.")
    made: str
    model: Fingerprint
    image_id: str = Field(validation_alias=AliasChoices("image_id", "image"))
    study_id: str
    patient_id: str
    kind: MarkKind
    text: str = Field(description="The finding, the sentence, or the word of a box.")
    said: bool = Field(description="Whether it was said to be there; the verdict judges that.")
    verdict: MarkVerdict
    box: Quad | None = Field(description="x, y, w, h in pixels of the original.")


class Marks(Answer):
    """A page of marks: each reader's last mark on each thing, the oldest first."""

    marks: list[Mark]
    next: Count | None = Field(description="``after`` for the next page; null on the last.")
