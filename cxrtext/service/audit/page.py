"""An audit as a page: counts, and the first disagreements, each with its film, map and report."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from markupsafe import Markup, escape
from PIL import Image as Pictures

from cxrtext.errors import CxrTextError
from cxrtext.images import Geometry
from cxrtext.images.overlay import encode_png, shrunk
from cxrtext.models.similarity import region_scores
from cxrtext.page import (
    Block,
    Folded,
    Gallery,
    Picture,
    Section,
    Table,
    Text,
    Tile,
    html_page,
    number,
)
from cxrtext.service.answers import Grounding, ground_grid
from cxrtext.service.audit.audit import Audit, Disagreement
from cxrtext.service.audit.claims import EXCHANGED, KINDS, MISSED
from cxrtext.service.audit.tables import TAKEN, Row, summary
from cxrtext.service.service import Service

SHOWN, LONGEST_SIDE = 50, 384
"""Disagreements on the page, and the longest side of their films, in pixels."""

_MARK = "background: none; color: inherit; border-bottom: 3px solid var(--error)"
_NOTE = (
    "Marked is a film whose evidence lies in the far tail of validation images of which the "
    "report's claim is true. `q` is the share of false alarms that is expected in the list of its "
    "kind down to a row; it holds as far as the archive is like the validation images. A "
    "disagreement asks for a second look; it does not say who is wrong."
)
_HEADS = {
    "kind": "kind", "finding": "finding", "name": "", "films": "films", "asked": "asked",
    "marked": "marked", "if_right": "at most, if reports were right",
    "if_dealt": "if dealt to other patients", "taken": f"q up to {TAKEN}",
}  # fmt: skip


def audit_page(audit: Audit, service: Service) -> str:
    """An HTML page of an audit; it holds films and text of reports."""
    counts, first = summary(audit), audit.found[:SHOWN]
    tiles = [
        Tile("Films", f"{counts['films']:,}", "of studies with a report"),
        Tile("Sentences", f"{counts['sentences']:,}", f"{counts['judged']:,} of judged findings"),
        Tile("Marked", f"{counts['marked']:,}", f"at most {counts['if_right']:,.0f} if all reports "
             f"were right, {counts['if_dealt']:,.0f} if dealt to other patients"),
        Tile(f"q up to {TAKEN}", f"{counts['taken']:,}",
             f"{number(counts['expected_wrong'], 1)} false alarms expected"),
    ]  # fmt: skip
    shown: list[Block] = [
        Folded(_line(place, one), _blocks(audit, service, one))
        for place, one in enumerate(first, 1)
    ]
    titles = {"By finding": "by_finding", "By device": "by_device", "By site": "by_site"}
    tables = [Section(title, [_table(counts[n])]) for title, n in titles.items() if counts[n]]
    likeliest = Section(f"The first {len(first)}" if first else "None is marked", shown)
    heading, head = "Audit of reports and films", [Text(_NOTE, "note")]
    return html_page(heading, [likeliest, *tables], head=head, tiles=tiles)


def _table(rows: Sequence[Row]) -> Table:
    columns = [name for name in _HEADS if name in rows[0]]
    cells = [
        [number(v, 0) if isinstance(v := row[name], float) else str(v) for name in columns]
        for row in rows
    ]
    return Table([[_HEADS[name] for name in columns], *cells])


def _line(place: int, one: Disagreement) -> str:
    said = (f"{place}", one.kind, one.finding, f"study {one.image.study_id}", f"q {number(one.q)}")
    fitted = "thresholds were fitted on it" if one.fitted_on else ""
    return " · ".join(filter(None, (*said, fitted)))


def _blocks(audit: Audit, service: Service, one: Disagreement) -> list[Block]:
    report = Markup(" ").join(
        Markup('<mark style="{}">{}</mark>').format(_MARK, sentence)
        if place == one.sentence
        else escape(sentence)
        for place, sentence in enumerate(audit.reports[one.image.study_id])
    )
    said = f"evidence {number(one.evidence, 2)}, probability {number(one.probability, 2)}"
    text: list[Block] = [
        Markup("<p>{}</p>").format(report),
        Text(f"{one.image.image}: {said}", "note"),
    ]
    try:
        pixels = shrunk(service.shown(one.image.image), LONGEST_SIDE)
    except CxrTextError as error:
        return [*text, Text(f"no picture: {error}", "warn")]
    pictures = [Picture([encode_png(Pictures.fromarray(pixels))], ["The film"])]
    if one.kind != KINDS[EXCHANGED]:
        asked, grounding = _grounding(audit, service, one)
        pictures.append(Picture([encode_png(grounding.drawn_on(pixels))], [asked]))
    return [*text, Gallery("", "", pictures)]


@torch.inference_mode()
def _grounding(audit: Audit, service: Service, one: Disagreement) -> tuple[str, Grounding]:
    """What is mapped, and where it is: the sentence, or the finding that no sentence affirms."""
    image = service.embedded(one.image.image)
    if one.was == KINDS[MISSED]:
        assert service.verdicts is not None  # noqa: S101 - it was audited by them
        asked, vector = one.finding, service.verdicts.findings[one.finding].contrast().there
    else:
        asked = audit.reports[one.image.study_id][one.sentence or 0]
        vector = service.embed_sentences([asked])[0]
    regions = image.regions[None].float().to(service.model.device)
    grid = region_scores(regions, vector[None].float().to(regions.device))[0, 0].cpu().numpy()
    side = math.isqrt(len(grid))
    geometry = Geometry(image.height, image.width, service.model.spec.preprocessing)
    found = ground_grid(grid.reshape(side, side), float(grid.max()), geometry, np.inf)
    return f"Where it fits best: {asked}", found
