"""What a server is asked in a week, beside what its model was calibrated on: counts, no images."""

import hashlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from cxrtext.errors import WorkError
from cxrtext.evaluation.drift import drift, score_signal
from cxrtext.files import read_sealed, write_sealed
from cxrtext.files.digests import seal_of

if TYPE_CHECKING:
    from cxrtext.evaluation.classification.calibration import KeptCalibration
    from cxrtext.service.answers import EmbeddedImage, FindingScore
    from cxrtext.service.service import Service

FEWEST = 50
"""Images that a week is judged by; one of fewer goes on with the next."""
SAVE_SECONDS = 60.0
MOST_KNOWN = 20_000
"""Images whose second question is not counted again."""

_log = logging.getLogger("cxrtext.watch")


@dataclass(frozen=True, slots=True)
class Judged:
    """A week that is over: how far each signal lay from its reference, over how far it may."""

    week: str = ""  # as 2026-W48, the first of several that were taken together
    images: int = 0
    shares: dict[str, float] = field(default_factory=dict)

    @property
    def warnings(self) -> list[str]:
        """What was distributed otherwise, the farthest first."""
        return sorted((n for n, s in self.shares.items() if s > 1), key=lambda n: -self.shares[n])


@dataclass(slots=True)
class _State:
    reference: str = ""  # a digest of the distributions that it is counted by
    week: str = ""
    images: int = 0
    counts: dict[str, list[int]] = field(default_factory=dict)
    last: Judged = field(default_factory=Judged)


class Watch:
    """Counts what is asked, and judges a week once it is over.  Safe to call from several threads.

    What it keeps is in a file of a few KB, written every minute; without a path, in memory.
    """

    def __init__(
        self, path: Path | None, today: Callable[[], date] = lambda: datetime.now(UTC).date()
    ) -> None:
        self._path, self._today = path, today
        self._lock = threading.Lock()
        self._known: set[bytes] = set()
        self._saved_at = time.monotonic()
        self._seal: tuple[KeptCalibration | None, str] = (None, "")
        self._state = _State()
        if path is not None and path.exists():
            with suppress(OSError, ValueError):  # what is damaged begins anew
                self._state = TypeAdapter(_State).validate_python(read_sealed(path))

    def note(
        self, service: "Service", image: "EmbeddedImage", findings: "Sequence[FindingScore]"
    ) -> None:
        """Count an image and the scores of the service's own findings in it, once a week."""
        kept = service.calibration
        if kept is None or not kept.watched:
            return
        values: dict[str, float | str] = {
            **dict(image.inputs),
            **image.metadata,
            **{
                score_signal(one.finding): one.score
                for one in findings
                if service.prompts[one.finding] == kept.prompts.get(one.finding)
            },
        }
        pixels = image.regions.float().cpu().numpy().tobytes()
        digest = hashlib.blake2b(pixels, digest_size=8).digest()
        with self._lock:
            self._turn(service)
            if digest in self._known:
                return
            if len(self._known) < MOST_KNOWN:
                self._known.add(digest)
            self._state.images += 1
            for name in values.keys() & kept.watched.keys():
                reference = kept.watched[name]
                counts = self._state.counts.setdefault(name, [0] * len(reference.counts))
                counts[reference.place(values[name])] += 1
            if time.monotonic() - self._saved_at > SAVE_SECONDS:
                self._save()

    def look(self, service: "Service") -> Judged:
        """The last week that is over."""
        with self._lock:
            self._turn(service)
            return self._state.last

    def close(self) -> None:
        with self._lock:
            if self._state.images:
                self._save()

    def _turn(self, service: "Service") -> None:
        """Begin another week, or with another model."""
        if (kept := service.calibration) is None:
            return
        if self._seal[0] is not kept:
            self._seal = kept, seal_of({n: one.model_dump() for n, one in kept.watched.items()})
        state, watched, week = self._state, kept.watched, f"{self._today():%G-W%V}"
        if state.reference != self._seal[1]:
            self._state = _State(self._seal[1], week)
        elif state.week != week and state.images >= FEWEST:
            shares = {
                name: drift(watched[name].counts, counts, len(watched))
                for name, counts in state.counts.items()
            }
            last = Judged(state.week, state.images, shares)
            if last.warnings:
                _log.warning(
                    "%d images of %s and after are not as those that the model was calibrated on: "
                    "%s; see docs/reference/verifying.md",
                    last.images,
                    last.week,
                    ", ".join(last.warnings),
                )
            self._state = _State(state.reference, week, last=last)
            self._known.clear()
            self._save()

    def _save(self) -> None:
        self._saved_at = time.monotonic()
        if self._path is None:
            return
        try:
            write_sealed(self._path, asdict(self._state))
        except (OSError, WorkError) as error:
            _log.warning("the week's counts cannot be kept (%s)", type(error).__name__)
            self._path = None
