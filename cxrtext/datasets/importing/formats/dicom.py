"""A tree of DICOM files: finds the frontal radiographs, their studies and patients."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from cxrtext.datasets.admission import NEEDED, Decision, decide
from cxrtext.datasets.admission.decide import NO_IMAGE, NO_VIEW
from cxrtext.datasets.admission.ids import IDS, is_uid, object_ids
from cxrtext.datasets.admission.public import BY_SET, with_set
from cxrtext.datasets.importing.folder import LEADS_OUT, existing, inside, walk_set
from cxrtext.datasets.importing.reading import (
    Columns,
    Entry,
    FoundImage,
    LeftOutError,
    Reading,
    check_ids,
    reject,
)
from cxrtext.datasets.importing.reports.sources import file_versions
from cxrtext.errors import ImageError
from cxrtext.images.dicom.described import Described, described
from cxrtext.images.dicom.file import NotDicomError, read_wanted
from cxrtext.images.source import quiet
from cxrtext.records import LeftOut
from cxrtext.records.cells import moment, sex, years
from cxrtext.records.manifest import ACQUIRED, DATES, DAYS
from cxrtext.records.report_folder import printable

KEEP = {
    "age": "PatientAge",
    "sex": "PatientSex",
    "date": "StudyDate",
    ACQUIRED: "AcquisitionDate",
    DAYS: "AcquisitionDate",
    DATES: "LongitudinalTemporalInformationModified",
    "accession": "AccessionNumber",
    "modality": "Modality",
    "manufacturer": "Manufacturer",
    "model": "ManufacturerModelName",
    "site": "InstitutionName",
    "spacing": "ImagerPixelSpacing",
    "rows": "Rows",
    "columns": "Columns",
    "body_part": "BodyPartExamined",
}
"""Metadata that may be read into the manifest, and the element that each comes from."""

KEEP_LISTED = ("age", "sex", "rows", "columns", "spacing")
"""The same for de-identified files of a challenge or a public set."""
_TIMES = ("AcquisitionTime", "AcquisitionDateTime", "StudyDate", "StudyTime")
_MORE = ("PixelSpacing", "OriginalAttributesSequence", KEEP[DATES], *_TIMES)
NOT_DICOM = "no DICOM file"


def metadata_of(said: Described, columns: Columns) -> dict[str, str]:
    """The columns of `KEEP` that the user asked for, read from a header."""
    values = {}
    for name in (*columns, *((DATES,) if {ACQUIRED, DAYS} & {*columns} else ())):
        text = said.first(KEEP[name])
        if name == "age":
            text = years(text)
        elif name == "sex":
            text = sex(text)
        elif name == "date":
            text = text[:4] if text[:4].isdigit() else ""  # the year: a day may identify a patient
        elif name in (ACQUIRED, DAYS):
            text = _acquired(said)
        elif name == DATES:
            text = text.lower()
        elif name == "spacing":
            text = text or said.first("PixelSpacing")
        values[name] = "".join(c for c in text if c.isprintable())[:100]
    return values


def _acquired(said: Described) -> str:
    """When an image was taken, by the device's clock; or else when its study began."""
    of = said.first
    taken = moment(of("AcquisitionDate"), of("AcquisitionTime"))
    return (
        taken or moment(of("AcquisitionDateTime")[:14]) or moment(of("StudyDate"), of("StudyTime"))
    )


_OF_GROUPS = ("site", "model", "manufacturer")
GROUP_ELEMENTS = (*NEEDED, *(KEEP[name] for name in _OF_GROUPS))


def groups_of(said: Described) -> dict[str, str]:
    """Site, device and view as in a manifest, from a header read for `GROUP_ELEMENTS`."""
    groups = {**metadata_of(said, _OF_GROUPS), "view": decide(said).view}
    return {name: value for name, value in groups.items() if value}


def groups_in(path: Path) -> dict[str, str]:
    """The same for a file; {} if its header cannot be read."""
    with suppress(ImageError, OSError):
        return groups_of(described(read_wanted(path, GROUP_ELEMENTS), GROUP_ELEMENTS))
    return {}


