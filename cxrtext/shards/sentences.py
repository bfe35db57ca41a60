"""Sentences that fit an image, of all shards: compared by the same images everywhere.

A sentence's lift is over what it scores in images of the whole archive (see
:mod:`cxrtext.index.search.sentences`).  These are chosen among all shards, as in an archive of
several folders, and sent to each.  While a shard is missing those chosen before are kept, so that
the lifts of the others' sentences stay what they were.
"""

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from cxrtext.index.search.archive import SentenceOptions
from cxrtext.index.search.sentences import BACKGROUND, FEWEST
from cxrtext.pausing import Pausing
from cxrtext.shards import protocol as p
from cxrtext.shards.asking import Asking

ATTEMPTS = 3
"""How often images are chosen anew because the shards change meanwhile."""


@dataclass(frozen=True, slots=True)
class _Background:
    """Images that sentences are compared by, and the shards that they were chosen among."""

    states: dict[int, str]
    digest: str | None  # None for a small archive: sentences are ranked by score
    regions: list[p.Vectors]


class Backgrounds:
    """The images by which the sentences of all shards are compared; threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now: _Background | None = None

    def search(
        self,
        asking: Asking,
        k: int,
        image: Tensor | None,
        text: Tensor | None,
        options: SentenceOptions,
    ) -> Pausing[dict[int, p.SentencesPart]]:
        """The best sentences of each shard."""
        asked: dict[str, Any] = {"model": asking.model, "k": k, **options}
        if image is not None:
            asked["image"] = p.Vectors.of(image.cpu().float().numpy(), small=True)
        if text is not None:
            asked["text"] = p.Vectors.of(text.cpu().float().numpy())
        for _ in range(ATTEMPTS):
            now = None
            if image is not None:
                now = self._now or (yield from self._choose(asking))
            digest = None if now is None else now.digest
            parts = yield from self._ask(asking, asked, digest, now)
            if now is None or not self._has_changed(now, parts):
                return parts
            with self._lock:
                self._now = None
        return parts

    def _has_changed(self, now: _Background, parts: dict[int, p.SentencesPart]) -> bool:
        """Whether a shard has other images to choose from, or answers that did not before."""
        return any(now.states.get(place) != part.state for place, part in parts.items())

    def _ask(
        self,
        asking: Asking,
        asked: dict[str, Any],
        digest: str | None,
        now: _Background | None,
    ) -> Pausing[dict[int, p.SentencesPart]]:
        def body(place: int) -> p.SentencesAsked:
            return p.SentencesAsked(**asked, which=place, background=digest)

        parts = yield from asking.ask_all("sentences", p.SentencesPart, body)
        unknown = [place for place, part in parts.items() if part.hits is None]
        if unknown and now is not None:
            sent = {"regions": now.regions}
            again = {place: body(place).model_copy(update=sent) for place in unknown}
            for place in unknown:
                del parts[place]
            # What sentences score at large is computed once; it may take longer than an answer.
            seconds = asking.calls.given.export_s
            parts |= yield from asking.ask_some("sentences", p.SentencesPart, again, seconds)
        return dict(sorted(parts.items()))

    def _choose(self, asking: Asking) -> Pausing[_Background]:
        """Choose images among all shards, as an archive of as many folders does."""
        found = yield from asking.ask_all(
            "candidates",
            p.CandidatesPart,
            lambda place: p.CandidatesAsked(model=asking.model, which=place),
        )
        order = np.concatenate([part.order.array() for part in found.values()])
        keys = np.concatenate([part.keys.array() for part in found.values()])
        which = np.repeat(list(found), [len(part.keys.array()) for part in found.values()])
        first = np.argsort(order, kind="stable")[:BACKGROUND]
        states = {place: part.state for place, part in found.items()}
        if len(first) < FEWEST:
            return _Background(states, None, [])
        bodies: dict[int, p.Message] = {
            place: p.RegionsAsked(
                model=asking.model, keys=np.sort(keys[first][which[first] == place]).tolist()
            )
            for place in sorted(set(which[first].tolist()))
        }
        regions = yield from asking.ask_some("regions", p.RegionsPart, bodies)
        given = {at: part.regions for at, part in regions.items() if part.regions is not None}
        for place in bodies.keys() - given.keys():  # it went meanwhile: asked again when it is back
            states[place] = ""
        if not given:
            return _Background(states, None, [])
        sent = [given[place] for place in sorted(given)]
        now = _Background(states, p.digest_of(sent), sent)
        with self._lock:
            self._now = now
        return now
