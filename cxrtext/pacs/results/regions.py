"""The regions that stand out: as a segmentation on the image's own pixels, and as graphics over it.

A presentation state leaves the image as it is, and shows the outlines and the warning over it.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

import cxrtext
from cxrtext.pacs.identity import MANUFACTURER, WARNING, uid
from cxrtext.pacs.results.building import (
    Result,
    building,
    code_of,
    name_scheme,
    one_line,
    short_line,
)
from cxrtext.pacs.results.report import outlines

if TYPE_CHECKING:
    from highdicom import PixelMeasuresSequence
    from pydicom.dataset import Dataset


def build_segmentation(result: Result) -> "Dataset | None":
    """A Segmentation with one segment; None where nothing stands out (ImageError)."""
    if not result.finding.present:
        return None
    where = result.finding.grounding
    with np.errstate(invalid="ignore"):
        reached = where.map_over() >= where.threshold
    mask = result.source.placement.to_stored(reached)  # [rows, columns] of the file
    if not mask.any():
        return None
    with building(result.source, "segmentation"):
        from highdicom import AlgorithmIdentificationSequence
        from highdicom.seg import Segmentation, SegmentDescription
        from pydicom.sr.codedict import codes

        finding = result.finding
        segment = SegmentDescription(
            segment_number=1,
            segment_label=short_line(finding.sentence),
            segmented_property_category=codes.SCT.MorphologicallyAbnormalStructure,
            segmented_property_type=code_of(finding.sentence),
            algorithm_type="AUTOMATIC",
            algorithm_identification=AlgorithmIdentificationSequence(
                name="cxrtext",
                family=codes.DCM.ArtificialIntelligence,
                version=cxrtext.__version__,
                source=MANUFACTURER,
            ),
            tracking_uid=uid(result.uid("seg"), "segment"),
            tracking_id=short_line(finding.sentence),
        )
        built = Segmentation(
            source_images=[result.reference()],
            pixel_array=mask.astype(np.uint8),
            segmentation_type="BINARY",
            segment_descriptions=[segment],
            content_label="CXRTEXT",
            content_description=short_line(WARNING),
            content_creator_name="cxrtext^service",
            pixel_measures=_pixel_measures(result.source.header),
            **result.given("seg"),
            **result.device(),
        )
        built.BodyPartExamined = "CHEST"
        if result.source.text("PatientOrientation"):
            built.PatientOrientation = result.source.header.PatientOrientation
        name_scheme(built)
        return result.finish("seg", built)


def _pixel_measures(header: "Dataset") -> "PixelMeasuresSequence | None":
    """The size of pixels, where the image says it; OHIF 3.12 ends where a segmentation does not."""
    from highdicom import PixelMeasuresSequence

    # At the detector, where no other is known: PS3.3 10.7.1.3 has it so for radiographs.
    spacing = header.get("PixelSpacing") or header.get("ImagerPixelSpacing") or ()
    return PixelMeasuresSequence(tuple(spacing), None) if len(spacing) == 2 else None


def build_presentation(result: Result) -> "Dataset":
    """A Grayscale Softcopy Presentation State (ImageError)."""
    with building(result.source, "presentation state"):
        from highdicom import PresentationLUTTransformation, pr
        from highdicom.color import CIELabColor

        image = result.reference()
        layer = pr.GraphicLayer(
            "CXRTEXT", 1, description=WARNING, display_color=CIELabColor(85.0, -25.0, -20.0)
        )
        inverse = result.source.text("PhotometricInterpretation") == "MONOCHROME1"
        built = pr.GrayscaleSoftcopyPresentationState(
            referenced_images=[image],
            content_label="CXRTEXT",
            content_description=short_line(result.finding.sentence),
            content_creator_name="cxrtext^service",
            graphic_layers=[layer],
            graphic_annotations=[
                pr.GraphicAnnotation(
                    referenced_images=[image],
                    graphic_layer=layer,
                    graphic_objects=[
                        pr.GraphicObject("POLYLINE", corners.astype(np.float32), "PIXEL")
                        for corners, _ in outlines(result)
                    ]
                    or None,
                    text_objects=_texts(result),
                )
            ],
            presentation_lut_transformation=PresentationLUTTransformation(
                presentation_lut_shape="INVERSE" if inverse else "IDENTITY"
            ),
            **result.given("gsps"),
            **result.device(),
        )
        built.BodyPartExamined = "CHEST"
        return result.finish("gsps", built)


def _texts(result: Result) -> list[Any]:
    """The warning, and what was found; places are shares of the screen's picture."""
    from highdicom.pr import TextObject

    finding = result.finding
    said = [one_line(finding.sentence, 900), *filter(None, [finding.percent])]
    if not finding.present:
        said.append("nothing stands out")
    return [
        TextObject(WARNING, "DISPLAY", bounding_box=(0.02, 0.01, 0.98, 0.05)),
        TextObject("; ".join(said), "DISPLAY", bounding_box=(0.02, 0.94, 0.98, 0.99)),
    ]