@quiet()  # once per file: it takes as long as reading a text
def read_object(
    path: Path, item: str, columns: Columns = (), layout: str = ""
) -> tuple[Described, Decision]:
    """Read the header of a file that may enter; others raise `LeftOutError`.

    ``layout`` is the file's public set, if any; the set's description fills the header's gaps.
    """
    wanted = [*NEEDED, *IDS, *(KEEP[column] for column in columns), *_MORE]
    header = described(read_wanted(path, wanted), wanted)
    said = with_set(header, layout)
    decision = decide(said)
    if decision.refused:
        raise LeftOutError(LeftOut(item, decision.because, decision.refused))
    if decision.fault:
        raise LeftOutError(LeftOut(item, decision.fault))
    if said is not header:
        decision = replace(decision, notes=(*decision.notes, BY_SET))
    return said, decision


def listed_object(
    root: Path, item: str, study: str, *names: str, columns: Columns, layout: str
) -> FoundImage:
    """An image that a table lists and a DICOM file holds: the first of ``names`` that exists.

    The table has one name for study and image; everything else comes from the header.
    """
    name, path = existing(root, item, *names)
    try:
        said, decision = read_object(path, item, columns, layout)
    except ImageError as error:
        raise reject(item, str(error)) from None
    except OSError as error:
        raise reject(item, f"cannot be read ({error.strerror}); see its permissions") from None
    return FoundImage(
        path=path,
        name=name,
        study_id=study,
        patient_id=object_ids(said).patient,
        view=decision.view,
        notes=decision.notes,
        box_key=study,
        metadata=metadata_of(said, columns),
    )


def _image(root: Path, name: str, columns: Columns) -> Entry:
    item, path = printable(name), inside(root, name)
    if path is None or not path.is_file():
        return LeftOut(item, f"{LEADS_OUT}; put the file there")
    if item != name:
        return LeftOut(item, "its name holds control characters or is not UTF-8; rename the file")
    said, decision = read_object(path, item, columns)
    ids = object_ids(said)
    check_ids(item, ids.study, ids.patient)
    return FoundImage(
        path=path,
        name=name,
        study_id=ids.study,
        patient_id=ids.patient,
        view=decision.view,
        notes=tuple(note for note in decision.notes if note != NO_VIEW),  # counted as a view
        accession=ids.accession,
        accession_issuer=ids.accession_issuer,
        issuer=ids.issuer,
        instance=ids.instance if is_uid(ids.instance) else "",
        changed=max(said.all("OriginalAttributesSequence"), default=""),
        modified_ns=path.stat().st_mtime_ns,
        box_key=ids.instance,
        metadata=metadata_of(said, columns),
    )


def _reports(root: Path, name: str, item: str, else_: LeftOut) -> Iterator[Entry]:
    """The reports in a file that is not an image, or ``else_``."""
    path = inside(root, name)
    has_report = False
    if path is not None and path.is_file() and not name.lower().endswith(".txt"):
        for entry in file_versions(path, item):
            has_report = True
            yield entry
    if not has_report:
        yield else_


def _images(root: Path, out: Path, columns: Columns) -> Iterator[Entry]:
    for name in walk_set(root, out):
        if isinstance(name, LeftOut):
            yield name
            continue
        item = printable(name)
        if name.rpartition("/")[2].upper() == "DICOMDIR":
            yield LeftOut(item, what="DICOMDIR")
            continue
        try:
            yield _image(root, name, columns)
        except LeftOutError as error:
            entry = error.entry
            if entry.what == NO_IMAGE:
                yield from _reports(root, name, item, entry)
            else:
                yield entry
        except NotDicomError:
            yield from _reports(root, name, item, LeftOut(item, what=NOT_DICOM))
        except ImageError as error:
            yield LeftOut(item, str(error))
        except OSError as error:
            yield LeftOut(item, f"cannot be read ({error.strerror}); see its permissions")


def _is_dicom(path: Path | None) -> bool:
    if path is None or not path.is_file():
        return False
    try:
        read_wanted(path, ["SOPClassUID"])
    except (NotDicomError, OSError):
        return False
    except ImageError:
        pass  # a damaged DICOM file
    return True


def open_dicom(root: Path, out: Path) -> Reading | None:
    """Open a tree of DICOM files; None if it has none."""
    names = (name for name in walk_set(root, out) if isinstance(name, str))
    if not any(_is_dicom(inside(root, name)) for name in names):
        return None
    return Reading(
        count=lambda: sum(1 for _ in walk_set(root, out)),
        images=partial(_images, root, out),
        offered=tuple(KEEP),
        lists_left_out=False,
    )
