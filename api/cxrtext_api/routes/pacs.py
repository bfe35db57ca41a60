"""Hospital systems: what was sent back of a study, and what waits for somebody to decide."""

import logging
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Form, Query, Request

from cxrtext.client.models import Decided, HeldItem, HeldItems, SentResult, SentResults
from cxrtext.errors import CxrTextError
from cxrtext.pacs.inbox import desk
from cxrtext.pacs.inbox.queue import Inbox
from cxrtext.pacs.results.folder import FILE, ResultsFolder
from cxrtext.service.limits import MAX_ID_CHARACTERS
from cxrtext_api.gate.access import Guarded, wants
from cxrtext_api.gate.keys import ADMIN, READ
from cxrtext_api.observe.audit import note_decision, note_images
from cxrtext_api.problems import Refusal
from cxrtext_api.routes.dependencies import GUARDED, SessionDep, problems

router = APIRouter(
    route_class=Guarded, prefix="/v1", tags=["hospital systems"], dependencies=GUARDED
)

HOLDS = [wants(ADMIN, READ)]  # it names patients
NO_RESULTS = "This server shows no results; it is started with --gateway FILE."
NO_DESK = "This server has no gateway beside it; it is started with --gateway FILE."

_log = logging.getLogger("cxrtext_api")

StudyId = Annotated[
    str, Query(min_length=1, max_length=MAX_ID_CHARACTERS, description="The id of a study.")
]


Name = Annotated[str, Form(max_length=32, description="Its name, as the list has it.")]
Verdict = Annotated[
    desk.Verdict,
    Form(description="Let it enter or join what it matches; drop it; join a report to a study."),
]
JoinedTo = Annotated[
    str | None, Form(max_length=MAX_ID_CHARACTERS, description="The study, to join a report.")
]


def _inbox(session: SessionDep) -> Inbox:
    folder = session.settings.inbox
    if folder is None or not folder.is_dir():
        raise Refusal(404, NO_DESK)
    return Inbox(folder)


@router.get(
    "/held",
    summary="What waits for somebody to decide",
    operation_id="list_held",
    dependencies=HOLDS,
    responses=problems(403, 404),
)
async def list_held(request: Request, session: SessionDep) -> HeldItems:
    """The objects, messages, deletions and reports that the gateway holds, and why."""
    found = await session.read(_held, session)
    note_images(request, [("", study, one.patient) for one in found for study in one.studies])
    return HeldItems(
        held=[
            HeldItem.model_validate(
                asdict(one)
                | {
                    "received": datetime.fromtimestamp(one.received, UTC).isoformat(),
                    "hides": desk.HIDES[one.what],
                }
            )
            for one in found
        ]
    )


def _held(session: SessionDep) -> list[desk.Held]:
    with _inbox(session) as inbox:
        return desk.list_held(inbox)


@router.post(
    "/held",
    summary="Decide on something that is held",
    operation_id="decide_held",
    dependencies=HOLDS,
    responses=problems(403, 404, 422),
)
async def decide_held(
    request: Request,
    session: SessionDep,
    name: Name,
    verdict: Verdict,
    study_id: JoinedTo = None,
) -> Decided:
    """Accept or drop it, or join a report to a study; the intake does so with its next step.

    The audit log has the key, the decision and whom it is about.
    """
    one = await session.read(_decide, session, name, verdict, study_id)
    studies = one.studies or ("",)
    note_images(request, [("", study, one.patient) for study in studies])
    note_decision(request, name, verdict)
    return Decided(decided=1)


def _decide(session: SessionDep, name: str, verdict: desk.Verdict, study: str | None) -> desk.Held:
    with _inbox(session) as inbox:
        one = next((one for one in desk.list_held(inbox) if one.name == name), None)
        if one is None:
            raise Refusal(404, "Nothing of this name is held; list what is.")
        desk.decide(inbox, one, verdict, study or "")
        return one


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


def _results(folder: Path, study_id: str) -> list[SentResult]:
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
