"""Answer questions with a loaded model and index; the CLI and the API both call this."""

import threading
import timeit
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import torch
from torch import Tensor

from cxrtext.errors import DataError, InputError, NotFoundError
from cxrtext.evaluation import Prompts, score_differences
from cxrtext.evaluation.classification.calibration import KeptCalibration, prompts_beside
from cxrtext.evaluation.classification.heads import BetterHeads
from cxrtext.evaluation.how_good import how_good_beside
from cxrtext.files import note_source
from cxrtext.files.sqlite import WAIT_S
from cxrtext.images import Geometry, ReaderPool
from cxrtext.images.gray import Bytes
from cxrtext.index import Archive, FoundImages, IndexedImage, Query, SentenceHit, open_index
from cxrtext.index.features.scoring import mean_region
from cxrtext.index.search.archive import SearchOptions, SentenceOptions
from cxrtext.index.search.query import IMAGE_WEIGHT
from cxrtext.index.store.catalogue import CATALOGUE, UNLIKE, Catalogue, noted_checkpoint
from cxrtext.models import ImageTextModel, load_model
from cxrtext.models.familiar import Familiar, Unlike, familiar_beside
from cxrtext.models.regions import embed_squares
from cxrtext.pausing import Pausing, finish, within
from cxrtext.service.answers import (
    EmbeddedImage,
    FindingScore,
    Grounding,
    Image,
    Square,
    calibrated,
    ground_grid,
)
from cxrtext.service.cache import TextMemory, prompt_vectors
from cxrtext.service.intake import RowMaker
from cxrtext.service.limits import check_sentence
from cxrtext.service.timeline import Timeline, timeline
from cxrtext.service.verify.reference import References, ReferenceScores, percentile
from cxrtext.service.verify.sentences import ReportSentence, report_sentences
from cxrtext.service.verify.verify import Verification, verify_sentences
from cxrtext.text.rewording import reworded
from cxrtext.text.sides import Side, side_of
from cxrtext.verdicts.judge import Judge
from cxrtext.verdicts.kept import KeptVerdicts

READERS = 2
"""Processes that read images, so that a small file need not wait for a large one."""

WARM_SENTENCE = "The lungs are clear."

WORTH = 1.3
"""How much faster several threads must be than one, as other cores are busy decoding images and
answering."""

TIMES = 3
"""How often to try each number of threads; the best counts."""


