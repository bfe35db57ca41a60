"""Reports, labels and boxes joined to the images that were kept."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path, PurePosixPath

from cxrtext.datasets.admission.ids import Ids
from cxrtext.datasets.importing.folder import ENDINGS, LeftOut
from cxrtext.datasets.importing.identity import Studies
from cxrtext.datasets.importing.reading import FoundImage, LabelRow
from cxrtext.errors import ImageError
from cxrtext.images.dicom.described import text_of
from cxrtext.images.dicom.file import NotDicomError, read_wanted
from cxrtext.records import Box, Rejected, RowWriter, Study

Tell = Callable[[str, int, int], None]
"""Called with a stage of the work, how much of it is done, and how much there is."""


def write_reports(
    path: Path,
    reports: Iterable[Study | Rejected],
    studies: Studies | None,
    ids: Ids,
    left_out: LeftOut,
    tell: Tell,
) -> tuple[int, int]:
    """Write the reports of the studies that were kept; without ``studies`` every report.

    Returns:
        Reports written, and reports that belong to no study.
    """
    found = _studies(reports, left_out)
    first = next(found, None)
    if first is None:
        path.unlink(missing_ok=True)
        return 0, 0
    columns = ["study_id", *(("report",) if first.report or not first.sections else ())]
    columns += list(first.sections)
    kept = unknown = 0
    with RowWriter(path, dict.fromkeys(columns, "text")) as writer:
        for number, study in enumerate(chain([first], found), 1):
            study_id = study.study_id if studies is None else studies.named(study.study_id)
            if study_id is None:
                unknown += 1
            elif studies is not None and not studies.is_first("report", study_id):
                reason = "a second report of one study; keep one"
                left_out.add(Rejected(f"report {number}", reason))
            else:
                texts = {**study.sections, "report": study.report}
                row = {name: texts.get(name, "") for name in columns[1:]}
                writer.write({"study_id": ids.of("study", study_id), **row})
                kept += 1
            if studies is not None and number % 100 == 0:
                tell("joining reports", min(kept, len(studies) - 1), len(studies))
    return kept, unknown


def _studies(reports: Iterable[Study | Rejected], left_out: LeftOut) -> Iterator[Study]:
    for entry in reports:
        if isinstance(entry, Rejected):
            left_out.add(Rejected(f"reports {entry.item}", entry.reason))
        else:
            yield entry


class LabelTable:
    """Writes the labels of every study once."""

    def __init__(self, writer: RowWriter, studies: Studies, ids: Ids) -> None:
        self.studies = 0
        self.findings: Counter[str] = Counter()
        self._writer, self._known, self._ids = writer, studies, ids

    def add(self, row: LabelRow) -> None:
        """Write the labels of a study, if it was kept and had none before."""
        study_id = self._known.named(row[0])
        if study_id is None or not self._known.is_first("labels", study_id):
            return
        self._writer.write({"study_id": self._ids.of("study", study_id), **row[1]})
        self.studies += 1
        self.findings.update(name for name, value in row[1].items() if value == "1")


class Boxes:
    """The boxes of a set, held until their images come."""

    def __init__(self, boxes: Iterable[Box | Rejected], left_out: LeftOut) -> None:
        self.joined: list[Box] = []
        self.count = 0
        self._waiting: dict[str, list[Box]] = {}
        for box in boxes:
            if isinstance(box, Rejected):
                left_out.add(box)
            else:
                self._waiting.setdefault(_key(box.image), []).append(box)
                self.count += 1

    def join(self, image: FoundImage, name: str) -> None:
        """Give an image its boxes."""
        for key in (_key(image.name), _key(image.box_key)):
            found = self._waiting.pop(key, None) if key else None
            if found is not None:
                width, height = found[0].width, found[0].height
                if not (width and height):
                    width, height = image_size(image.path)
                self.joined += [replace(b, image=name, width=width, height=height) for b in found]
                return


def _key(name: str) -> str:
    """A name without the ending of an image file: MS-CXR's boxes say .jpg, DICOM files .dcm."""
    path = PurePosixPath(name)
    return str(path.with_suffix("")) if path.suffix.lower() in ENDINGS else str(path)


def image_size(path: Path) -> tuple[int, int]:
    """Width and height as the file's header says; (0, 0) where it cannot be read."""
    from PIL import Image

    try:
        header = read_wanted(path, ["Columns", "Rows"]).dataset
        return int(text_of(header, "Columns") or 0), int(text_of(header, "Rows") or 0)
    except NotDicomError:
        bad = (OSError, ValueError, Image.DecompressionBombError)
        with suppress(*bad), Image.open(path, formats=("PNG", "JPEG")) as picture:
            return picture.size
    except (ImageError, OSError, ValueError):
        pass
    return 0, 0
