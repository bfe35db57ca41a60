"""What a shard answers to the server that asks it; see :mod:`.protocol`."""

import hashlib
import math
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from cxrtext.errors import InputError, NotFoundError, WorkError
from cxrtext.index import Archive, Index, IndexedImage, Query
from cxrtext.index.search.columns import column_cells
from cxrtext.index.search.sentences import BACKGROUND, Comparison, background_keys, compared
from cxrtext.index.store.snapshot import Snapshot
from cxrtext.index.store.vectors import rows_of
from cxrtext.models.regions import unpack
from cxrtext.pausing import Pausing
from cxrtext.shards import protocol as p

if TYPE_CHECKING:
    from cxrtext.index import ImageHit
    from cxrtext.service import Service

BACKGROUNDS = 2
"""Of sentences that are kept at a time: that of now, and one that is being turned to."""


ATTEMPTS = 5
"""How often images are searched again because one was deleted before it could be told of."""


class OtherModel(Exception):  # noqa: N818 - an answer rather than an error
    """The question was embedded by another model."""


class Answering:
    """The answers of a service to those who ask it as a shard; threads may share one."""

    def __init__(self, service: "Service") -> None:
        self.service = service
        self._lock = threading.Lock()
        self._backgrounds: OrderedDict[str, Comparison] = OrderedDict()

    def check(self, asked: p.Asked) -> Archive:
        """The archive, where the question is for its model (OtherModel, NotFoundError)."""
        if asked.model != self.service.model.fingerprint:
            raise OtherModel
        return self.service.archive

    @property
    def _model(self) -> str:
        return self.service.model.fingerprint

    # --- images ---

    def search(self, asked: p.SearchAsked) -> Pausing[p.SearchPart]:
        """Some of the ranked images."""
        archive = self.check(asked)
        for attempt in range(1, ATTEMPTS + 1):
            found = yield from archive.search_pausing(
                query_of(asked.query),
                asked.take,
                offset=asked.skip,
                where=asked.where,
                min_score=asked.min_score,
                exclude_patients=asked.exclude_patients,
                mode=asked.mode,
            )
            try:
                keys = [_key(archive, hit.image) for hit in found.hits]
                means = _means(archive, keys) if asked.means else None
                break
            except (KeyError, NotFoundError):  # one was deleted since it was found
                if attempt == ATTEMPTS:
                    raise WorkError("images change faster than they are read; ask again") from None
        return p.SearchPart(
            model=self._model,
            scores=[hit.score for hit in found.hits],
            rows=[_row(key, hit.image, hit) for key, hit in zip(keys, found.hits, strict=True)],
            means=means,
            matching=found.images,
            scored=found.scored,
            exact=found.exact,
            more=len(found.hits) == asked.take,
        )

    def rank(self, asked: p.ImagesAsked) -> Pausing[p.RankPart]:
        """Every image that a query leaves, ranked."""
        archive = self.check(asked)
        generation = _generation(archive)
        cohort = archive.cohort(
            query_of(asked.query),
            where=asked.where,
            min_score=asked.min_score,
            exclude_patients=asked.exclude_patients,
        )
        for steps in (cohort.select(), cohort.score(), cohort.rank()):
            for _ in steps:
                yield
        which, numbers, scores = cohort.ranking()
        return p.RankPart(
            model=self._model,
            generation=generation,
            matching=cohort.matching,
            scores=p.Vectors.of(scores),
            keys=p.Vectors.of(which * p.KEY_PARTS + numbers),
            columns=cohort.columns,
        )

    def rows(self, asked: p.RowsAsked) -> p.RowsPart:
        """Images by their keys."""
        archive = self.check(asked)
        if _generation(archive) != asked.generation:
            return p.RowsPart(model=self._model, rows=None)
        found: dict[int, p.Row] = {}
        for which, numbers in _by_part(asked.keys).items():
            part = archive.parts[which]
            with part.same_model() as same:
                labels = part.catalogue.labels(numbers) if same else {}
                unlike = part.catalogue.unlike(numbers) if same else {}
            for image in part.catalogue.images(numbers):
                if image is None:
                    return p.RowsPart(model=self._model, rows=None)
                key = which * p.KEY_PARTS + image.number
                kept = labels.get(image.number, {}), unlike.get(image.number)
                found[key] = _row(key, image, None, *kept)
        try:
            means = _means(archive, asked.keys) if asked.means else None
        except KeyError:
            return p.RowsPart(model=self._model, rows=None)
        return p.RowsPart(model=self._model, rows=[found[key] for key in asked.keys], means=means)

    def image(self, asked: p.ImageAsked) -> p.ImagePart:
        """An image by its id, if it is here."""
        archive = self.check(asked)
        for which, part in enumerate(archive.parts):
            found = part.catalogue.image(asked.image_id)
            if found is None:
                continue
            with part.same_model() as same:
                unlike = part.catalogue.unlike([found.number]) if same else {}
            row = _row(
                which * p.KEY_PARTS + found.number, found, None, {}, unlike.get(found.number)
            )
            regions = part.regions(found.number).numpy() if asked.regions else None
            return p.ImagePart(
                model=self._model,
                row=row,
                regions=None if regions is None else p.Vectors.of(regions, small=True),
            )
        return p.ImagePart(model=self._model)

    def likeness(self, asked: p.LikenessAsked) -> p.LikenessPart:
        """Whether an image is unlike all that are here."""
        archive = self.check(asked)
        mean = torch.from_numpy(asked.mean.array())
        return p.LikenessPart(model=self._model, unlike=archive.is_unlike(mean[None]))

    def columns(self, asked: p.Asked) -> p.ColumnsPart:
        """The columns that filters can name, as they are to be put together."""
        archive = self.check(asked)
        return p.ColumnsPart(
            model=self._model,
            columns=[
                p.ColumnPart(
                    name=cells.name,
                    filled=cells.filled,
                    numbers=cells.numbers,
                    ends=list(cells.ends),
                    counts=dict(cells.counts),
                )
                for cells in column_cells(archive.parts, archive.snapshots())
            ],
        )

    # --- sentences ---

    def candidates(self, asked: p.CandidatesAsked) -> p.CandidatesPart:
        """The images here that may stand for all of the archive, and their order."""
        archive = self.check(asked)
        snapshots = archive.snapshots()
        order, keys = _candidates(snapshots, asked.which)
        return p.CandidatesPart(
            model=self._model,
            order=p.Vectors.of(order),
            keys=p.Vectors.of(keys),
            images=archive.images,
            sentences=archive.sentences,
            state=_state(order, keys),
        )

    def regions(self, asked: p.RegionsAsked) -> p.RegionsPart:
        """Regions of some images, in rising order of their keys."""
        archive = self.check(asked)
        parts = []
        for which, numbers in sorted(_by_part(asked.keys).items()):
            snapshot = archive.parts[which].snapshot
            places = snapshot.places_of(np.array(numbers))
            if len(places) != len(numbers):
                return p.RegionsPart(model=self._model, regions=None)
            parts.append(unpack(rows_of(snapshot.arrays["regions"], places)))
        if not parts:
            raise InputError("keys: name one at least")
        found = torch.cat(parts).numpy()
        return p.RegionsPart(model=self._model, regions=p.Vectors.of(found, small=True))

    def sentences(self, asked: p.SentencesAsked) -> Pausing[p.SentencesPart]:
        """The best sentences that are here."""
        archive = self.check(asked)
        state = _state(*_candidates(archive.snapshots(), asked.which))
        comparison = None
        if asked.background is not None:
            comparison = self._comparison(asked.background, asked.regions)
            if comparison is None:
                return p.SentencesPart(
                    model=self._model, hits=None, sentences=archive.sentences, state=state
                )
        if (asked.text is None) == (asked.image is None):
            raise InputError("give either a text or an image")
        hits = []
        if archive.sentences:
            hits = yield from archive.search_sentences_pausing(
                asked.k,
                image=None if asked.image is None else torch.from_numpy(asked.image.array()),
                text=None if asked.text is None else torch.from_numpy(asked.text.array()),
                usual=compared(comparison),
                where=asked.where,
                min_score=-math.inf if asked.min_score is None else asked.min_score,
            )
        return p.SentencesPart(
            model=self._model,
            hits=[
                p.SentenceFound(
                    sentence=hit.sentence, score=hit.score, studies=hit.studies, lift=hit.lift
                )
                for hit in hits
            ],
            sentences=archive.sentences,
            state=state,
        )

    def _comparison(self, digest: str, regions: Sequence[p.Vectors] | None) -> Comparison | None:
        """The images by which sentences are compared, where they are known or sent (InputError)."""
        with self._lock:
            known = self._backgrounds.get(digest)
            if known is None and regions is not None:
                if p.digest_of(regions) != digest:
                    raise InputError("background: not the digest of the regions")
                known = Comparison([torch.from_numpy(one.array()) for one in regions])
                self._backgrounds[digest] = known
                while len(self._backgrounds) > BACKGROUNDS:
                    self._backgrounds.popitem(last=False)
            return known


