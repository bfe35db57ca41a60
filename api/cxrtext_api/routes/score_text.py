"""Pseudo-log-likelihoods of sentences."""

from fastapi import APIRouter

from cxrtext.client.answers import ScoredText
from cxrtext_api.deps import GUARDED, ResourcesDep, problems
from cxrtext_api.negotiation import TAKES_JSON
from cxrtext_api.refusal import RefusingRoute
from cxrtext_api.schemas.of_text import score_text_of
from cxrtext_api.schemas.requests import ScoreTextRequest

router = APIRouter(
    prefix="/v1",
    tags=["questions"],
    dependencies=[TAKES_JSON, *GUARDED],
    route_class=RefusingRoute,
)


@router.post(
    "/score-text",
    summary="How likely sentences are",
    operation_id="score_text",
    responses=problems(422),
)
async def score_text(resources: ResourcesDep, asked: ScoreTextRequest) -> ScoredText:
    """The pseudo-log-likelihood of each sentence, and the class probability that follows.

    Wants a server that was started with a language model; answers 503 otherwise.  The work grows
    with the square of a sentence's length; sentences that would take too long together are refused
    before it is begun.
    """
    scores = await resources.score(asked.sentences)
    return await resources.read(score_text_of, resources.service, asked, scores)
