"""A secondary capture of the heatmap: the page's picture with a warning burnt in."""

from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from cxrtext.images import to_uint8
from cxrtext.images.gray import Floats
from cxrtext.images.overlay import shrunk
from cxrtext.pacs.identity import WARNING
from cxrtext.pacs.results.building import Result, building, one_line
from cxrtext.pacs.results.finding import Finding

if TYPE_CHECKING:
    from pydicom.dataset import Dataset

MAX_SIDE = 2048
"""Larger pictures are shrunk: at full size a capture would be larger than its image."""
_INK, _PAPER = (255, 214, 10), (0, 0, 0)


def draw_capture(pixels: Floats, finding: Finding) -> tuple[NDArray[np.uint8], int]:
    """Draw the page's picture between two bands of text, which hide nothing of it.

    Args:
        pixels: [1, H, W] in [0, 1].

    Returns:
        [rows, columns, 3], and the row where the picture begins.
    """
    picture = finding.grounding.drawn_on(shrunk(to_uint8(pixels), MAX_SIDE))
    width, height = picture.size
    font = _font(max(10, width // 32))
    upper = _lines([WARNING], font, width)
    said = [one_line(finding.sentence, 400), *filter(None, [finding.percent])]
    if not finding.present:
        said.append("nothing stands out in this image")
    if finding.unlike:
        said.append("unlike what the model was trained on: means little")
    lower = _lines([*said, f"cxrtext, model {finding.model[:12]}"], font, width)
    line = round(font.size * 1.4)
    band, foot = line * len(upper) + line // 2, line * len(lower) + line // 2
    whole = Image.new("RGB", (width, band + height + foot), _PAPER)
    whole.paste(picture, (0, band))
    pen = ImageDraw.Draw(whole)
    for top, lines in ((line // 4, upper), (band + height + line // 4, lower)):
        for number, text in enumerate(lines):
            pen.text((line // 4, top + number * line), text, fill=_INK, font=font)
    return np.asarray(whole), band


def _font(size: int) -> ImageFont.FreeTypeFont:
    """DejaVu Sans Mono from matplotlib, which has the letters of most languages."""
    import matplotlib as mpl

    path = Path(mpl.get_data_path()) / "fonts" / "ttf" / "DejaVuSansMono-Bold.ttf"
    return ImageFont.truetype(str(path), size)


def _lines(texts: list[str], font: ImageFont.FreeTypeFont, width: int) -> list[str]:
    most = max(1, int((width - font.size) // font.getlength("M")))
    return [line for text in texts for line in wrap(text, most)]


def build_capture(result: Result, pixels: Floats) -> "Dataset":
    """A Secondary Capture Image of the heatmap (ImageError)."""
    picture, _ = draw_capture(pixels, result.finding)
    with building(result.source, "secondary capture"):
        from highdicom.sc import SCImage
        from pydicom.dataset import Dataset

        built = SCImage(
            pixel_array=picture,
            photometric_interpretation="RGB",
            bits_allocated=8,
            coordinate_system="PATIENT",
            study_instance_uid=result.source.study,
            patient_orientation=("L", "F"),
            **result.given("sc"),
        )
        built.PatientOrientation = list(result.source.orientation or ())
        built.ConversionType = "WSD"
        built.ImageType = ["DERIVED", "SECONDARY"]
        built.DerivationDescription = WARNING
        reference = Dataset()
        reference.ReferencedSOPClassUID = result.source.text("SOPClassUID")
        reference.ReferencedSOPInstanceUID = result.source.instance
        built.SourceImageSequence = [reference]
        built.BodyPartExamined = "CHEST"
        return result.finish("sc", built)
