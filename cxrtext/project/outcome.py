"""What a training on an archive can achieve, told before it starts.

A model is measured on held-out films.  If few of them have a finding, even a good AUC cannot be
told from chance, and with few films to train on there is no good AUC.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import log2

from cxrtext.metrics.intervals import quantile

REAL_FILMS = ((300, 0.69), (2_006, 0.77))
"""Training studies, and the mean AUC they gave on real films: ten findings, starting from an
encoder of photographs (docs/results/films.md)."""
SHOWN = 8
"""How many findings are shown, the most frequent first."""


@dataclass(frozen=True, slots=True)
class HeldOut:
    """The films that a model will be measured on, and how many of them have each finding.

    These are estimates before the import; there are no findings if neither labels nor reports name
    any.
    """

    films: int
    present: Mapping[str, int]

    def frequent(self) -> list[tuple[str, int]]:
        """The findings that some films have and others do not, most frequent first."""
        varied = [(name, count) for name, count in self.present.items() if 0 < count < self.films]
        return sorted(varied, key=lambda finding: -finding[1])


NOTHING = HeldOut(0, {})


def least_auc(present: int, absent: int) -> float:
    """The lowest AUC that this many films with a finding and without it can tell from chance.

    At 95 %, by the variance of the rank sum if there is nothing to find.

    >>> round(least_auc(20, 180), 3)
    0.634

    Source: Mann and Whitney 1947.
    """
    error = ((present + absent + 1) / (12 * present * absent)) ** 0.5
    return float(0.5 + quantile(0.95) * error)


def usual_auc(studies: int) -> float:
    """The mean AUC that this many training studies gave on real films.

    Linear in their logarithm between the measured points; beyond them, that of the nearest one.
    """
    if studies <= REAL_FILMS[0][0]:
        return REAL_FILMS[0][1]
    for (few, low), (many, high) in pairwise(REAL_FILMS):
        if studies <= many:
            return low + log2(studies / few) / log2(many / few) * (high - low)
    return REAL_FILMS[-1][1]


def outcome_rows(held_out: HeldOut) -> list[tuple[str, str, str]]:
    """A table: finding, films with it, and the AUC above which it is told from chance."""
    rows = []
    for name, count in held_out.frequent()[:SHOWN]:
        auc = least_auc(count, held_out.films - count)
        rows.append((name, f"{count:,}", f"{auc:.2f}" if auc < 1 else "never"))
    header = "finding", f"of {held_out.films:,} held out", "told from chance above AUC"
    return [header, *rows] if rows else []


def advice(held_out: HeldOut, training: int, *, given: bool) -> list[str]:
    """What to expect from ``training`` studies, and what to do if that is little.

    ``given`` says whether the image encoder comes from elsewhere.
    """
    from cxrtext.evaluation.how_good import FEWEST, FOUND

    frequent, films = held_out.frequent(), held_out.films
    enough = [name for name, count in frequent if min(count, films - count) >= FEWEST]
    usual = usual_auc(training)
    lines = [
        f"a finding counts with {FEWEST} films or more: {', '.join(enough) or 'none has so many'}",
        f"on real films about {training:,} training studies gave a mean AUC of {usual:.2f}, from "
        "an encoder of photographs, trained further (docs/results/films.md)",
    ]
    if not enough or usual < FOUND:
        begin = "" if given else ", begin from an encoder of chest films (--encoder)"
        lines.append(
            f"little will be found: add films{begin}, or take a finished model, which needs no "
            "training (--model)"
        )
    return lines
