"""Errors planted into copies of reports, and how many of them an audit finds.

    python benchmarks/evaluation/audit.py PROJECT_OR_INDEX --out audit.csv
    python benchmarks/evaluation/audit.py PROJECT_OR_INDEX --seconds 100000

Films of split 'test' are audited beside those of 'val', whose reports stay as they are.  One kind
of error at a time: sides swapped, findings dropped, denials affirmed, reports exchanged.
"""

import argparse
import csv
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from cxrtext.project import find_place
from cxrtext.service import Service, load_service
from cxrtext.service.audit.audit import Audit, audit_archive
from cxrtext.service.audit.claims import EXCHANGED, KINDS, MISSED, NOT_THERE, WRONG_SIDE, Reader
from cxrtext.service.audit.films import indexed_reports
from cxrtext.text.sides import other_side
from cxrtext.text.turning import denied

RATES, SEEDS = (0.01, 0.03, 0.05), (0, 1, 2)
FDR, FIRST = 0.1, 50
Report = list[str]
Planted = Iterator[Report]
"""A report with an error, in as many ways as there are."""


def swapped(report: Report, reader: Reader) -> Planted:
    """All that a report says of one side is said of the other one."""
    for _, kind, *_ in reader.report(report).claims:
        if kind == WRONG_SIDE:
            yield [other_side(one) or one for one in report]


def dropped(report: Report, reader: Reader) -> Planted:
    """What affirms a finding is left out."""
    for name in sorted(reader.report(report).affirmed & reader.judged.keys()):
        rest = [one for one in report if name not in reader.report([one]).affirmed]
        said = reader.report(rest)
        if rest and any((one, kind) == (name, MISSED) for one, kind, *_ in said.claims):
            yield rest


def affirmed(report: Report, reader: Reader) -> Planted:
    """A sentence that denies a finding affirms it."""
    for name, kind, _, place in reader.report(report).claims:
        if kind != MISSED or place < 0:
            continue
        for other in denied(report[place]):
            said = reader.report([other])
            if any((one, what) == (name, NOT_THERE) for one, what, *_ in said.claims):
                yield [*report[:place], other, *report[place + 1 :]]


ERRORS: dict[str, tuple[int, Callable[[Report, Reader], Planted] | None]] = {
    "sides swapped": (WRONG_SIDE, swapped),
    "findings dropped": (MISSED, dropped),
    "denials affirmed": (NOT_THERE, affirmed),
    "reports exchanged": (EXCHANGED, None),
}


def plant(
    reports: dict[str, Report], patients: dict[str, str], error: str, rate: float, seed: int,
    reader: Reader,
) -> tuple[dict[str, Report], set[str]]:  # fmt: skip
    """Reports with errors in so large a share of them, and the studies of these."""
    rng = np.random.default_rng(seed)
    wanted, made = round(rate * len(reports)), ERRORS[error][1]
    studies = [sorted(reports)[at] for at in rng.permutation(len(reports))]
    found, errors = dict(reports), set[str]()
    if made is None:
        chosen: list[str] = []
        for study in studies:
            if len(chosen) < wanted and patients[study] not in {patients[s] for s in chosen}:
                chosen.append(study)
        for one, other in zip(chosen, [*chosen[1:], *chosen[:1]], strict=True):
            found[one] = reports[other]
        return found, set(chosen)
    for study in studies:
        if len(errors) == wanted:
            break
        forms = list(made(reports[study], reader))
        if forms:
            found[study] = forms[rng.integers(len(forms))]
            errors.add(study)
    return found, errors


def measure(audit: Audit, kind: str, errors: set[str]) -> dict[str, Any]:
    """Of the list of a kind, films that thresholds were fitted on left out."""
    listed = [one for one in audit.found if one.was == kind and not one.fitted_on]
    right = np.array([one.image.study_id in errors for one in listed], dtype=bool)
    taken = np.array([one.q <= FDR for one in listed], dtype=bool)
    said = [one.probability for one in listed[:FIRST]]

    def recall(chosen: Any) -> float:
        hit = {one.image.study_id for one, so in zip(listed, chosen, strict=True) if so} & errors
        return len(hit) / max(len(errors), 1)

    return {
        "planted": len(errors), "marked": len(listed), "recall of marked": recall(right),
        "precision of first": float(right[:FIRST].sum()) / FIRST,
        "expected of first": float(sum(said)) / FIRST,
        "best possible": min(FIRST, len(errors)) / FIRST,
        "taken": int(taken.sum()), "true among taken": int((right & taken).sum()),
        "recall of taken": recall(taken),
    }  # fmt: skip


