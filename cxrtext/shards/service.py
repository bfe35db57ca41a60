"""A service whose archive is shards: the model is here, what is searched is elsewhere."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

from cxrtext import models
from cxrtext.errors import UnavailableError
from cxrtext.evaluation import Prompts
from cxrtext.index import Column, Index, IndexedImage
from cxrtext.models import ImageTextModel, load_model
from cxrtext.models.familiar import Unlike
from cxrtext.pausing import Pausing, finish
from cxrtext.service.answers import EmbeddedImage, Image
from cxrtext.service.facts import IndexFacts
from cxrtext.service.service import Service
from cxrtext.shards.archive import ShardsArchive
from cxrtext.shards.calls import ShardCalls
from cxrtext.shards.config import read_shards
from cxrtext.shards.coverage import Coverage
from cxrtext.shards.forms import image_of

if TYPE_CHECKING:  # the language model is loaded by few
    from cxrtext.models import MaskedLanguageModel

T = TypeVar("T")


class ShardsService(Service):
    """Answers as a service of the whole archive does; see :class:`.ShardsArchive`.

    Sentences and uploads are embedded here, once, and what looks at an upload alone is answered
    here.  Reference images are the checkpoint's, never the index's.
    """

    elsewhere = True

    def __init__(
        self,
        model: ImageTextModel,
        calls: ShardCalls,
        prompts: Mapping[str, Prompts] | None = None,
        language_model: "MaskedLanguageModel | None" = None,
        *,
        require_all: bool = False,
    ) -> None:
        super().__init__(model, None, prompts, language_model)
        self._shards = self._archive = ShardsArchive(model, calls, require_all=require_all)
        self._known = {"images": 0, "sentences": 0}

    @property
    def calls(self) -> ShardCalls:
        """The requests to the shards."""
        return self._shards.asking.calls

    @property
    def coverage(self) -> Coverage:
        """How many of the shards the answer rests on."""
        return self._shards.asking.coverage

    def for_question(self) -> "ShardsService":
        """The same with a coverage of its own; everything else is shared."""
        one = copy.copy(self)
        one._shards = one._archive = self._shards.for_question()
        return one

    def readiness(self) -> Coverage:
        """Which shards are there as far as is known (UnavailableError: not enough of them)."""
        coverage = self._shards.for_question().asking.coverage
        coverage.note(self.calls.down)
        return coverage

    @property
    def index(self) -> Index:
        """There is none that images could be added to (UnavailableError)."""
        raise UnavailableError("this server searches shards and changes none of them")

    def _warm_archive(self, texts: Tensor, regions: Tensor) -> None:
        """Nothing: the shards do it."""

    def describe(self, *, look: bool = True) -> dict[str, Any]:
        """What is loaded; see the service of one archive."""
        if look:
            infos = self._shards.infos()
            self._known["images"] = sum(info.images for info in infos)
            self._known["sentences"] = sum(info.sentences for info in infos)
        return super().describe(look=look) | self._known

    def index_facts(self) -> IndexFacts:
        """What the shards that answer hold together."""
        infos = self._shards.infos()
        known = [info.index for info in infos if info.index is not None]
        recalls = [one.recall_at_10 for one in known if one.recall_at_10 is not None]
        shares = [one.exact_share for one in known if one.exact_share is not None]
        return IndexFacts(
            images=sum(info.images for info in infos),
            sentences=sum(info.sentences for info in infos),
            columns=len(self.columns()),
            exact=all(info.exact for info in infos),
            candidates=next((one.candidates for one in known if one.candidates), None),
            recall_at_10=min(recalls, default=None),
            exact_share=max(shares, default=None),
        )

    def check_filter(self, where: str | None) -> None:
        """Nothing: each shard refuses what is wrong of its index."""

    # --- images ---

    def find_image(self, image_id: str) -> IndexedImage:
        """The image of an id (NotFoundError, UnavailableError)."""
        _, found = finish(self._shards.holder(image_id))
        assert found.row is not None  # noqa: S101 - then it is raised
        return image_of(found.row)

    def detail(self, image_id: str) -> tuple[IndexedImage, list[tuple[str, str]]]:
        """The image of an id, and its study's report, of the shard that has the image."""
        return self._shards.detail(image_id)

    def embedded(self, image_id: str) -> EmbeddedImage:
        """An image as the model sees it, from the shard that has it."""
        _, found = finish(self._shards.holder(image_id, regions=True))
        assert found.row is not None  # noqa: S101
        assert found.regions is not None  # noqa: S101 - they were asked for
        share, limit = found.row.unlike, None
        if self.familiar.images is not None:
            limit = self.familiar.images.threshold
        unlike = None if share is None or limit is None else Unlike(share * limit, limit)
        regions = torch.from_numpy(found.regions.array())
        return EmbeddedImage(regions, found.row.height, found.row.width, unlike=unlike)

    def pixels(self, image_id: str) -> Image:
        """The pixels of an image, from the shard that has it (NotFoundError, ImageError)."""
        return self._readers.read_bytes(self._shards.picture(image_id), "the indexed image")

    def drawn(self, image_id: str, size: int) -> bytes:
        """The picture as its shard draws it."""
        return self._shards.picture(image_id, size)

    def columns(self) -> list[Column]:
        """The columns that every shard that answers has."""
        return self._shards.columns()

    def _asking_archive(self, work: Pausing[T]) -> Pausing[T]:
        """A search of the shards, which this server's model has no part in."""
        return (yield from work)


def load_shards(
    checkpoint: str | Path,
    shards: Path,
    *,
    require_all: bool = False,
    prompts: Mapping[str, Prompts] | None = None,
    language_model: str | Path | None = None,
    device: str = "cpu",
) -> ShardsService:
    """Load a model, and begin to ask the shards that a file lists.

    Raises:
        ConfigError: The file is wrong; see :func:`.read_shards`.
        CheckpointError: The checkpoint is damaged.
        HubError: The language model is not here, and the hub cannot be reached.
    """
    given = read_shards(shards)
    model = load_model(checkpoint, device)
    language = language_model and models.load_masked_language_model(language_model, device=device)
    calls = ShardCalls(given, model.fingerprint)
    try:
        return ShardsService(model, calls, prompts, language or None, require_all=require_all)
    except BaseException:
        calls.close()
        raise
