"""A structured report of a finding: Comprehensive 3D SR after TID 1500 (Measurement Report).

Source: IHE Radiology, AI Results (AIR), for naming the algorithm and encoding findings.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

import cxrtext
from cxrtext.images.placement import Placement
from cxrtext.pacs.identity import CLASSES, MANUFACTURER, WARNING, uid
from cxrtext.pacs.results.building import (
    MODEL_NAME,
    SCHEME,
    Result,
    building,
    code_of,
    device_uid,
    name_scheme,
    one_line,
)
from cxrtext.pacs.results.image import reference

if TYPE_CHECKING:
    from highdicom.sr import ObserverContext
    from numpy.typing import NDArray
    from pydicom.dataset import Dataset

MAX_REGIONS = 16  # regions to outline, best first
_OF_RADIOGRAPHS = ("ImagerPixelSpacing", "PatientOrientation")
Box = tuple[float, float, float, float]


def outline(box: Box, placement: Placement) -> "NDArray[np.float64]":
    """A closed outline of a box of the displayed picture in the file's pixels: [5, 2], (x, y)."""
    x, y, width, height = placement.boxes_to_stored(box).tolist()
    right = min(x + width, placement.stored_width)
    bottom = min(y + height, placement.stored_height)
    left, top = max(x, 0.0), max(y, 0.0)
    corners = [(left, top), (right, top), (right, bottom), (left, bottom), (left, top)]
    return np.array(corners, dtype=np.float64)


def observer(model: str) -> "ObserverContext":
    from highdicom.sr import DeviceObserverIdentifyingAttributes, ObserverContext
    from pydicom.sr.codedict import codes

    return ObserverContext(
        observer_type=codes.DCM.Device,
        observer_identifying_attributes=DeviceObserverIdentifyingAttributes(
            uid=device_uid(model),
            name="cxrtext",
            manufacturer_name=MANUFACTURER,
            model_name=MODEL_NAME,
            serial_number=model[:16],
        ),
    )


def build_report(result: Result) -> "Dataset":
    """A Comprehensive 3D SR of a finding (ImageError)."""
    with building(result.source, "structured report"):
        from highdicom import sr
        from pydicom.sr.codedict import codes

        image, listed = reference(result.source), reference(result.source)
        # Some viewers stop at a report without an image library.  Many headers do not have what
        # TID 1603 says about a radiograph; other images need only their size.
        if any(len(listed.get(name) or ()) != 2 for name in _OF_RADIOGRAPHS):
            listed.Modality = "OT"
        content = sr.MeasurementReport(
            observation_context=sr.ObservationContext(
                observer_device_context=observer(result.finding.model)
            ),
            procedure_reported=sr.CodedConcept("399208008", "SCT", "Plain X-ray of chest"),
            imaging_measurements=_groups(result),
            title=codes.DCM.ImagingMeasurementReport,
            referenced_images=[listed],
        )
        # Separate items, so that viewers write the name of each before its value.
        for item in content[0].iterall():
            if item.keyword == "ContinuityOfContent":
                item.value = "SEPARATE"
        built = sr.Comprehensive3DSR(
            evidence=[image, _capture(result)],
            content=content[0],
            is_complete=True,
            is_final=False,
            is_verified=False,
            **result.given("sr"),
        )
        name_scheme(built)
        return result.finish("sr", built)


def _capture(result: Result) -> "Dataset":
    """A reference to the secondary capture of the same finding, as evidence."""
    from pydicom.dataset import Dataset

    capture, given = Dataset(), result.given("sc")
    capture.SOPClassUID, capture.SOPInstanceUID = CLASSES["sc"], given["sop_instance_uid"]
    capture.StudyInstanceUID = result.source.study
    capture.SeriesInstanceUID = given["series_instance_uid"]
    return capture