class Service:
    """A loaded model and, if there is one, its archive.  Threads may share one.

    By default the checkpoint's own prompts classify.
    """

    def __init__(
        self,
        model: ImageTextModel,
        archive: Archive | None = None,
        prompts: Mapping[str, Prompts] | None = None,
    ) -> None:
        self.model = model
        self._archive = archive
        # Each process starts when a file first needs it, and ends with the service.
        self._readers = ReaderPool(READERS)
        self._end_readers = weakref.finalize(self, self._readers.close)
        self._lock = threading.RLock()
        self._renewing = threading.Lock()
        self.texts = TextMemory(model)
        self.index_rows = RowMaker(model)
        self._references = References(model, archive)
        self.prompts_given = prompts
        self.prompts = dict(prompts or prompts_beside(model))
        self.calibration = KeptCalibration.beside(model)
        self.how_good = how_good_beside(model)
        self.familiar = familiar_beside(model) or Familiar()
        self._judge = Judge(KeptVerdicts.beside(model))
        self._prompt_vectors = prompt_vectors(self.texts, self.prompts)
        self._heads = BetterHeads(model.heads, self.prompts)

    @property
    def archive(self) -> Archive:
        """The index (NotFoundError)."""
        if self._archive is None:
            raise NotFoundError("no index is loaded; give a project or an index")
        return self._archive

    @property
    def has_index(self) -> bool:
        return self._archive is not None

    def close(self) -> None:
        """End the reader processes and close the index."""
        self._end_readers()
        if self._archive is not None:
            self._archive.close()

    def renew(self) -> bool:
        """Use the index as it is now; False if it now has another model."""
        with self._renewing:
            fresh = self.archive.renewed()
            if fresh is not None:
                self._archive = self._references.archive = fresh
            return fresh is not None

    def describe(self) -> dict[str, Any]:
        """What is loaded, as values for JSON."""
        spec = self.model.spec
        snapshot = self.archive.snapshot if self.has_index else None
        return {
            "fingerprint": self.model.fingerprint,
            "image_encoder": spec.image_title,
            "text_encoder_layers": spec.text["num_hidden_layers"],
            "similarity": spec.aggregator,
            "dimension": spec.dimension,
            "gamma_sq": round(float(self.model.gamma_sq.detach()), 4),
            "resize": spec.preprocessing.resize,
            "crop": spec.preprocessing.crop,
            "findings": list(self.prompts),
            "images": snapshot.images if snapshot else 0,
            "sentences": len(snapshot.sentence_numbers) if snapshot else 0,
        }

    def warm_up(self) -> None:
        """Embed and score an image and a sentence, and search, as the first time is the slowest.

        This loads libraries and takes memory.  On a CPU, the calling thread computes with one
        thread from then on if several make a small model hardly faster.
        """
        side = self.model.spec.preprocessing.resize
        blank = [np.zeros((1, side, side), dtype=np.uint8)]
        regions = self.embed_squares(blank)[0][None]
        if self.model.device.type == "cpu":
            torch.set_num_threads(threads_for(lambda: self.embed_squares(blank)))
        texts = self.embed_sentences([WARM_SENTENCE])
        with torch.inference_mode():
            self.model.scores(regions, texts)
        if self._archive is not None:
            self._archive.search(Query(texts=texts), 1)
            self._archive.search(Query(image=mean_region(regions.float()).cpu()[0]), 1)

    # --- images ---

    def embed_squares(self, squares: Sequence[Square]) -> list[Tensor]:
        """Embed 8-bit squares of `Preprocessing.square`; gives regions [N, D] for each."""
        with self._lock:
            # Copies: a part would keep the whole batch in memory.
            return [regions.clone() for regions in embed_squares(self.model, squares)]

    def embed(self, image: Image, metadata: Mapping[str, str] | None = None) -> EmbeddedImage:
        """Embed an image [1, H, W] in [0, 1]; ``metadata`` as in a manifest."""
        square = self.model.spec.preprocessing.square(image)
        return self._embed_square(square, (image.shape[1], image.shape[2]), metadata or {})

    def _embed_square(
        self, square: Square, size: tuple[int, int], metadata: Mapping[str, str]
    ) -> EmbeddedImage:
        (regions,) = self.embed_squares([square])
        unlike = self.familiar.of_squares([square], self.model.spec.preprocessing)[0]
        return EmbeddedImage(regions, *size, None, unlike, metadata)

    def read_file(self, path: Path) -> Image:
        """Read an image file, [1, H, W] in [0, 1], in a separate process (ImageError)."""
        note_source(path)
        return self._readers.read(path)

    def embed_file(self, path: Path, metadata: Mapping[str, str] | None = None) -> EmbeddedImage:
        """Read and embed an image file, as an index does; see :meth:`read_file`.

        Without ``metadata``, they come from the DICOM header.
        """
        from cxrtext.datasets.importing.formats.dicom import groups_in  # a search does not need it

        note_source(path)
        read = self._readers.prepare(path, self.model.spec.preprocessing)
        groups = groups_in(path) if metadata is None else metadata
        return self._embed_square(read.pixels, (read.height, read.width), groups)

    def find_image(self, image_id: str) -> IndexedImage:
        """The indexed image with an id (NotFoundError)."""
        return self.archive.find(image_id)

    def timeline(self, image_id: str) -> Timeline:
        """All films of an indexed image's patient in order of time; see :mod:`.timeline`."""
        return timeline(self.archive, image_id)

    def embedded(self, image: EmbeddedImage | str) -> EmbeddedImage:
        """An indexed image by its id as the model sees it, without decoding it again.

        How unlike the training images it is comes from the index, too.  An image that is embedded
        already is given back.
        """
        if isinstance(image, EmbeddedImage):
            return image
        try:
            return self._embedded(image)
        except DataError:  # the catalogue has a number for it that is not in this view of the index
            self.renew()
            return self._embedded(image)

    def _embedded(self, image_id: str) -> EmbeddedImage:
        archive = self.archive
        image = archive.find(image_id)
        labels = archive.catalogue.labels([image.number], archive.model.fingerprint)
        share = labels.get(image.number, {}).get(UNLIKE)
        limit = None if self.familiar.images is None else self.familiar.images.threshold
        unlike = None if share is None or limit is None else Unlike(share * limit, limit)
        regions, size = archive.regions(image.number), (image.height, image.width)
        return EmbeddedImage(regions, *size, unlike=unlike, metadata=image.metadata)

    def shown(self, image_id: str, side: int | None = None) -> Bytes:
        """The pixels of an indexed image's file, [H, W], the longest side at most ``side``."""
        path = ""
        # A replaced image has a new file; the old one may disappear before it is opened.
        while path != (path := (found := self.find_image(image_id)).path):
            with suppress(OSError):
                found.require_whole()
                data = Path(path).read_bytes()
                return self._readers.view_bytes(data, "the indexed image", side)
        raise NotFoundError("the file of this image is no longer where it was indexed")

    # --- sentences ---

    def embed_sentences(self, sentences: Sequence[str]) -> Tensor:
        """Embed sentences as unit vectors [S, D]; recent ones are remembered."""
        if not self.texts.missing(sentences):
            return self.texts.embed(sentences)
        with self._lock:
            return self.texts.embed(sentences)

    def readings(self, sentences: Sequence[str], *, as_written: bool = False) -> list[str]:
        """Typed sentences as they are embedded (:func:`~cxrtext.text.rewording.reworded`)."""
        if as_written:
            return list(sentences)
        words = self.familiar.words
        said = None if words is None else words.said
        return [reworded(sentence, said, self._spelled) for sentence in sentences]

    @cached_property
    def _spelled(self) -> frozenset[str]:
        # a byte-level vocabulary marks the beginning of a word
        pieces = (piece.lstrip("Ġ").lower() for piece in self.model.tokenizer.get_vocab())
        return frozenset(filter(str.isalpha, pieces))

    def caution(self, sentences: Sequence[str]) -> str | None:
        """Why one of these sentences would not be judged in a report, or None."""
        reason = next(filter(None, map(self._judge.doubt, sentences)), None)
        return reason and f"verify would not judge this sentence: {reason}"

    # --- questions ---

    def classify(
        self, image: EmbeddedImage, prompts: Mapping[str, Prompts] | None = None
    ) -> list[FindingScore]:
        """Probabilities, one per finding, in the order of the prompts.

        They are zero-shot, or a head's if it ranks validation images better.  They are calibrated
        if the checkpoint has a calibration of exactly these prompts, and the image is not unlike
        those it was fitted to.  Other prompts may replace the service's.
        """
        with self._lock, torch.inference_mode():
            vectors = (
                self._prompt_vectors if prompts is None else prompt_vectors(self.texts, prompts)
            )
            regions = image.regions[None].to(self.model.device)
            heads = self._heads if prompts is None else BetterHeads(self.model.heads, prompts)
            differences = heads.put(regions, score_differences(self.model, regions, vectors))[:, 0]
            probabilities = differences.sigmoid()
        asked = prompts or self.prompts
        findings = zip(asked, probabilities.tolist(), differences.tolist(), strict=True)
        calibration = None if image.is_unlike else self.calibration
        scores = [FindingScore(*values, by_head=values[0] in heads.findings) for values in findings]
        return calibrated(scores, calibration, asked, image.metadata)

    def ground(
        self,
        image: EmbeddedImage,
        sentence: str,
        threshold: float | None = None,
        *,
        as_written: bool = False,
    ) -> Grounding:
        """Where an image supports a sentence (InputError), reworded by :meth:`readings`.

        Regions from the threshold up count for the boxes; by default it is where the sentence's
        heatmaps begin or, without reference images, halfway between the mean and the maximum.
        """
        check_sentence(sentence)
        if not self.model.has_regions:
            raise InputError(
                f"{self.model.spec.image_title}: has one embedding per image, so it cannot say "
                "where; a model with projected patches can"
            )
        (read,) = self.readings([sentence], as_written=as_written)
        text = self.embed_sentences([read])
        with self._lock, torch.inference_mode():
            regions = image.regions[None].to(self.model.device)
            grid = self.model.maps(regions, text)[0, 0].cpu().numpy()
            score = float(self.model.scores(regions, text)[0, 0])
            left = self.model.heads.left(regions) if self.model.heads else None
        shown: Side = ""
        if left is not None and side_of(read):
            shown = "left" if float(left[0]) > 0 else "right"
        side = round(len(grid) ** 0.5)
        geometry = Geometry(image.height, image.width, self.model.spec.preprocessing)
        support = scale = None
        if (reference := self.reference()) is not None:
            ((others, scale),) = finish(reference.of([read], text))
            support = percentile(score, others)
        grounding = ground_grid(grid.reshape(side, side), score, geometry, threshold, scale)
        read_as = None if read == sentence else read
        return replace(grounding, read_as=read_as, side=shown, support=support)

    def verify(
        self, image: EmbeddedImage, report: str, threshold: float | None = None
    ) -> Verification:
        """How well an image supports each sentence of a report; threshold as in :meth:`ground`.

        Sections other than findings, impression and conclusion are skipped (see
        :func:`.report_sentences`).
        """
        return finish(self.verify_pausing(image, report_sentences(report), threshold))

    def verify_pausing(
        self,
        image: EmbeddedImage,
        sentences: Sequence[ReportSentence],
        threshold: float | None = None,
    ) -> Pausing[Verification]:
        """As :meth:`verify`, for at least one sentence of a report, with pauses."""
        reference = self.reference()
        yield
        texts = self.embed_sentences([one.sentence for one in sentences])
        return (
            yield from verify_sentences(
                self.model, texts, image, reference, sentences, self._judge, threshold
            )
        )

    @property
    def verdicts(self) -> KeptVerdicts | None:
        """The checkpoint's basis for verdicts, or None."""
        return self._judge.kept

    def reference(self) -> ReferenceScores | None:
        """The images to measure support by: the checkpoint's, else the index's, else None."""
        return self._references.now()

    def make_query(
        self,
        sentences: Sequence[str] = (),
        *,
        without: Sequence[str] = (),
        image: EmbeddedImage | None = None,
        image_weight: float | None = None,
    ) -> Query:
        """A query of sentences as :meth:`readings` gives them, an image, or both.

        Several sentences count by their mean score.  ``image_weight``, in [0, 1] and by default
        0.5, weighs the image's similarity against the sentences.
        """
        return Query(
            texts=self.embed_sentences(sentences) if sentences else None,
            without=self.embed_sentences(without) if without else None,
            image=None if image is None else mean_region(image.regions[None].float()).cpu()[0],
            image_weight=IMAGE_WEIGHT if image_weight is None else image_weight,
        )

    def search(self, query: Query, k: int = 10, **options: Unpack[SearchOptions]) -> FoundImages:
        return finish(self.search_pausing(query, k, **options))

    def search_pausing(
        self, query: Query, k: int = 10, **options: Unpack[SearchOptions]
    ) -> Pausing[FoundImages]:
        return (yield from within(self._lock, self.archive.search_pausing(query, k, **options)))

    def search_sentences_pausing(
        self, asked: EmbeddedImage | str, k: int, **options: Unpack[SentenceOptions]
    ) -> Pausing[list[SentenceHit]]:
        """The k indexed sentences that fit an image best, or are most similar to a sentence."""
        archive = self.archive
        if isinstance(asked, str):
            (text,) = self.embed_sentences([asked])
            search = archive.search_sentences_pausing(k, text=text, **options)
        else:
            search = archive.search_sentences_pausing(k, image=asked.regions, **options)
        return (yield from within(self._lock, search))


