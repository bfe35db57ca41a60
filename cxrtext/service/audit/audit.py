"""Where the reports of an archive and its films disagree, the likeliest first."""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cxrtext.errors import DataError
from cxrtext.evaluation.verdicts.evidence import Floats
from cxrtext.evaluation.verdicts.fit import FEWEST, RATE, lower_quantiles
from cxrtext.evaluation.verdicts.kept import MISSING, FindingVerdicts, KeptVerdicts
from cxrtext.index import Archive
from cxrtext.index.order import study_pairs
from cxrtext.index.store.catalogue import IndexedImage
from cxrtext.pausing import Progress
from cxrtext.service.audit.claims import (
    EXCHANGED,
    KINDS,
    MISSED,
    NOT_THERE,
    STALE,
    UNSAID,
    WRONG_SIDE,
    Kind,
    Reader,
    Report,
    against,
    claims_of,
)
from cxrtext.service.audit.films import Films, Reports, Rows, read_films
from cxrtext.service.audit.rates import log_ratios, posteriors, q_values

Marks = NDArray[np.bool_]
LOOKS_ALIKE = 4 * RATE, 5
"""From which share of films that another finding is said of it explains the evidence for one that
is not named, and of how many films."""
REPEATED = 0.5
"""The share of a report's sentences from which on it repeats the one before."""
DEALS = 20
"""Times that reports are dealt to films of other patients."""


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A report against a film.

    ``sentence`` is its place in the report from 0, None where the report as a whole is meant or
    does not name the finding.  ``evidence`` is that for what the report says, of an exchanged
    report the log-likelihood ratio that it is this film's.  ``probability`` is that of a
    disagreement, ``q`` the share of none among those of its kind that are as likely or likelier.
    """

    image: IndexedImage
    kind: Kind
    finding: str
    sentence: int | None
    evidence: float
    probability: float
    q: float
    fitted_on: bool  # whether thresholds were fitted on it
    was: Kind  # its kind, of a stale text that of what is stale


@dataclass(frozen=True, slots=True)
class Asked:
    """How often films were asked about a kind and finding.

    ``dealt`` [B] is how often reports of other patients are marked beside each film.
    """

    kind: Kind
    finding: str
    times: int
    dealt: Floats


@dataclass(frozen=True, slots=True)
class Audit:
    """``found`` come the likeliest first; ``judged`` sentences name a finding that is judged."""

    films: Films
    reports: Reports
    found: list[Disagreement]
    asked: list[Asked]
    sentences: int
    judged: int
    unordered: int  # patients with several studies in no order, of which no text is called stale
    seconds: Mapping[str, float]


def audit_archive(
    archive: Archive,
    kept: KeptVerdicts | None,
    reports: Reports,
    *,
    reader: Reader | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Compare every report with the films of its study (DataError: what is wanted for it lacks).

    ``reports`` are sentences by study; ``reader`` remembers what sentences say.
    """
    if kept is None:
        raise DataError(MISSING)
    if not kept.contrasts():
        raise DataError(f"nothing can be audited: {kept.summary()}; verdicts.json says why of each")
    times = [time.perf_counter()]
    films = read_films(archive, reports, kept.contrasts(), progress)
    times.append(time.perf_counter())
    reader = reader or Reader(kept)
    read = {one.study_id: reader.report(reports[one.study_id]) for one in films.images}
    times.append(time.perf_counter())
    own = np.array([one.split == kept.split for one in films.images], dtype=bool)
    if own.sum() < FEWEST:
        raise DataError(
            f"{own.sum()} films of split '{kept.split}' with a report are in the index, at least "
            f"{FEWEST} are wanted to tell how films agree with their own reports; index them, too"
        )
    work = _Comparison(films, [read[one.study_id] for one in films.images], own, reader.judged)
    found, asked = work.disagreements()
    pairs, unordered = study_pairs(archive.parts)
    before = {pair.present.study_id: pair.prior.study_id for pair in pairs}
    found = [work.stale(one, reports, before) for one in found]
    times.append(time.perf_counter())
    return Audit(
        films,
        reports,
        sorted(found, key=lambda one: (one.q, -one.probability)),
        asked,
        sum(len(reports[study]) for study in read),
        sum(one.judged for one in read.values()),
        unordered,
        dict(
            zip(("films", "sentences", "comparison"), np.diff(times).round(2).tolist(), strict=True)
        ),
    )


