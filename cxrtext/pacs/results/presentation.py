"""A presentation state: the image as it is, with the regions outlined and the warning over it."""

from typing import TYPE_CHECKING, Any

import numpy as np

from cxrtext.pacs.identity import WARNING
from cxrtext.pacs.results.building import Result, building, one_line, short_line
from cxrtext.pacs.results.report import outlines

if TYPE_CHECKING:
    from pydicom.dataset import Dataset


def build_presentation(result: Result) -> "Dataset":
    """A Grayscale Softcopy Presentation State (ImageError)."""
    with building(result.source, "presentation state"):
        from highdicom import PresentationLUTTransformation
        from highdicom.color import CIELabColor
        from highdicom.pr import GraphicAnnotation, GraphicLayer, GrayscaleSoftcopyPresentationState

        image = result.reference()
        layer = GraphicLayer(
            "CXRTEXT", 1, description=WARNING, display_color=CIELabColor(85.0, -25.0, -20.0)
        )
        inverse = result.source.text("PhotometricInterpretation") == "MONOCHROME1"
        built = GrayscaleSoftcopyPresentationState(
            referenced_images=[image],
            content_label="CXRTEXT",
            content_description=short_line(result.finding.sentence),
            content_creator_name="cxrtext^service",
            graphic_layers=[layer],
            graphic_annotations=[
                GraphicAnnotation(
                    referenced_images=[image],
                    graphic_layer=layer,
                    graphic_objects=_polylines(result) or None,
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


def _polylines(result: Result) -> list[Any]:
    from highdicom.pr import GraphicObject

    return [
        GraphicObject("POLYLINE", corners.astype(np.float32), "PIXEL")
        for corners, _ in outlines(result)
    ]


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