def successor(service: Service) -> Service | None:
    """A service with the index's new model, or None if the model is still the same.

    It has the prompts that were given.  Both services can be used; the old one answers from what it
    saw before.
    """
    if not service.has_index or service.renew():
        return None
    folder, model = service.archive.folder, service.model
    with Catalogue(folder / CATALOGUE) as catalogue:
        meta = catalogue.meta()
    if meta["model"] != model.fingerprint:
        model = load_model(noted_checkpoint(folder, meta), str(model.device))
    return Service(model, open_index(folder, model), service.prompts_given)


def threads_for(work: Callable[[], object]) -> int:
    """How many threads to use for some work, all or one, found by running it a few times."""
    several = torch.get_num_threads()
    if several == 1:
        return 1
    try:
        torch.set_num_threads(1)
        slow = min(timeit.repeat(work, number=1, repeat=TIMES))
        torch.set_num_threads(several)
        quick = min(timeit.repeat(work, number=1, repeat=TIMES))
    finally:
        torch.set_num_threads(several)
    return several if slow > WORTH * quick else 1


def load_service(
    checkpoint: str | Path | None = None,
    index: str | Path | None = None,
    *,
    prompts: Mapping[str, Prompts] | None = None,
    device: str = "cpu",
    wait_s: float = WAIT_S,
) -> Service:
    """Load a model and, if given, its index.

    By default the checkpoint is the one noted in the index, and the prompts are the checkpoint's.
    If another process is committing a change of the index, wait up to ``wait_s`` seconds.
    """
    if checkpoint is None and index is None:
        raise DataError("give a checkpoint, an index, or both")
    model = None if checkpoint is None else load_model(checkpoint, device)
    if index is None:
        assert model is not None  # noqa: S101 - one of the two is given
        return Service(model, prompts=prompts)
    archive = open_index(index, model, wait_s=wait_s)
    try:
        return Service(archive.model.to(device), archive, prompts)
    except BaseException:
        archive.close()
        raise