class _Comparison:
    """Claims of reports beside the evidence of films, their own and those of other patients."""

    def __init__(
        self, films: Films, said: Sequence[Report], own: Marks, kept: Mapping[str, FindingVerdicts]
    ) -> None:
        self.films, self.said, self.own = films, said, own
        self.kept = [kept[name] for name in films.findings]
        self.claims = claims_of(said, films.findings)
        self.patients = np.array([one.patient_id for one in films.images])
        # log p(evidence | there) / p(evidence | not), and of left and right, each [B, F]
        self.there, self.left = np.zeros((2, *films.presence.shape))
        film, finding, kind, side, _ = self.claims.T
        for at, name in enumerate(films.findings):
            affirmed = np.array([name in one.affirmed for one in said], dtype=bool)
            absent = np.array([name in one.absent for one in said], dtype=bool)
            if self.kept[at].without == "not named":
                absent = ~affirmed
            values, rows = films.presence[:, at], own & (affirmed | absent)
            self.there[:, at] = log_ratios(values[:, None], values[rows, None], affirmed[rows])
            # Each film that one side is named of is one of the other side mirrored, too.
            rows = (kind == WRONG_SIDE) & (finding == at) & own[film]
            values, signed = films.left[:, at], side[rows] * films.left[film[rows], at]
            sample, truth = np.r_[signed, -signed], np.arange(2 * len(signed)) < len(signed)
            self.left[:, at] = log_ratios(values[:, None], sample[:, None], truth)
        self.rows: dict[str, list[int]] = defaultdict(list)
        for row, image in enumerate(films.images):
            self.rows[image.study_id].append(row)
        self.claims = self.claims[~self._explained()]

    def _explained(self) -> Marks:
        """Claims [n] that do not name a finding and say another that looks alike to the model.

        It may be another word for it, or what it comes with: that is no missed finding.
        """
        named = sorted({name for one in self.said for name in one.affirmed | one.hedged})
        says = np.array([[n in (r.affirmed | r.hedged) for n in named] for r in self.said], float)
        film, finding, kind, _, sentence = self.claims.T
        unsaid = (kind == MISSED) & (sentence == UNSAID)
        marked = self._against(film)[:, 1]
        found = np.zeros(len(film), dtype=bool)
        for at in np.unique(finding[unsaid]).tolist():
            rows = unsaid & (finding == at)
            times = says[film[rows]].sum(axis=0)
            share = marked[rows] @ says[film[rows]] / np.maximum(times, 1)
            alike = (share > LOOKS_ALIKE[0]) & (times >= LOOKS_ALIKE[1])
            found[rows] = says[film[rows]] @ alike > 0
        return found

    def _against(self, film: Rows) -> Floats:
        """Of claims beside some films: evidence, whether it stands against them, log-ratio, [n, 3].

        The log-ratio speaks for a disagreement.
        """
        _, finding, kind, side, _ = self.claims.T
        at, sided, sign = (film, finding), kind == WRONG_SIDE, np.where(kind == MISSED, -1.0, 1.0)
        presence, left = self.films.presence[at], self.films.left[at]
        marked = against(self.claims, presence, left, self.kept)
        evidence = np.where(sided, side * left, sign * presence)
        ratio = np.where(sided, side * self.left[at], sign * self.there[at])
        return np.column_stack([evidence, marked, -ratio])

    def _dealt(self) -> Floats:
        """How often each claim is marked where its film has the report of another patient, [n]."""
        rng, film = np.random.default_rng(0), self.claims[:, 0]
        found = np.zeros(len(film))
        for _ in range(DEALS):
            other = rng.permutation(len(self.films))[film]
            found += (self.patients[other] != self.patients[film]) * self._against(other)[:, 1]
        return found / DEALS

    def _whole_reports(self) -> tuple[Rows, Floats]:
        """Reports as a whole beside films of others: claims [m, 5], and [m, 4] as of claims."""
        films = self.films
        home = films.beside == np.arange(len(films))[:, None]
        asked = np.isfinite(films.fit[home])
        if (asked & self.own).sum() < FEWEST:
            return np.empty((0, 5), dtype=np.int64), np.empty((0, 4))
        others = np.isfinite(films.fit) & ~home
        stance = np.array(
            [[(f in r.affirmed) - float(f in r.absent) for f in films.findings] for r in self.said]
        )
        agreed = np.einsum("if,icf->ic", stance, self.there[films.beside])
        columns = np.stack([np.nan_to_num(films.fit), agreed], axis=-1)
        theirs, mine = others & self.own[:, None], home & (self.own & asked)[:, None]
        sample = np.concatenate([columns[theirs], columns[mine]])
        ratio = log_ratios(
            columns.reshape(-1, 2), sample, np.arange(len(sample)) < theirs.sum()
        ).reshape(home.shape)
        (least,) = lower_quantiles(-ratio[mine], 1)
        beyond = -ratio < (-np.inf if least is None else least)
        dealt = (beyond & others).sum(axis=1) / np.maximum(others.sum(axis=1), 1)
        tests = np.column_stack([-ratio[home], beyond[home], ratio[home], dealt])
        rows = np.flatnonzero(asked)
        claims = np.tile([0, -1, EXCHANGED, 0, UNSAID], (len(rows), 1))
        claims[:, 0] = rows
        return claims, tests[rows]

    def disagreements(self) -> tuple[list[Disagreement], list[Asked]]:
        whole, of_whole = self._whole_reports()
        claims = np.concatenate([self.claims, whole])
        own = np.column_stack([self._against(self.claims[:, 0]), self._dealt()])
        evidence, marked, ratio, dealt = np.concatenate([own, of_whole]).T
        film, finding, kind, _, sentence = claims.T
        names, free = (*self.films.findings, ""), ~self.own[film]
        probability, q = np.zeros(len(film)), np.ones(len(film))
        asked: list[Asked] = []
        for one in np.unique(kind).tolist():
            for at in np.unique(finding[kind == one]).tolist():
                rows = (kind == one) & (finding == at)
                films = np.bincount(film[rows], dealt[rows], len(self.films)).astype(np.float64)
                asked.append(Asked(KINDS[one], names[at], int(rows.sum()), films))
                for some in (rows & (sentence == UNSAID), rows & (sentence != UNSAID)):
                    probability[some] = posteriors(ratio[some], free[some])
            list_of_kind = (kind == one) & (marked > 0)
            q[list_of_kind] = q_values(probability[list_of_kind])
        found = [
            Disagreement(
                self.films.images[film[row]], KINDS[kind[row]], names[finding[row]],
                None if sentence[row] == UNSAID else int(sentence[row]),
                float(evidence[row]), float(probability[row]), float(q[row]),
                not free[row], KINDS[kind[row]],
            )
            for row in np.flatnonzero(marked).tolist()
        ]  # fmt: skip
        return found, asked

    def stale(self, one: Disagreement, reports: Reports, before: Mapping[str, str]) -> Disagreement:
        """The same, stale where the report repeats one that was right of the film before."""
        if one.kind not in (KINDS[MISSED], KINDS[NOT_THERE]):
            return one
        last = before.get(one.image.study_id)
        while last is not None and last not in self.rows:
            last = before.get(last)
        if last is None:
            return one
        said, old = reports[one.image.study_id], set(reports[last])
        repeated = sum(sentence in old for sentence in said) >= REPEATED * len(said)
        repeated &= one.sentence is None or said[one.sentence] in old
        sign = -1.0 if one.kind == KINDS[MISSED] else 1.0
        agreed = sign * self.there[self.rows[last], self.films.findings.index(one.finding)]
        return replace(one, kind=KINDS[STALE]) if repeated and (agreed > 0).all() else one
