"""Hospital systems: what was made and sent back of a study."""

import logging
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query

from cxrtext.client.models import SentResult, SentResults
from cxrtext.errors import CxrTextError
from cxrtext.pacs.results.folder import FILE, ResultsFolder
from cxrtext_api.problems import Refusal
from cxrtext_api.routes.dependencies import GUARDED, MAX_ID_CHARACTERS, SessionDep, problems

router = APIRouter(prefix="/v1", tags=["hospital systems"], dependencies=GUARDED)

NO_RESULTS = "This server shows no results; it is started with --gateway FILE."

_log = logging.getLogger("cxrtext_api")

StudyId = Annotated[
    str, Query(min_length=1, max_length=MAX_ID_CHARACTERS, description="The id of a study.")
]


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
