"""What is loaded, and how images and sentences become vectors."""

import threading
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from cxrtext.errors import NotFoundError
from cxrtext.evaluation import CHEX5_PROMPTS, Prompts
from cxrtext.evaluation.calibration import calibration_beside
from cxrtext.images import ReaderPool
from cxrtext.index import Index, IndexedImage, Shards
from cxrtext.models import ImageTextModel
from cxrtext.models.embedding import embed_squares
from cxrtext.models.masked_language_model import MaskedLanguageModel
from cxrtext.service.answers import EmbeddedImage, Image, Square
from cxrtext.service.archive import Archive
from cxrtext.service.columns import Column
from cxrtext.service.limits import check_sentence, tokens_a_turn
from cxrtext.service.texts import TextMemory, prompt_vectors

if TYPE_CHECKING:
    from cxrtext.language.scoring.scorer import Scorer

READERS = 2
"""Processes that read images: a small file need not wait for a large one."""


class Loaded:
    """A loaded model and, where there is one, its index.  Safe to call from several threads.

    Args:
        model: The model.
        index: The index that the model made, or several.
        prompts: Prompts of zero-shot classification; CheX5's by default.
        language_model: Scores sentences by themselves.

    Raises:
        CheckpointError: The calibration beside the model is damaged, or another model's.
    """

    def __init__(
        self,
        model: ImageTextModel,
        index: Index | Shards | None = None,
        prompts: Mapping[str, Prompts] | None = None,
        language_model: MaskedLanguageModel | None = None,
    ) -> None:
        self.model = model
        self.language_model = language_model
        self._archive = None if index is None else Archive(index)
        # Each process is started when a file first needs it, and ends with the service.
        self._readers = ReaderPool(READERS)
        self._end_readers = weakref.finalize(self, self._readers.close)
        self._lock = threading.RLock()
        self._texts = TextMemory(model)
        self.prompts = dict(prompts or CHEX5_PROMPTS)
        self._made_scorer: Scorer | None = None
        self.calibration = calibration_beside(model)
        self._prompt_vectors = prompt_vectors(self._texts, self.prompts)

    @property
    def archive(self) -> Archive:
        """The index, or all of them as one.

        Raises:
            NotFoundError: The service was loaded without one.
        """
        if self._archive is None:
            raise NotFoundError("no index is loaded; give one with --index")
        return self._archive

    @property
    def index(self) -> Index:
        """The index; of several the first, which is the one that images are added to.

        Raises:
            NotFoundError: The service was loaded without one.
        """
        return self.archive.parts[0]

    @property
    def has_index(self) -> bool:
        """Whether an index is loaded."""
        return self._archive is not None

    def close(self) -> None:
        """End the reader processes and close the index."""
        self._end_readers()
        if self._archive is not None:
            self._archive.close()

    def describe(self, *, look: bool = True) -> dict[str, Any]:
        """What is loaded, as JSON takes it.

        Args:
            look: Whether to look into the index anew, which may have to wait for a writer.
        """
        spec = self.model.spec
        parts = self.archive.parts if self.has_index else []
        states = [part.state if look else part.seen for part in parts]
        return {
            "fingerprint": self.model.fingerprint,
            "image_encoder": spec.image,
            "text_encoder_layers": spec.text["num_hidden_layers"],
            "similarity": spec.aggregator,
            "dimension": spec.dimension,
            "gamma_sq": round(float(self.model.gamma_sq.detach()), 4),
            "resize": spec.preprocessing.resize,
            "crop": spec.preprocessing.crop,
            "findings": list(self.prompts),
            "images": sum(state.images for state in states),
            "sentences": sum(len(state.sentence_numbers) for state in states),
        }

    # --- images ---

    def embed_squares(self, squares: Sequence[Square]) -> list[Tensor]:
        """Embed 8-bit squares of `Preprocessing.square`, regions [N, D] of each."""
        with self._lock:
            # Each a copy: a part would keep the whole batch in memory.
            return [regions.clone() for regions in embed_squares(self.model, squares)]

    def embed(self, image: Image) -> EmbeddedImage:
        """Embed an image [1, H, W] in [0, 1]."""
        (regions,) = self.embed_squares([self.model.spec.preprocessing.square(image)])
        return EmbeddedImage(regions, image.shape[1], image.shape[2])

    def read_file(self, path: Path) -> Image:
        """Read an image file, [1, H, W] in [0, 1], in a process of its own.

        Raises:
            ImageError: The file cannot be read, or made its reader process die or hang.
        """
        return self._readers.read(path)

    def embed_file(self, path: Path) -> EmbeddedImage:
        """Read and embed an image file; see :meth:`read_file`."""
        return self.embed(self.read_file(path))

    def find_image(self, name: str) -> IndexedImage:
        """The indexed image of a name.

        Raises:
            NotFoundError: There is none.
        """
        return self.archive.find(name)[1]

    def embedded(self, name: str) -> EmbeddedImage:
        """An indexed image, without decoding it again."""
        return self.archive.embedded(name)

    def pixels(self, name: str) -> Image:
        """The pixels of an indexed image, [1, H, W] in [0, 1], from where it was indexed.

        Raises:
            NotFoundError: There is no image of that name, or its file is gone.
            ImageError: The file is not readable any more; the message does not hold its path.
        """
        path = ""
        # One that is replaced has another file; the old one may go before it is opened.
        while path != (path := self.find_image(name).path):
            with suppress(OSError):
                return self._readers.read_bytes(Path(path).read_bytes(), "the indexed image")
        raise NotFoundError("the file of this image is no longer where it was indexed")

    def columns(self) -> list[Column]:
        """The columns that filters can name, with what is in them."""
        return self.archive.columns()

    # --- sentences ---

    def embed_sentences(self, sentences: Sequence[str]) -> Tensor:
        """Embed sentences as [S, D], unit vectors; those used lately are remembered."""
        if not self._texts.missing(sentences):
            return self._texts.embed(sentences)
        with self._lock:
            return self._texts.embed(sentences)

    @property
    def text_turn(self) -> int:
        """Tokens of sentences that are embedded between two pauses."""
        text = self.model.spec.text
        wide, inner = int(text["hidden_size"]), int(text["intermediate_size"])
        layers = int(text["num_hidden_layers"])
        return tokens_a_turn(layers * (4 * wide**2 + 2 * wide * inner))

    def text_tokens(self, sentences: Sequence[str]) -> int:
        """Tokens that sentences have at most, told without a tokenizer."""
        most = self.model.spec.max_tokens
        return sum(min(most, len(sentence) + 2) for sentence in sentences)

    def text_turns(self, sentences: Sequence[str]) -> list[list[str]]:
        """The sentences that are not remembered, in parts that are each embedded in a turn."""
        missing = self._texts.missing(sentences)
        encoded = self.model.tokenizer.backend_tokenizer.encode_batch(missing) if missing else []
        most = self.model.spec.max_tokens
        lengths = [min(most, sum(encoding.attention_mask)) for encoding in encoded]
        turns: list[list[str]] = []
        for at in sorted(range(len(missing)), key=lengths.__getitem__):
            if not turns or lengths[at] * (len(turns[-1]) + 1) > self.text_turn:
                turns.append([])
            turns[-1].append(missing[at])
        return turns

    def _scorer(self, language: MaskedLanguageModel) -> "Scorer":
        """The language model arranged for scoring, once for all questions."""
        from cxrtext.language.scoring.scorer import Scorer

        with self._lock:
            if self._made_scorer is None or self._made_scorer.language is not language:
                config = language.model.config
                wide, inner = int(config.hidden_size), int(config.intermediate_size)
                tokens = tokens_a_turn(4 * wide**2 + 2 * wide * inner)
                on_cpu = language.model.device.type == "cpu"
                self._made_scorer = Scorer(language, batch_tokens=tokens if on_cpu else None)
            return self._made_scorer

    def knows(self, sentences: Sequence[str]) -> bool:
        """Whether all of some sentences are remembered.

        Raises:
            InputError: A sentence is empty or too long.
        """
        for sentence in sentences:
            check_sentence(sentence)
        return not self._texts.missing(sentences)
