"""What can be asked of a loaded model and index: the one thing the CLI and the API both call."""

import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cxrtext.errors import DataError, InputError, NotFoundError
from cxrtext.evaluation import CHEX5_PROMPTS, Prompts, prompt_embeddings, score_differences
from cxrtext.images import Geometry, ReaderPool
from cxrtext.index import (
    Found,
    ImageHit,
    Index,
    IndexedImage,
    Query,
    SentenceHit,
    open_index,
)
from cxrtext.index.prototypes import mean_region
from cxrtext.models import ImageTextModel, load_model
from cxrtext.models.embedding import embed_squares
from cxrtext.models.similarity import region_scores
from cxrtext.service.grounding import Grounding, ground_grid

Image = NDArray[np.float32]

MAX_QUERY_CHARACTERS = 2_000
MAX_PROMPTS = 64
MAX_RESULTS = 1_000
READERS = 2
"""Processes that read images: a small file need not wait for a large one."""


@dataclass(frozen=True, slots=True)
class EmbeddedImage:
    """An image as the model sees it.

    Args:
        regions: [N, D], unit vectors.
        height: Height of the original, in pixels.
        width: Width of the original, in pixels.
    """

    regions: Tensor
    height: int
    width: int


@dataclass(frozen=True, slots=True)
class FindingScore:
    """A finding in an image.

    Args:
        finding: Its name.
        probability: Logistic of the score difference; not calibrated.
        score: ``γ² (s_pos − s_neg)``; above 0 says present.
    """

    finding: str
    probability: float
    score: float


class Service:
    """A loaded model and, where there is one, its index.  Safe to call from several threads.

    Args:
        model: The model.
        index: The index that the model made.
        prompts: Prompts of zero-shot classification; CheX5's by default.
    """

    def __init__(
        self,
        model: ImageTextModel,
        index: Index | None = None,
        prompts: Mapping[str, Prompts] | None = None,
    ) -> None:
        self.model = model
        self._index = index
        # Each process is started when a file first needs it, and ends with the service.
        self._readers = ReaderPool(READERS)
        self._end_readers = weakref.finalize(self, self._readers.close)
        self._lock = threading.Lock()
        self.prompts = dict(prompts or CHEX5_PROMPTS)
        self._prompt_vectors = prompt_embeddings(model, self.prompts)

    @property
    def index(self) -> Index:
        """The index.

        Raises:
            NotFoundError: The service was loaded without one.
        """
        if self._index is None:
            raise NotFoundError("no index is loaded; give one with --index")
        return self._index

    @property
    def has_index(self) -> bool:
        """Whether an index is loaded."""
        return self._index is not None

    def close(self) -> None:
        """End the reader processes and close the index."""
        self._end_readers()
        if self._index is not None:
            self._index.close()

    def describe(self) -> dict[str, Any]:
        """What is loaded, as JSON takes it."""
        spec = self.model.spec
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
            "images": self.index.images if self.has_index else 0,
            "sentences": self.index.sentences if self.has_index else 0,
        }

    # --- images ---

    def embed(self, image: Image) -> EmbeddedImage:
        """Embed an image [1, H, W] in [0, 1]."""
        square = self.model.spec.preprocessing.square(image)
        with self._lock:
            regions = embed_squares(self.model, [square])[0]
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
        found = self.index.catalogue.image(name)
        if found is None:
            raise NotFoundError("the index holds no image of that id")
        return found

    def embedded(self, name: str) -> EmbeddedImage:
        """An indexed image, without decoding it again."""
        found = self.find_image(name)
        return EmbeddedImage(self.index.regions(found.number), found.height, found.width)

    def pixels(self, name: str) -> Image:
        """The pixels of an indexed image, [1, H, W] in [0, 1], from where it was indexed.

        Raises:
            NotFoundError: There is no image of that name, or its file is gone.
            ImageError: The file is not readable any more; the message does not hold its path.
        """
        try:
            data = Path(self.find_image(name).path).read_bytes()
        except OSError:
            raise NotFoundError(
                "the file of this image is no longer where it was indexed"
            ) from None
        return self._readers.read_bytes(data, "the indexed image")

    # --- questions ---

    def classify(
        self, image: EmbeddedImage, prompts: Mapping[str, Prompts] | None = None
    ) -> list[FindingScore]:
        """Zero-shot probabilities, one a finding, in the order of the prompts.

        Args:
            image: The image.
            prompts: Other prompts than the service's.

        Raises:
            InputError: There are too many prompts, or one is empty or too long.
        """
        if prompts is not None:
            _check_prompts(prompts)
        with self._lock, torch.inference_mode():
            vectors = (
                self._prompt_vectors if prompts is None else prompt_embeddings(self.model, prompts)
            )
            regions = image.regions[None].to(self.model.device)
            differences = score_differences(self.model, regions, vectors)[:, 0]
            probabilities = differences.sigmoid()
        return [
            FindingScore(finding, float(p), float(s))
            for finding, p, s in zip(
                prompts or self.prompts, probabilities, differences, strict=True
            )
        ]

    def ground(self, image: EmbeddedImage, sentence: str) -> Grounding:
        """Where an image supports a sentence.

        Raises:
            InputError: The sentence is empty or too long.
        """
        text = self._embed_query(sentence)
        with self._lock, torch.inference_mode():
            regions = image.regions[None].to(self.model.device)
            grid = region_scores(regions, text[None])[0, 0].cpu().numpy()
            score = float(self.model.scores(regions, text[None])[0, 0])
        side = round(len(grid) ** 0.5)
        geometry = Geometry(image.height, image.width, self.model.spec.preprocessing)
        return ground_grid(grid.reshape(side, side), score, geometry)

    def make_query(
        self,
        sentence: str | None = None,
        *,
        without: Sequence[str] = (),
        image: EmbeddedImage | None = None,
        image_weight: float = 0.5,
    ) -> Query:
        """Put a query together.

        Args:
            sentence: What an image is to fit.
            without: What it is not to fit.
            image: What it is to be like.
            image_weight: Weight of the likeness beside a sentence, in [0, 1].

        Raises:
            InputError: Nothing is looked for, a sentence is empty or too long, there are too
                many, or the weight is out of range.
        """
        if sentence is None and image is None:
            raise InputError("give a sentence or an image")
        if not 0 <= image_weight <= 1:
            raise InputError(f"image weight {image_weight}; give a number between 0 and 1")
        if len(without) > MAX_PROMPTS:
            raise InputError(f"{len(without)} sentences not to fit; give at most {MAX_PROMPTS}")
        return Query(
            texts=None if sentence is None else self._embed_query(sentence)[None],
            without=torch.stack([self._embed_query(s) for s in without]) if without else None,
            image=None if image is None else mean_region(image.regions[None].float()).cpu()[0],
            image_weight=image_weight,
        )

    def search(self, query: Query, k: int = 10, **options: Any) -> Found:
        """Search the index; the options are those of :meth:`cxrtext.index.Index.search`.

        Raises:
            NotFoundError: There is no index.
            InputError: k is out of range, or a filter is wrong.
        """
        _check_count(k)
        with self._lock:
            return self.index.search(query, k, **options)

    def search_text(self, query: str, k: int = 10) -> list[ImageHit]:
        """The k indexed images that fit a sentence best.

        Raises:
            NotFoundError: There is no index.
            InputError: The query or k is out of range.
        """
        _check_count(k)
        index = self.index
        text = self._embed_query(query)
        with self._lock:
            return index.search_text(text, k)

    def search_image(self, image: EmbeddedImage, k: int = 10) -> list[ImageHit]:
        """The k indexed images most alike to an image."""
        _check_count(k)
        with self._lock:
            return self.index.search_image(image.regions, k)

    def search_sentences(self, image: EmbeddedImage, k: int = 10) -> list[SentenceHit]:
        """The k indexed sentences that fit an image best.

        Raises:
            NotFoundError: There is no index, or it was made without reports.
        """
        _check_count(k)
        self._check_sentences()
        with self._lock:
            return self.index.search_sentences(image.regions, k)

    def similar_sentences(self, sentence: str, k: int = 10) -> list[SentenceHit]:
        """The k indexed sentences most alike to a sentence.

        Raises:
            NotFoundError: There is no index, or it was made without reports.
            InputError: The sentence or k is out of range.
        """
        _check_count(k)
        self._check_sentences()
        text = self._embed_query(sentence)
        with self._lock:
            return self.index.similar_sentences(text, k)

    def _check_sentences(self) -> None:
        if not self.index.sentences:
            raise NotFoundError("the index holds no sentences; index with --reports to add them")

    def _embed_query(self, sentence: str) -> Tensor:
        _check_sentence(sentence)
        with self._lock:
            return self.model.embed_sentences([sentence])[0]


