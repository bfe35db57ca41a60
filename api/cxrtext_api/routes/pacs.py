"""Hospital systems: what waits for a decision."""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Form, Request

from cxrtext.client.models import Decided, HeldItem, HeldItems
from cxrtext.pacs.inbox import desk
from cxrtext.pacs.inbox.queue import Inbox
from cxrtext.service.limits import MAX_ID_CHARACTERS
from cxrtext_api.gate.access import Guarded, wants
from cxrtext_api.gate.keys import ADMIN, READ
from cxrtext_api.observe.audit import note_decision, note_images
from cxrtext_api.problems import Refusal
from cxrtext_api.routes.dependencies import GUARDED, SessionDep

router = APIRouter(
    route_class=Guarded, prefix="/v1", tags=["hospital systems"], dependencies=GUARDED
)

HOLDS = [wants(ADMIN, READ)]  # the list names patients
NO_DESK = "This server has no gateway beside it; start it with --gateway FILE."

Name = Annotated[str, Form(max_length=32, description="Its name, as in the list.")]
Verdict = Annotated[
    desk.Verdict,
    Form(description="Accept it, so it enters or joins its match; drop it; join it to a study."),
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
    summary="What waits for a decision",
    operation_id="list_held",
    dependencies=HOLDS,
)
async def list_held(request: Request, session: SessionDep) -> HeldItems:
    """The objects, messages, deletions and reports that the gateway holds, and why."""
    held = await session.read(_held, session)
    note_images(request, [("", study, one.patient) for one in held for study in one.studies])
    return HeldItems(
        held=[
            HeldItem.model_validate(
                asdict(one)
                | {
                    "received": datetime.fromtimestamp(one.received, UTC).isoformat(),
                    "hides": desk.HIDES[one.what],
                }
            )
            for one in held
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
)
async def decide_held(
    request: Request,
    session: SessionDep,
    name: Name,
    verdict: Verdict,
    study_id: JoinedTo = None,
) -> Decided:
    """Accept or drop it, or join a report to a study; the intake does this in its next step.

    The audit log notes the key, the decision and whom it is about.
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
            raise Refusal(404, "Nothing with this name is held; list what is.")
        desk.decide(inbox, one, verdict, study or "")
        return one
