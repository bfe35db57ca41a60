"""Splits whole patients into train, val and test, with each finding's share in each part.

A hash of the id draws a part for each patient.  From the rarest finding on, as few patients as
necessary move to a part that has too few of the finding, so most keep their part as the archive
grows.  A part already known from the set or from an earlier import stays.

Source: Sechidis, Tsoumakas and Vlahavas 2011 (On the stratification of multi-label data), Fig. 1:
the rarest finding first, to the part that needs it most.  Drawing parts by hashes is ours.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cxrtext.datasets.importing.reading import TRAIN_OR_VAL
from cxrtext.records.manifest import SPLITS

Shares = tuple[int, int, int]


@dataclass(slots=True)
class _Patient:
    drawn: str  # the part by its hash
    order: int  # the hash
    parts: tuple[str, ...]  # the parts it may be in
    part: str = ""  # its part, once known
    findings: set[str] = field(default_factory=set)


def _patient(patient: str, shares: Shares, given: str) -> _Patient:
    train, val, test = shares
    if given == TRAIN_OR_VAL:
        test = 0
        train, val = (train, val) if train + val else (1, 0)
    data = patient.encode("utf-8", "surrogatepass")
    order = int.from_bytes(hashlib.blake2b(data, digest_size=8, key=b"cxrtext split 0").digest())
    place = order * (train + val + test) >> 64
    drawn = "train" if place < train else "val" if place < train + val else "test"
    parts = (part for part, share in zip(SPLITS, (train, val, test), strict=True) if share)
    return _Patient(drawn, order, tuple(parts))


class Splits:
    """The parts of the patients of an import."""

    def __init__(self, shares: Shares) -> None:
        self._shares = shares
        self._patients: dict[str, _Patient] = {}

    def add(self, patient: str, given: str = "") -> None:
        """Add a patient with its known part: a split, ``TRAIN_OR_VAL`` or ""."""
        if patient not in self._patients:
            self._patients[patient] = _patient(patient, self._shares, given)
        if given in SPLITS:
            self._patients[patient].part = given

    @property
    def are_drawn(self) -> bool:
        """Whether any patient's part is still unknown."""
        return not all(one.part for one in self._patients.values())

    def note(self, patient: str, findings: Iterable[str]) -> None:
        self._patients[patient].findings.update(findings)

    def draw(self) -> None:
        """Give every patient a part; a finding with fewer patients than parts moves nobody."""
        holders: dict[str, list[_Patient]] = defaultdict(list)
        for one in sorted(self._patients.values(), key=lambda one: one.order):
            for finding in one.findings:
                holders[finding].append(one)
        known = {f: Counter(p.part for p in some if p.part) for f, some in holders.items()}
        left = {f: len(some) - known[f].total() for f, some in holders.items()}
        while left:
            finding = min(left, key=lambda one: (left[one], one))
            del left[finding]
            room = quotas(len(holders[finding]), self._shares)
            for part in room:
                room[part] -= known[finding][part]
            for one in _placed([one for one in holders[finding] if not one.part], room):
                for other in one.findings:
                    known[other][one.part] += 1
                    if other in left:
                        left[other] -= 1
        for one in self._patients.values():
            one.part = one.part or one.drawn

    def __getitem__(self, patient: str) -> str:
        return self._patients[patient].part


def _placed(patients: Iterable[_Patient], room: Mapping[str, int]) -> list[_Patient]:
    """Give patients the parts drawn for them while there is room, then the parts with most room."""
    left, others, placed = Counter(room), list[_Patient](), list[_Patient]()
    for one in patients if left else ():
        if left[one.drawn] > 0:
            one.part = one.drawn
            left[one.drawn] -= 1
            placed.append(one)
        else:
            others.append(one)
    for one in others:
        best = max(one.parts, key=lambda part: left[part])
        one.part = best if left[best] > 0 else one.drawn
        left[one.part] -= 1
    return placed + others


def quotas(patients: int, shares: Shares) -> dict[str, int]:
    """How many of the patients each part gets, at least one; {} with fewer patients than parts.

    >>> quotas(7, (80, 10, 10))
    {'train': 5, 'val': 1, 'test': 1}
    """
    parts = {part: share for part, share in zip(SPLITS, shares, strict=True) if share}
    if patients < len(parts):
        return {}
    exact = {part: patients * share / sum(shares) for part, share in parts.items()}
    counts = {part: max(1, int(value)) for part, value in exact.items()}
    while (missing := patients - sum(counts.values())) != 0:
        # The part farthest below its share gets one; the part farthest above gives one.
        sign = 1 if missing > 0 else -1
        some = [part for part in counts if sign > 0 or counts[part] > 1]
        part = max(some, key=lambda part: sign * (exact[part] - counts[part]))
        counts[part] += sign
    return counts