def _groups(result: Result) -> list[Any]:
    """The finding in the whole image, and each region that supports it."""
    from highdicom import sr
    from pydicom.sr.codedict import codes

    finding, source = result.finding, result.source
    of = source.text("SOPClassUID"), source.instance
    # OHIF 3.12 fails on measurements without coordinates.
    placement = source.placement
    whole_image = outline((0, 0, placement.width, placement.height), placement)
    frame = sr.CoordinatesForMeasurement("POLYLINE", whole_image, sr.SourceImageForRegion(*of))
    score = sr.CodedConcept("score", SCHEME, "Similarity of image and sentence")
    numbers = [(score, round(finding.grounding.score, 6), sr.CodedConcept("1", "UCUM", "no units"))]
    if finding.probability is not None:
        percent = round(100 * finding.probability, 4)
        certainty = sr.CodedConcept("111012", "DCM", "Certainty of Finding")
        numbers.insert(0, (certainty, percent, sr.CodedConcept("%", "UCUM", "percent")))
    whole = sr.MeasurementsAndQualitativeEvaluations(
        tracking_identifier=sr.TrackingIdentifier(
            uid(result.uid("sr"), "finding"), one_line(finding.sentence, 1024)
        ),
        finding_type=code_of(finding.sentence),
        algorithm_id=_algorithm(result),
        measurements=[sr.Measurement(*one, referenced_coordinates=[frame]) for one in numbers],
        qualitative_evaluations=_properties(result),
        source_images=[sr.SourceImageForMeasurementGroup(*of)],
    )
    # Viewers show comments, but not the algorithm's parameters.
    for text in filter(None, (WARNING, one_line(finding.sentence, 1024), finding.percent)):
        whole[0].ContentSequence.append(sr.TextContentItem(codes.DCM.Comment, text, "CONTAINS"))
    heatmap = CLASSES["sc"], result.uid("sc")
    whole[0].ContentSequence.append(
        sr.ImageContentItem(codes.DCM.VisualExplanation, *heatmap, relationship_type="CONTAINS")
    )
    groups: list[Any] = [whole]
    boxes = finding.grounding.boxes[:MAX_REGIONS] if finding.present else []
    for number, box in enumerate(boxes, 1):
        groups.append(
            sr.PlanarROIMeasurementsAndQualitativeEvaluations(
                tracking_identifier=sr.TrackingIdentifier(
                    uid(result.uid("sr"), "region", str(number)), f"region {number}"
                ),
                referenced_region=sr.ImageRegion(
                    "POLYLINE",
                    outline(box.bbox, placement),
                    source_image=sr.SourceImageForRegion(*of),
                ),
                finding_type=code_of(finding.sentence),
                algorithm_id=_algorithm(result),
            )
        )
    return groups


def _algorithm(result: Result) -> Any:
    from highdicom.sr import AlgorithmIdentification

    finding = result.finding
    said = [WARNING, f"model {finding.model}", f"sentence: {one_line(finding.sentence, 1000)}"]
    said += [f"against: {one_line(text, 1000)}" for text in finding.opposite[:4]]
    if finding.probability is not None:
        said.append(f"probability {'' if finding.calibrated else 'not '}calibrated")
    if finding.unlike:
        said.append("image or sentence unlike those that the model was trained on")
    return AlgorithmIdentification(MODEL_NAME, cxrtext.__version__, parameters=said)


def _properties(result: Result) -> list[Any]:
    """What a reader must know about the numbers, as yes or no."""
    from highdicom.sr import CodedConcept, QualitativeEvaluation
    from pydicom.sr.codedict import codes

    finding = result.finding
    asked = {("stands-out", "A region stands out"): finding.present}
    if finding.probability is not None:
        asked["calibrated", "Probability is calibrated"] = finding.calibrated
    return [
        QualitativeEvaluation(
            CodedConcept(value, SCHEME, meaning), codes.SCT.Yes if yes else codes.SCT.No
        )
        for (value, meaning), yes in asked.items()
    ]
