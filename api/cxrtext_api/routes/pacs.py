"""Hospital systems: the order of work, and what was made and sent back of a study."""

import logging
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

from annotated_types import Ge, Le
from fastapi import APIRouter, Query, Request

from cxrtext.client.models import SentResult, SentResults, Worklist, WorklistEntry
from cxrtext.errors import CxrTextError
from cxrtext.pacs.results.folder import FILE, ResultsFolder
from cxrtext.pacs.worklist import check_prompt, moment, ordered, received_since
from cxrtext.service.limits import MAX_QUERY_CHARACTERS
from cxrtext.service.questions import MAX_ID_CHARACTERS, WHOLE
from cxrtext_api.gate.access import Guarded
from cxrtext_api.observe.audit import note_images
from cxrtext_api.problems import Refusal
from cxrtext_api.routes.dependencies import GUARDED, SessionDep, problems
from cxrtext_api.runtime.scope import Busy, ClientGone

if TYPE_CHECKING:
    from pathlib import Path

    from cxrtext.pacs.worklist import Entry
    from cxrtext.pacs.worklist import Worklist as Listed
    from cxrtext.service import Service
    from cxrtext_api.runtime.resources import Session

router = APIRouter(
    route_class=Guarded, prefix="/v1", tags=["hospital systems"], dependencies=GUARDED
)

MAX_ENTRIES = 500
NO_WORKLIST = "This server gives no worklist; it is started with --gateway."
NO_RESULTS = "This server shows no results; it is started with --results DIR."
NOT_ORDERED = "scoring failed; the studies come in the order in which they were received"
TOO_BUSY = "the server is too busy; the studies come in the order in which they were received"

_log = logging.getLogger("cxrtext_api")

Prompt = Annotated[
    str,
    Query(
        min_length=1,
        max_length=MAX_QUERY_CHARACTERS,
        description="A finding of the prompts, or a sentence, whose studies come first.",
        examples=["Pneumothorax"],
    ),
]
Since = Annotated[
    str | None,
    Query(
        max_length=64,
        description="Received since then, as ISO 8601; by default for 24 hours.",
        examples=["2026-11-23T06:00:00Z"],
    ),
]
Limit = Annotated[int, Ge(1), Le(MAX_ENTRIES), WHOLE, Query(description="How many to list.")]
StudyId = Annotated[
    str, Query(min_length=1, max_length=MAX_ID_CHARACTERS, description="The id of a study.")
]


@router.get(
    "/worklist",
    summary="Studies received lately, in an order of work",
    operation_id="worklist",
    responses=problems(404, 422),
)
async def worklist(
    request: Request, session: SessionDep, prompt: Prompt, since: Since = None, limit: Limit = 100
) -> Worklist:
    """The studies that came lately, those first in which the prompt fits best.

    No study is left out but by ``limit``.  Where scoring fails, they come in the order in which
    they were received, ``ordered`` is false, and ``reason`` says why.  Research use only.
    """
    if not session.settings.worklist:
        raise Refusal(404, NO_WORKLIST)
    service, now = session.service, datetime.now(UTC)
    begin = now - timedelta(days=1) if since is None else moment(since)
    await session.read(check_prompt, service, prompt)
    await session.see_index()
    listed = await session.read_in_turns(received_since(service, begin))
    found, reason = await _in_order(session, service, listed, prompt)
    shown = found.entries[:limit]
    note_images(request, [(image, one.study_id, "") for one in shown for image in one.images])
    return Worklist(
        model=service.model.fingerprint,
        prompt=prompt,
        since=begin,
        ordered=found.ordered,
        reason=reason,
        complete=found.complete,
        total=len(found.entries),
        entries=[_entry(one, now) for one in shown],
    )


async def _in_order(
    session: "Session", service: "Service", listed: "Listed", prompt: str
) -> "tuple[Listed, str | None]":
    try:
        await session.ensure_embedded([prompt])
        return await session.work(ordered(service, listed, prompt)), None
    except ClientGone:
        raise
    except Busy:
        return listed, TOO_BUSY
    except Exception as error:  # noqa: BLE001 - whatever it is, the studies are to be read
        _log.error("a worklist could not be ordered: %s", type(error).__name__)
        return listed, NOT_ORDERED


def _entry(found: "Entry", now: datetime) -> WorklistEntry:
    return WorklistEntry(
        study_id=found.study_id,
        image_ids=list(found.images),
        received=found.received,
        age_seconds=max(0.0, round((now - found.received).total_seconds(), 1)),
        score=found.score,
        probability=found.probability,
        calibrated=found.calibrated,
    )


@router.get(
    "/results",
    summary="What was made and sent back of a study",
    operation_id="list_results",
    responses=problems(404, 422),
)
async def list_results(session: SessionDep, study_id: StudyId) -> SentResults:
    """The DICOM results of a study that this server knows of, and where each was sent."""
    folder = session.settings.results
    if folder is None:
        raise Refusal(404, NO_RESULTS)
    return SentResults(results=await session.read(_results, folder, study_id))


def _results(folder: "Path", study_id: str) -> list[SentResult]:
    if not (folder / FILE).is_file():  # nothing was made yet
        return []
    try:
        found = ResultsFolder(folder, create=False).of_study(study_id)
    except CxrTextError as error:
        _log.error("results cannot be listed: %s", error)
        raise Refusal(503, "The folder of results cannot be read; tell the operator.") from None
    return [
        SentResult.model_validate(
            {**asdict(one.result), "peer": one.peer or None, "sent": one.at or None}
        )
        for one in found
    ]
