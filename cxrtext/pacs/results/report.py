"""A structured report of a finding: Comprehensive SR after TID 1500 (Measurement Report)."""

from typing import TYPE_CHECKING, Any

import numpy as np

import cxrtext
from cxrtext.images.placement import Placement
from cxrtext.pacs.identity import MANUFACTURER, WARNING, uid
from cxrtext.pacs.results.building import (
    MODEL_NAME,
    SCHEME,
    Result,
    building,
    code_of,
    name_scheme,
    one_line,
)

if TYPE_CHECKING:
    from highdicom.sr import ObserverContext
    from numpy.typing import NDArray
    from pydicom.dataset import Dataset

MAX_REGIONS = 16  # regions that are outlined; the best come first
Box = tuple[float, float, float, float]


def outline(box: Box, placement: Placement) -> "NDArray[np.float64]":
    """Corners of a box of the picture shown, closed, in the file's own pixels: [5, 2], (x, y)."""
    x, y, width, height = placement.boxes_to_stored(box).tolist()
    right = min(x + width, placement.stored_width)
    bottom = min(y + height, placement.stored_height)
    left, top = max(x, 0.0), max(y, 0.0)
    corners = [(left, top), (right, top), (right, bottom), (left, bottom), (left, top)]
    return np.array(corners, dtype=np.float64)


def _frame(placement: Placement) -> "NDArray[np.float64]":
    """The outline of the whole file, as :func:`outline` gives that of a box."""
    right, bottom = placement.stored_width, placement.stored_height
    return np.array([(0, 0), (right, 0), (right, bottom), (0, bottom), (0, 0)], dtype=np.float64)


def outlines(result: Result) -> "list[tuple[NDArray[np.float64], float]]":
    """The regions of a finding, best first, each with its score; none where nothing stands out."""
    finding = result.finding
    boxes = finding.grounding.boxes[:MAX_REGIONS] if finding.present else []
    return [(outline(box.bbox, result.source.placement), box.score) for box in boxes]


def observer(model: str) -> "ObserverContext":
    from highdicom.sr import DeviceObserverIdentifyingAttributes, ObserverContext
    from pydicom.sr.codedict import codes

    return ObserverContext(
        observer_type=codes.DCM.Device,
        observer_identifying_attributes=DeviceObserverIdentifyingAttributes(
            uid=uid("device", model),
            name="cxrtext",
            manufacturer_name=MANUFACTURER,
            model_name=MODEL_NAME,
            serial_number=model[:16],
        ),
    )


def build_report(result: Result) -> "Dataset":
    """A Comprehensive SR of a finding (ImageError)."""
    with building(result.source, "structured report"):
        from highdicom import sr
        from pydicom.sr.codedict import codes

        image, header = result.reference(), result.source.header
        # What TID 1603 wants in the image library, which is optional.
        wanted = ("ImagerPixelSpacing", "PatientOrientation")
        is_described = all(len(header.get(name) or ()) == 2 for name in wanted)
        content = sr.MeasurementReport(
            observation_context=sr.ObservationContext(
                observer_device_context=observer(result.finding.model)
            ),
            procedure_reported=sr.CodedConcept("399208008", "SCT", "Plain X-ray of chest"),
            imaging_measurements=_groups(result),
            title=codes.DCM.ImagingMeasurementReport,
            referenced_images=[image] if is_described else None,
        )
        # Apart, so that who shows them writes the name of each before its value.
        for item in content[0].iterall():
            if item.keyword == "ContinuityOfContent":
                item.value = "SEPARATE"
        built = sr.ComprehensiveSR(
            evidence=[image],
            content=content[0],
            is_complete=True,
            is_final=False,
            is_verified=False,
            **result.given("sr"),
        )
        name_scheme(built)
        return result.finish("sr", built)


def _groups(result: Result) -> list[Any]:
    """The finding in the whole image, and each region where it is supported."""
    from highdicom import sr
    from pydicom.sr.codedict import codes

    finding, source = result.finding, result.source
    of = source.text("SOPClassUID"), source.instance
    # OHIF 3.12 fails with a report that has measurements without coordinates.
    frame = sr.CoordinatesForMeasurement(
        "POLYLINE", _frame(source.placement), sr.SourceImageForRegion(*of)
    )
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
    # Viewers show comments, and not what is said of the algorithm.
    for text in filter(None, (WARNING, one_line(finding.sentence, 1024), finding.percent)):
        whole[0].ContentSequence.append(sr.TextContentItem(codes.DCM.Comment, text, "CONTAINS"))
    groups: list[Any] = [whole]
    for number, (corners, _) in enumerate(outlines(result), 1):
        groups.append(
            sr.PlanarROIMeasurementsAndQualitativeEvaluations(
                tracking_identifier=sr.TrackingIdentifier(
                    uid(result.uid("sr"), "region", str(number)), f"region {number}"
                ),
                referenced_region=sr.ImageRegion(
                    "POLYLINE", corners, source_image=sr.SourceImageForRegion(*of)
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
    return AlgorithmIdentification("cxrtext", cxrtext.__version__, parameters=said)


def _properties(result: Result) -> list[Any]:
    """What is to be known of the numbers, as yes or no."""
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
