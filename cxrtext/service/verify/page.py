"""A page without scripts: a report beside its image, each sentence marked by its verdict."""

from dataclasses import replace

from markupsafe import Markup, escape
from PIL import Image as Pictures

from cxrtext.images.gray import Bytes
from cxrtext.images.overlay import encode_png, shrunk, to_uint8
from cxrtext.page import Columns, Figure, Gallery, Picture, Section, Text, html_page, number
from cxrtext.service.answers import Image
from cxrtext.service.limits import UNLIKE_IMAGE
from cxrtext.service.verify.verify import SupportedSentence, Verification

LONGEST_SIDE = 512
"""Of the pictures on the page, in pixels."""

_COLORS = {"supported": "var(--right)", "weak": "var(--warning)", "unsupported": "var(--error)"}

_NOTE = (
    "A sentence is unsupported if the evidence for its finding lies in the far tail of the "
    "validation images for which it is true, and supported if in that of those for which it is "
    "false; hover over it for the thresholds and their measured errors. Support is the percentile "
    "of its score among the reference images; it decides nothing."
)


def verification_page(
    verification: Verification, report: str, pixels: Image, unlike: bool = False
) -> str:
    """An HTML page of a report against an image [1, H, W] in [0, 1]; it holds both."""
    warning = [Text(f"This image {UNLIKE_IMAGE}.", "warn")] if unlike else []
    small = shrunk(to_uint8(pixels), LONGEST_SIDE)
    used = verification.reference
    compared = f"{used.images} {used.source} images" if used.images else "no reference images"
    beside = Columns(
        [
            Figure([(encode_png(Pictures.fromarray(small)), "The radiograph")]),
            _marked(verification, report),
        ]
    )
    maps = [_picture(one, small) for one in verification.sentences]
    return html_page(
        "Report against image",
        [Section("Sentences", [Gallery("", "", maps)])],
        head=[*warning, Text(f"{_NOTE} Compared with {compared}.", "note"), beside],
        links=False,
    )


def _marked(verification: Verification, report: str) -> Markup:
    parts, done = [], 0
    for one in verification.sentences:
        parts += [
            escape(report[done : one.start]),
            Markup('<mark class="{}" title="{}" style="{}">{}</mark>').format(
                one.verdict.replace(" ", "-"), _why(one),
                "background: none; color: inherit; border-bottom: 3px solid "
                + _COLORS.get(one.verdict, "var(--line)"),
                report[one.start : one.end],
            ),
        ]  # fmt: skip
        done = one.end
    return Markup('<div style="white-space: pre-wrap; overflow-wrap: anywhere">{}</div>').format(
        Markup().join([*parts, escape(report[done:])])
    )


def _why(one: SupportedSentence) -> str:
    judged = one.judgment
    said = [one.verdict, one.wording, judged.reason, judged.basis and str(judged.basis)]
    return " · ".join(part for part in said if part)


def _picture(one: SupportedSentence, pixels: Bytes) -> Picture:
    overlay = encode_png(replace(one.grounding, boxes=[]).drawn_on(pixels))
    return Picture([overlay], [one.sentence, f"{_why(one)} · support {number(one.support, 0)}"])
