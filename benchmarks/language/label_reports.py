"""Labels that `label-reports` reads off Open-i's reports, beside those that people coded.

The rules were written on the reports of the splits train and val; test reports are counted apart.
What is hedged counts as absent.
"""

import argparse
import csv
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from cxrtext.datasets.importing.formats.listed import FINDINGS, split_of
from cxrtext.records import read_labels, read_reports
from cxrtext.text import study_sentences
from cxrtext.text.labelling import Label, covered, label_report


def _denied(pairs: Iterable[tuple[int | None, bool]]) -> str:
    """How many are denied or ruled out, and the share of them that codes call present."""
    present = [coded for value, coded in pairs if value == 0]
    return f"{len(present):7} {sum(present) / max(len(present), 1):6.3f}"


def _agreement(pairs: Iterable[tuple[bool, bool]]) -> str:
    """N, precision, recall and F1 of pairs (read, coded)."""
    times = Counter(pairs)
    both, read, coded = times[True, True], times[True, False], times[False, True]
    precision, recall = both / max(both + read, 1), both / max(both + coded, 1)
    f1 = 2 * both / max(2 * both + read + coded, 1)
    return f"{both + coded:5} {precision:9.3f} {recall:6.3f} {f1:5.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="Open-i as `cxrtext import` writes it")
    parser.add_argument("--sides", type=Path, help="coded sides (study_id, term, side)")
    given = parser.parse_args()
    coded = read_labels(given.data / "labels.csv", tuple(FINDINGS))
    studies = read_reports(given.data / "reports.csv")
    texts = {one.study_id: [s.sentence for s in study_sentences(one)] for one in studies}
    read = {study: label_report(sentences) for study, sentences in texts.items()}
    for name, splits in (("train and val", {"train", "val"}), ("test", {"test"})):
        chosen = [one for one in texts if split_of(one) in splits and one in coded and texts[one]]
        said = [sentence for study in chosen for sentence in texts[study]]
        print(f"\n{name}: {len(chosen)} studies, {covered(said):.1%} of sentences read")
        print(f"{'finding':20} {'n':>5} precision recall    F1  denied  coded")
        for finding in FINDINGS:
            known = [one for one in chosen if coded[one][finding] is not None]
            pairs = [(read[one][finding].value, coded[one][finding] == 1) for one in known]
            found = _agreement((value == 1, present) for value, present in pairs)
            print(f"{finding:20} {found} {_denied(pairs)}")
        if given.sides:
            _sides(given.sides, set(chosen), read)


def _sides(path: Path, chosen: set[str], read: dict[str, dict[str, Label]]) -> None:
    coded: dict[tuple[str, str], set[str]] = {}
    finding_of = {term: name for name, terms in FINDINGS.items() for term in terms}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            finding = finding_of.get(row["term"], "")
            if row["study_id"] in chosen and read[row["study_id"]].get(finding, Label()).value == 1:
                coded.setdefault((row["study_id"], finding), set()).add(row["side"])
    times: Counter[str] = Counter()
    for (study, finding), sides in coded.items():
        true = "both" if len(sides) > 1 or "bilateral" in sides else min(sides)
        side = read[study][finding].side
        times["right" if side == true else "none" if not side else "wrong"] += 1
    print(f"sides of {sum(times.values())} coded and affirmed findings:", dict(times))


if __name__ == "__main__":
    main()
