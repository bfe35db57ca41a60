"""What can be asked of a loaded model and index: the one thing the CLI and the API both call."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

import torch

from cxrtext.errors import InputError, UnavailableError
from cxrtext.evaluation import Prompts, score_differences
from cxrtext.images import Geometry
from cxrtext.index import Found, ImageHit, Query, SentenceHit
from cxrtext.index.means import mean_region
from cxrtext.index.sentences import SentenceOptions
from cxrtext.models.similarity import region_scores
from cxrtext.pausing import Pausing, finish, within
from cxrtext.service.answers import EmbeddedImage, FindingScore, Image
from cxrtext.service.calibrated import calibrated
from cxrtext.service.grounding import Grounding, ground_grid
from cxrtext.service.limits import (
    MAX_PROMPTS,
    MAX_QUERY_CHARACTERS,
    MAX_RESULTS,
    check_count,
    check_prompts,
    check_query,
    check_scored,
    check_scoring,
    check_sentence,
)
from cxrtext.service.loaded import Loaded
from cxrtext.service.texts import prompt_vectors
from cxrtext.service.warm import warm_up

if TYPE_CHECKING:
    from cxrtext.language import SentenceScores
    from cxrtext.language.scoring.score import Pieces
    from cxrtext.language.scoring.scorer import Scorer
    from cxrtext.service.verification import Verification

__all__ = ["MAX_PROMPTS", "MAX_QUERY_CHARACTERS", "MAX_RESULTS", "Image", "Service"]


class Service(Loaded):
    """The questions to what is loaded; its arguments are those of :class:`.Loaded`."""

    def warm_up(self) -> None:
        """Ask one question of each kind, so that the first caller need not wait for more."""
        warm_up(self)

    def score_text(self, sentences: Sequence[str]) -> "SentenceScores":
        """Pseudo-log-likelihoods of sentences by the language model.

        Raises:
            UnavailableError: The service was loaded without a language model.
            InputError: There are too many sentences, one is empty or too long, or they would take
                too long together.
        """
        return finish(self.score_text_pausing(sentences))

    def score_text_pausing(self, sentences: Sequence[str]) -> "Pausing[SentenceScores]":
        """As :meth:`score_text`, with pauses."""
        from cxrtext.language.scoring.score import score_pausing

        scorer, pieces, _ = self._to_score(sentences)
        yield
        return (yield from within(self._lock, score_pausing(scorer, pieces)))

    def cost_of_scoring(self, sentences: Sequence[str]) -> int:
        """Multiplications that :meth:`score_text` would take; errors are the same."""
        return self._to_score(sentences)[2]

    def _to_score(self, sentences: Sequence[str]) -> "tuple[Scorer, list[Pieces], int]":
        """What scores sentences, their word pieces, and the multiplications it takes."""
        check_scored(sentences)
        if self.language_model is None:
            raise UnavailableError("no language model is loaded; start with --language-model")
        from cxrtext.language.scoring.score import encode_sentences

        scorer = self._scorer(self.language_model)
        pieces = encode_sentences(self.language_model.tokenizer, sentences)
        lengths = [len(sentence) for sentence in set(pieces)]
        multiplications = scorer.multiplications(lengths)
        check_scoring(lengths, multiplications)
        return scorer, pieces, multiplications

    # --- questions ---

    def classify(
        self, image: EmbeddedImage, prompts: Mapping[str, Prompts] | None = None
    ) -> list[FindingScore]:
        """Zero-shot probabilities, one a finding, in the order of the prompts.

        They are calibrated where the checkpoint keeps a calibration of just these prompts.

        Args:
            image: The image.
            prompts: Other prompts than the service's.

        Raises:
            InputError: There are too many prompts, or one is empty or too long.
        """
        if prompts is not None:
            check_prompts(prompts)
        with self._lock, torch.inference_mode():
            vectors = (
                self._prompt_vectors if prompts is None else prompt_vectors(self._texts, prompts)
            )
            regions = image.regions[None].to(self.model.device)
            differences = score_differences(self.model, regions, vectors)[:, 0]
            probabilities = differences.sigmoid()
        findings = [
            FindingScore(finding, p, s)
            for finding, p, s in zip(
                prompts or self.prompts, probabilities.tolist(), differences.tolist(), strict=True
            )
        ]
        return calibrated(findings, self.calibration, prompts or self.prompts)

    def ground(
        self, image: EmbeddedImage, sentence: str, threshold: float | None = None
    ) -> Grounding:
        """Where an image supports a sentence.

        Args:
            image: The image.
            sentence: The sentence.
            threshold: From which score on a region counts for the boxes; by default halfway
                between the mean and the maximum.

        Raises:
            InputError: The sentence is empty or too long.
        """
        check_sentence(sentence)
        text = self.embed_sentences([sentence])
        with self._lock, torch.inference_mode():
            regions = image.regions[None].to(self.model.device)
            grid = region_scores(regions, text)[0, 0].cpu().numpy()
            score = float(self.model.scores(regions, text)[0, 0])
        side = round(len(grid) ** 0.5)
        geometry = Geometry(image.height, image.width, self.model.spec.preprocessing)
        return ground_grid(grid.reshape(side, side), score, geometry, threshold)

    def verify(
        self, image: EmbeddedImage, report: str, threshold: float | None = None
    ) -> "Verification":
        """How well an image supports a report; see :func:`.verification.verify`."""
        from cxrtext.service.verification import verify

        return verify(self, image, report, threshold)

    def make_query(
        self,
        sentence: str | Sequence[str] | None = None,
        *,
        without: Sequence[str] = (),
        image: EmbeddedImage | None = None,
        image_weight: float = 0.5,
    ) -> Query:
        """Put a query together.

        Args:
            sentence: What an image is to fit; of several, the mean score counts.
            without: What it is not to fit.
            image: What it is to be like.
            image_weight: Weight of the likeness beside a sentence, in [0, 1].

        Raises:
            InputError: Nothing is looked for, a sentence is empty or too long, there are too
                many, or the weight is out of range.
        """
        sentences = [sentence] if isinstance(sentence, str) else list(sentence or ())
        if not sentences and image is None:
            raise InputError("give a sentence or an image")
        check_query(sentences, without, image_weight)
        return Query(
            texts=self.embed_sentences(sentences) if sentences else None,
            without=self.embed_sentences(without) if without else None,
            image=None if image is None else mean_region(image.regions[None].float()).cpu()[0],
            image_weight=image_weight,
        )

    def search(self, query: Query, k: int = 10, **options: Any) -> Found:
        """Search the index; the options are those of :meth:`cxrtext.index.Index.search`.

        Raises:
            NotFoundError: There is no index.
            InputError: k is out of range, or a filter is wrong.
        """
        return finish(self.search_pausing(query, k, **options))

    def search_pausing(self, query: Query, k: int = 10, **options: Any) -> Pausing[Found]:
        """As :meth:`search`, with pauses."""
        check_count(k)
        return (yield from within(self._lock, self.archive.search_pausing(query, k, **options)))

    def search_text(self, query: str, k: int = 10) -> list[ImageHit]:
        """The k indexed images that fit a sentence best; errors are those of :meth:`search`."""
        _ = self.archive
        return self.search(self.make_query(query), k).hits

    def search_image(self, image: EmbeddedImage, k: int = 10) -> list[ImageHit]:
        """The k indexed images most alike to an image."""
        return self.search(self.make_query(image=image), k).hits

    def search_sentences(
        self, image: EmbeddedImage, k: int = 10, **options: Unpack[SentenceOptions]
    ) -> list[SentenceHit]:
        """The k indexed sentences that fit an image best.

        Args:
            image: The image.
            k: How many.
            options: A filter, how many to skip, the least score.

        Raises:
            DataError: The filter is wrong.
            NotFoundError: There is no index, or it was made without reports.
        """
        return finish(self.search_sentences_pausing(image, k, **options))

    def search_sentences_pausing(
        self, image: EmbeddedImage, k: int = 10, **options: Unpack[SentenceOptions]
    ) -> Pausing[list[SentenceHit]]:
        """As :meth:`search_sentences`, with pauses."""
        check_count(k)
        search = self.archive.search_sentences_pausing(image.regions, k, **options)
        return (yield from within(self._lock, search))

    def similar_sentences(
        self, sentence: str, k: int = 10, **options: Unpack[SentenceOptions]
    ) -> list[SentenceHit]:
        """The k indexed sentences most alike to a sentence.

        Args:
            sentence: The sentence.
            k: How many.
            options: A filter, how many to skip, the least score.

        Raises:
            DataError: The filter is wrong.
            NotFoundError: There is no index, or it was made without reports.
            InputError: The sentence or k is out of range.
        """
        return finish(self.similar_sentences_pausing(sentence, k, **options))

    def similar_sentences_pausing(
        self, sentence: str, k: int = 10, **options: Unpack[SentenceOptions]
    ) -> Pausing[list[SentenceHit]]:
        """As :meth:`similar_sentences`, with pauses."""
        check_count(k)
        check_sentence(sentence)
        _ = self.archive
        (text,) = self.embed_sentences([sentence])
        search = self.archive.similar_sentences_pausing(text, k, **options)
        return (yield from within(self._lock, search))
