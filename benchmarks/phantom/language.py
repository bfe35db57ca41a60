"""The language of phantom reports beside that of real ones: how common classes and sentences are.

Draws studies without their images, and prints and plots how often classes and sentences occur, by
rank.  ``--reports`` names a table of real reports to compare with.
"""

import argparse
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from cxrtext.phantom.studies import draw_studies
from cxrtext.records import read_reports
from cxrtext.text import study_sentences

TOP = 100


def phantoms(studies: int, seed: int) -> tuple[Counter[str], Counter[str]]:
    """Counts of the classes and of the sentences of a set."""
    classes: Counter[str] = Counter()
    sentences: Counter[str] = Counter()
    for study in draw_studies(studies, seed):
        for _, statements in study.report.sections():
            classes.update(statement.claim.name for statement in statements)
            sentences.update(statement.text for statement in statements)
    return classes, sentences


def real_sentences(path: Path) -> Counter[str]:
    """Counts of the sentences of a table of reports."""
    return Counter(
        sentence.sentence for study in read_reports(path) for sentence in study_sentences(study)
    )


def summarised(name: str, counts: Counter[str]) -> str:
    """One line: how many, how many different, share of the commonest, share of singletons."""
    total, once = counts.total(), sum(count == 1 for count in counts.values())
    top = sum(count for _, count in counts.most_common(TOP))
    return (
        f"{name:28} {total:8,} in all {len(counts):7,} different ({len(counts) / total:.2f})   "
        f"top {TOP}: {top / total:.3f}   occurring once: {once / total:.3f} of all, "
        f"{once / len(counts):.3f} of the different"
    )


def plot(path: Path, tables: Iterable[tuple[str, Counter[str]]]) -> None:
    """Rank against share, both logarithmic, a line a table."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 5), layout="constrained")
    for name, counts in tables:
        shares = [count / counts.total() for _, count in counts.most_common()]
        axes.loglog(range(1, len(shares) + 1), shares, label=name)
    axes.set_xlabel("rank")
    axes.set_ylabel("share of the sentences")
    axes.legend()
    figure.savefig(path, dpi=120)


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, nargs="+", default=[2500, 10000])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--reports", type=Path, help="a table of real reports")
    parser.add_argument("--plot", type=Path, help="a PNG or SVG file to write")
    parser.add_argument("--examples", type=int, default=0, help="commonest sentences to print")
    options = parser.parse_args()
    tables: list[tuple[str, Counter[str]]] = []
    for studies in options.studies:
        classes, sentences = phantoms(studies, options.seed)
        tables.append((f"phantom classes, {studies}", classes))
        tables.append((f"phantom sentences, {studies}", sentences))
        for text, count in sentences.most_common(options.examples):
            print(f"{count:6} {text}")
    if options.reports:
        tables.append(("real sentences", real_sentences(options.reports)))
    for name, counts in tables:
        print(summarised(name, counts))
    if options.plot:
        plot(options.plot, tables)


if __name__ == "__main__":
    main()