def rows_of(service: Service) -> Iterator[dict[str, Any]]:
    assert service.verdicts is not None
    kept, archive = service.verdicts, service.archive
    reader, reports = Reader(kept), indexed_reports(archive)
    images = [
        one for part in archive.parts
        for one in part.catalogue.images(part.snapshot.numbers[part.snapshot.live].tolist()) if one
    ]  # fmt: skip
    patients = {one.study_id: one.patient_id for one in images}
    of = {s: {i.study_id for i in images if i.split == s} & reports.keys() for s in ("val", "test")}
    fixed = {study: reports[study] for study in of["val"]}
    tested = {study: reports[study] for study in sorted(of["test"] - of["val"])}
    dealt = np.random.default_rng(0).permutation(sorted(tested))
    mixed = {study: tested[other] for study, other in zip(sorted(tested), dealt, strict=True)}
    for name, some, errors in (
        ("none", tested, set()),
        ("all reports dealt", mixed, {s for s in mixed if mixed[s] is not tested[s]}),
    ):
        found = audit_archive(archive, kept, fixed | some, reader=reader)
        for kind in KINDS:
            yield {"error": name, "kind": kind, **measure(found, kind, errors)}
    for error, (kind_at, _) in ERRORS.items():
        for rate in RATES:
            for seed in SEEDS:
                planted, errors = plant(tested, patients, error, rate, seed, reader)
                found = audit_archive(archive, kept, fixed | planted, reader=reader)
                at = {"error": error, "kind": KINDS[kind_at], "rate": rate, "seed": seed}
                yield at | measure(found, KINDS[kind_at], errors)


def copies(archive: Any, sentences: int, share: float) -> tuple[Any, dict[str, Report]]:
    """An archive several times over, so large, and reports with so large a share distinct."""
    reports = indexed_reports(archive)
    times = -(-sentences // sum(map(len, reports.values())))
    parts, seen = [], 0
    said: dict[str, Report] = {}
    for copy in range(times):

        def renamed(numbers: Sequence[int], copy: int = copy, part: Any = archive.parts[0]) -> Any:
            return [
                replace(
                    one, study_id=f"{copy}-{one.study_id}", patient_id=f"{copy}-{one.patient_id}"
                )
                for one in part.catalogue.images(numbers)
            ]  # fmt: skip

        part = archive.parts[0]
        known = SimpleNamespace(
            images=renamed, unlike=part.catalogue.unlike,
            known_sentences=part.catalogue.known_sentences,
        )  # fmt: skip
        parts.append(SimpleNamespace(catalogue=known, snapshot=part.snapshot, model=archive.model))
        for study, report in reports.items():
            for place, one in enumerate(report):
                seen += 1
                new = copy and (seen * share) % 1 < share
                said.setdefault(f"{copy}-{study}", []).append(
                    f"{one.rstrip('.')} ({copy}.{seen})." if new else report[place]
                )
    return SimpleNamespace(parts=parts, model=archive.model), said


def timed(service: Service, sentences: int) -> None:
    reports = indexed_reports(service.archive)
    every = [one for said in reports.values() for one in said]
    archive, said = copies(service.archive, sentences, 0.25)
    distinct = {one for some in said.values() for one in some}
    begun, new = time.perf_counter(), sorted(distinct - set(every))
    embedded = service.model.embed_sentences(new).float().cpu()
    taken = time.perf_counter() - begun
    model = SimpleNamespace(
        **{name: getattr(service.model, name) for name in ("device", "scores", "gamma_sq", "spec")},
        query=service.model.query,
        embed_sentences=lambda asked: embedded if asked == new else None,
    )  # fmt: skip
    archive.model = model
    found = audit_archive(archive, service.verdicts, said)
    print(
        f"{found.sentences} sentences, {len(distinct)} distinct, {len(found.films)} films: "
        f"{dict(found.seconds)} s, {sum(found.seconds.values()):.1f} s in all; "
        f"embedding beside it {taken:.1f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("place", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seconds", type=int)
    given = parser.parse_args()
    place = find_place(given.place)
    service = load_service(place.checkpoint, place.indexes)
    if given.seconds:
        timed(service, given.seconds)
        return
    rows: list[dict[str, Any]] = []
    for row in rows_of(service):
        rows.append(row)
        print({k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()}, flush=True)
    if given.out:
        names = list(dict.fromkeys(name for row in rows for name in row))
        with given.out.open("w", newline="") as file:
            writer = csv.DictWriter(file, names)
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