def query_of(asked: p.QueryVectors) -> Query:
    """A query as it was sent (InputError)."""
    given = (asked.texts, asked.without, asked.image)
    texts, without, image = (None if v is None else torch.from_numpy(v.array()) for v in given)
    try:
        return Query(texts, without, image, asked.image_weight)
    except ValueError as error:
        raise InputError(str(error)) from None


def _generation(archive: Archive) -> str:
    """Which images the keys of an archive are of."""
    noted = [part.catalogue.meta() for part in archive.parts]
    return hashlib.blake2b(
        repr([meta["generation"] for meta in noted]).encode(), digest_size=16
    ).hexdigest()


def _by_part(keys: Sequence[int]) -> dict[int, list[int]]:
    """Numbers of images, by the part of the archive that they are of."""
    found: dict[int, list[int]] = {}
    for key in keys:
        found.setdefault(key // p.KEY_PARTS, []).append(key % p.KEY_PARTS)
    return found


def _key(archive: Archive, image: IndexedImage) -> int:
    if len(archive.parts) == 1:
        return image.number
    part, found = archive.find(image.image)
    return archive.parts.index(part) * p.KEY_PARTS + found.number


def _row(
    key: int,
    image: IndexedImage,
    hit: "ImageHit | None",
    labels: Mapping[str, float] | None = None,
    unlike: float | None = None,
) -> p.Row:
    return p.Row(
        key=key,
        image_id=image.image,
        study_id=image.study_id,
        patient_id=image.patient_id,
        split=image.split,
        width=image.width,
        height=image.height,
        metadata=dict(image.metadata),
        labels=dict((hit.labels if hit else labels) or {}),
        unlike=hit.unlike if hit else unlike,
    )


def _means(archive: Archive, keys: Sequence[int]) -> p.Vectors:
    """Mean regions of images, in the order of their keys (KeyError: one was deleted)."""
    rows: dict[int, NDArray[np.float32]] = {}
    for which, numbers in _by_part(keys).items():
        part: Index = archive.parts[which]
        snapshot = part.snapshot
        places = snapshot.places_of(np.array(numbers))
        for place, number in zip(places, snapshot.numbers[places].tolist(), strict=True):
            rows[which * p.KEY_PARTS + number] = snapshot.arrays["means"][place]
    wide = archive.model.spec.dimension
    found = [rows[key] for key in keys]
    return p.Vectors.of(np.stack(found) if found else np.empty((0, wide), dtype=np.float32))


def _candidates(
    snapshots: Sequence[Snapshot], which: int
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Of the images of a shard those that come first in the order of all, and their keys."""
    orders, keys = [], []
    for part, snapshot in enumerate(snapshots):
        numbers = snapshot.numbers[snapshot.live]
        # The first part of a shard counts as the shard, so that one index a shard is as one part.
        orders.append(background_keys(numbers, which + 4096 * part))
        keys.append(numbers + part * p.KEY_PARTS)
    order, key = np.concatenate(orders), np.concatenate(keys)
    first = np.argsort(order, kind="stable")[:BACKGROUND]
    return order[first], key[first]


def _state(order: NDArray[np.uint64], keys: NDArray[np.int64]) -> str:
    return hashlib.blake2b(order.tobytes() + keys.tobytes(), digest_size=16).hexdigest()
