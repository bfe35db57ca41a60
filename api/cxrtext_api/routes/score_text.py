"""Pseudo-log-likelihoods of sentences."""

from fastapi import APIRouter

from cxrtext.client.models import ScoredText, ScoreTextRequest
from cxrtext_api.routes.answers import score_text_of
from cxrtext_api.routes.dependencies import GUARDED, SessionDep, problems

router = APIRouter(prefix="/v1", tags=["questions"], dependencies=GUARDED)


@router.post(
    "/score-text",
    summary="How likely sentences are",
    operation_id="score_text",
    responses=problems(422),
)
async def score_text(session: SessionDep, asked: ScoreTextRequest) -> ScoredText:
    """The pseudo-log-likelihood of each sentence, and the class probability that follows.

    Wants a server that was started with a language model; answers 503 otherwise.  The work grows
    with the square of a sentence's length; sentences that would take too long together are refused
    before it is begun.
    """
    scores = await session.score(asked.sentences)
    return await session.read(score_text_of, session.service, asked, scores)
