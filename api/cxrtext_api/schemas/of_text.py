"""Scores of sentences as an answer."""

from typing import TYPE_CHECKING

from cxrtext.client.answers import ScoredSentence, ScoredText
from cxrtext_api.schemas.requests import ScoreTextRequest
from cxrtext_api.schemas.rounding import rounded

if TYPE_CHECKING:
    from cxrtext.language import SentenceScores
    from cxrtext.service import Service


def score_text_of(
    service: "Service", asked: ScoreTextRequest, scores: "SentenceScores"
) -> ScoredText:
    """Write the answer; see :meth:`.Service.score_text`."""
    from cxrtext.language.class_probability import WITHOUT_ETA

    language = service.language_model
    eta = scores.eta(asked.a, asked.k)
    counts = (scores.n_tokens.tolist(), scores.words)
    rows = zip(scores.log_likelihood.tolist(), *counts, eta, strict=True)
    return ScoredText(
        model="" if language is None else language.fingerprint,
        sentences=[
            # Six digits that count: probabilities here can be very small.
            ScoredSentence(
                sentence_index=i,
                log_likelihood=rounded(value),
                tokens=tokens,
                unknown=words.unknown,
                eta=None if probability is None else float(f"{probability:.6g}"),
                reason=WITHOUT_ETA if probability is None else None,
            )
            for i, (value, tokens, words, probability) in enumerate(rows)
        ],
        warning=scores.warning(),
    )
