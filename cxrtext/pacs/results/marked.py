"""Marks of a reader on a DICOM image as a structured report: Comprehensive 3D SR after TID 1500."""

import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from cxrtext.pacs import need
from cxrtext.pacs.identity import uid
from cxrtext.pacs.results.building import SCHEME, Making, building, code_of, one_line, short_line
from cxrtext.pacs.results.image import SourceImage
from cxrtext.pacs.results.report import measurement_report, outline
from cxrtext.records.marks import Mark

if TYPE_CHECKING:
    from pydicom.dataset import Dataset

MEANINGS = {"right": "Marked as right", "wrong": "Marked as wrong", "unclear": "Marked as unclear"}


def build_marked(source: SourceImage, marks: Sequence[Mark]) -> "Dataset":
    """A report of one reader's marks on an image by one model's answers (ImageError).

    Each has what was marked as its finding type, the verdict, and whether it was said to be there;
    a box its outline.  The same marks make the same UIDs.
    """
    need("highdicom")
    digest = hashlib.sha256(repr(marks).encode("utf-8", "surrogatepass")).hexdigest()
    making = Making(source, marks[0].model, f"marks {digest}", datetime.now())
    with building(source, "structured report"):
        from highdicom import sr

        name = short_line(marks[0].who.strip("-") or "reader")[:60]
        who = sr.ObserverContext(
            observer_type=sr.CodedConcept("121006", "DCM", "Person"),
            observer_identifying_attributes=sr.PersonObserverIdentifyingAttributes(f"{name}^"),
        )
        context = sr.ObservationContext(observer_person_context=who)
        groups = [_group(making, number, mark) for number, mark in enumerate(marks, 1)]
        return measurement_report(making, context, groups, [])


def _group(making: Making, number: int, mark: Mark) -> Any:
    from highdicom import sr
    from pydicom.sr.codedict import codes

    source = making.source
    of = source.text("SOPClassUID"), source.instance
    asked = [
        (("verdict", "Verdict of the reader"), (mark.verdict, SCHEME, MEANINGS[mark.verdict])),
        (("said", "Said to be present"), codes.SCT.Yes if mark.said else codes.SCT.No),
    ]
    given: dict[str, Any] = {
        "tracking_identifier": sr.TrackingIdentifier(
            uid(making.uid("sr"), "mark", str(number)), one_line(f"{mark.kind}: {mark.text}", 1024)
        ),
        "finding_type": code_of(mark.text),
        "qualitative_evaluations": [
            sr.QualitativeEvaluation(
                sr.CodedConcept(name[0], SCHEME, name[1]),
                sr.CodedConcept(*value) if len(value) == 3 else value,
            )
            for name, value in asked
        ],
    }
    if mark.box is None:
        images = [sr.SourceImageForMeasurementGroup(*of)]
        return sr.MeasurementsAndQualitativeEvaluations(**given, source_images=images)
    region = sr.ImageRegion(
        "POLYLINE", outline(mark.box, source.placement), source_image=sr.SourceImageForRegion(*of)
    )
    return sr.PlanarROIMeasurementsAndQualitativeEvaluations(**given, referenced_region=region)