def _check_sentence(sentence: str) -> None:
    if not any(character.isalnum() for character in sentence):
        raise InputError("the sentence is empty; give one such as 'Left pleural effusion.'")
    if len(sentence) > MAX_QUERY_CHARACTERS:
        raise InputError(
            f"the sentence has {len(sentence)} characters; at most {MAX_QUERY_CHARACTERS} are read"
        )


def _check_prompts(prompts: Mapping[str, Prompts]) -> None:
    phrases: Sequence[str] = [p for e in prompts.values() for p in (*e.positive, *e.negative)]
    if not phrases or len(phrases) > MAX_PROMPTS:
        raise InputError(f"{len(phrases)} prompts; give between 1 and {MAX_PROMPTS}")
    for phrase in phrases:
        _check_sentence(phrase)


def _check_count(k: int) -> None:
    if not 1 <= k <= MAX_RESULTS:
        raise InputError(f"{k} results asked for; give between 1 and {MAX_RESULTS}")


def load_service(
    checkpoint: str | Path | None = None,
    index: str | Path | None = None,
    *,
    prompts: Mapping[str, Prompts] | None = None,
    device: str = "cpu",
) -> Service:
    """Load a model and, if given, its index.

    Args:
        checkpoint: The model's folder; by default the one noted in the index.
        index: The index's folder.
        prompts: Prompts of zero-shot classification; CheX5's by default.
        device: Where to compute.

    Raises:
        CheckpointError: A folder is damaged, or the two do not belong together.
        DataError: Neither is given.
    """
    if checkpoint is None and index is None:
        raise DataError("give a checkpoint, an index, or both")
    model = load_model(checkpoint, device) if checkpoint is not None else None
    opened = open_index(index, model) if index is not None else None
    if model is None:
        assert opened is not None  # noqa: S101 - one of the two is there
        model = opened.model
    return Service(model, opened, prompts)
