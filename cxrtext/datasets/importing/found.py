"""What the reader of a layout gives: images found, files set aside, and what goes with them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cxrtext.records import BadItem, Box, Study

NO_FILE = "listed, but the image file is not there"
TRAIN_OR_VAL = "train or val"
"""The split of an image that its set leaves to be divided into these two."""


@dataclass(frozen=True, slots=True)
class FoundImage:
    """A frontal radiograph, as its set names it.

    Args:
        path: The file, all links followed.
        name: Its path relative to the folder, with forward slashes.
        study_id: Its study, as the set names it.
        patient_id: Its patient; "" where the set does not say.
        split: "train", "val", "test", ``TRAIN_OR_VAL``, or "" where it is to be drawn.
        view: "AP", "PA", "frontal" (either), or "" where nothing says.
        accession: Another number by which a report may name the study.
        box_key: What box files call the image; "" for the name.
        metadata: The columns that the user asked for.
        labels: Labels of its study by finding: "1", "0", "-1" or "".
    """

    path: Path
    name: str
    study_id: str
    patient_id: str
    split: str = ""
    view: str = ""
    accession: str = ""
    box_key: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Aside:
    """A file that is rightly left out, such as a lateral view.

    Args:
        item: Where it stands: "row 17", or the relative path of a file.
        kind: Why, in the words that files are counted under.
    """

    item: str
    kind: str


Entry = FoundImage | Aside | BadItem
LabelRow = tuple[str, Mapping[str, str]]
"""A study and its labels by finding."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A set opened for import; everything in it is read when it is iterated over.

    Args:
        layout: The name of the layout.
        count: Counts the files or rows to come, for the progress; called once.
        images: Starts reading the images.
        columns: Columns of metadata that the images have.
        findings: Columns of the labels; empty where there are none.
        label_rows: Labels that do not come with the images.
        reports: The reports, where the set has some.
        boxes: The boxes, where the set has some.
        left_out: Columns of the set that the user did not ask for.
    """

    layout: str
    count: Callable[[], int]
    images: Callable[[], Iterator[Entry]]
    columns: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    label_rows: Iterable[LabelRow | BadItem] | None = None
    reports: Iterable[Study | BadItem] | None = None
    boxes: Iterable[Box | BadItem] | None = None
    left_out: tuple[str, ...] = ()
