"""Readers' marks: what they found right or wrong."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from annotated_types import Ge, Le
from fastapi import APIRouter, Form, Query, Request

from cxrtext.client.models import Mark, Marks
from cxrtext.errors import InputError
from cxrtext.records.marks import (
    MAX_MARKS,
    Kind,
    Verdict,
    add_mark,
    marks_beside,
    page_of_marks,
)
from cxrtext.records.numbers import read_number
from cxrtext.service.limits import MAX_ID_CHARACTERS
from cxrtext.service.marking import mark_of
from cxrtext.service.questions import WHOLE
from cxrtext_api.gate.access import CallerDep, Guarded, wants
from cxrtext_api.gate.keys import MARK, READ
from cxrtext_api.observe.audit import note_images
from cxrtext_api.problems import Refusal
from cxrtext_api.routes.dependencies import GUARDED, SessionDep
from cxrtext_api.routes.images import MAX_PAGE, Limit

if TYPE_CHECKING:
    from pathlib import Path

    from cxrtext.records.boxes import Corners
    from cxrtext_api.runtime.resources import Session

router = APIRouter(route_class=Guarded, prefix="/v1", tags=["marks"], dependencies=GUARDED)

ImageId = Annotated[str, Form(max_length=MAX_ID_CHARACTERS, description="An indexed image.")]
OneImage = Annotated[
    str | None, Query(max_length=MAX_ID_CHARACTERS, description="Only marks of this image.")
]
Text = Annotated[
    str,
    Form(description="The finding, the sentence, or the word of a box.", examples=["Edema"]),
]
Said = Annotated[
    bool, Form(description="Whether it was said to be there; the verdict judges that.")
]
BoxField = Annotated[
    str | None,
    Form(
        max_length=200,
        description="For a box: x,y,w,h in pixels of the original, from the top left.",
        examples=["120,80,64,48"],
    ),
]
After = Annotated[
    int, Ge(0), Le(2**62), WHOLE, Query(description="``next`` of the page before; 0 for the first.")
]
FULL = f"This key has {MAX_MARKS:,} marks, the most that are kept; continue with another key."


def _path(session: "Session") -> "Path":
    return marks_beside(session.service.archive.folder)


def _page(path: "Path", image_id: str | None, after: int, limit: int) -> Marks:
    marks, after_next = page_of_marks(path, image_id, after, limit)
    return Marks(marks=[Mark.model_validate(asdict(one)) for one in marks], next=after_next)


@router.post(
    "/marks",
    summary="Mark something as right or wrong",
    operation_id="add_mark",
    dependencies=[wants(MARK, READ)],  # the answer shows whose image it is
)
async def add(
    request: Request,
    session: SessionDep,
    caller: CallerDep,
    image_id: ImageId,
    kind: Annotated[Kind, Form(description="What is marked.")],
    text: Text,
    verdict: Annotated[Verdict, Form(description="What the reader says about it.")],
    said: Said = True,
    box: BoxField = None,
) -> Mark:
    """Keep what a reader says about a finding, a sentence, a search's hit or a box.

    Marks are kept beside the index under the key's name.  A reader's later mark on the same thing
    replaces the earlier one.
    """
    given = None if box is None else _corners(box)
    what = {"text": text.strip(), "said": said, "box": given}
    mark = await session.read(
        mark_of, session.service, caller.key_id, image_id, kind, verdict, **what
    )
    answer = Mark.model_validate(asdict(mark))
    note_images(request, [(mark.image, mark.study_id, mark.patient_id)])
    if not await session.read(add_mark, _path(session), mark):
        raise Refusal(409, FULL)
    return answer


def _corners(box: str) -> "Corners":
    try:
        x, y, w, h = map(read_number, box.split(","))
    except ValueError:
        raise InputError("box: write x,y,w,h, such as 120,80,64,48") from None
    return x, y, w, h


@router.get(
    "/marks",
    summary="The current marks",
    operation_id="list_marks",
)
async def list_marks(
    request: Request,
    session: SessionDep,
    image_id: OneImage = None,
    after: After = 0,
    limit: Limit = MAX_PAGE,
) -> Marks:
    """Each reader's last mark on each thing, the oldest first, a page at a time."""
    page = await session.read(_page, _path(session), image_id, after, limit)
    note_images(request, [(mark.image_id, mark.study_id, mark.patient_id) for mark in page.marks])
    return page
