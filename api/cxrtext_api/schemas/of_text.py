"""Scores of sentences as an answer."""

from typing import TYPE_CHECKING

from cxrtext.client.answers import ScoredSentence, ScoredText
from cxrtext_api.schemas.requests import ScoreTextRequest
from cxrtext_api.schemas.rounding import rounded

if TYPE_CHECKING:
    from cxrtext.service import Service


def score_text_of(service: "Service", asked: ScoreTextRequest) -> ScoredText:
    """Score sentences and write the answer; see :meth:`.Service.score_text`."""
    import torch

    from cxrtext.objectives import class_probability

    scores = service.score_text(asked.sentences)
    language = service.language_model
    eta = class_probability(torch.from_numpy(scores.log_likelihood), asked.a, asked.k)
    rows = zip(scores.log_likelihood.tolist(), scores.n_tokens.tolist(), eta.tolist(), strict=True)
    return ScoredText(
        model="" if language is None else language.fingerprint,
        sentences=[
            # Six digits that count: probabilities here can be very small.
            ScoredSentence(
                sentence_index=i,
                log_likelihood=rounded(value),
                tokens=tokens,
                eta=float(f"{probability:.6g}"),
            )
            for i, (value, tokens, probability) in enumerate(rows)
        ],
    )
