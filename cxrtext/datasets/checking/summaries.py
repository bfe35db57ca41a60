"""Small tables of what a data set holds."""

from collections import Counter
from collections.abc import Callable, Sequence

from cxrtext.datasets.checking.image_facts import ImageFacts
from cxrtext.datasets.checking.listing import ListedImage, Listing
from cxrtext.datasets.checking.problems import printable
from cxrtext.datasets.checking.report import FactTable
from cxrtext.records.manifest import SPLITS

_MOST_ROWS = 20


def _counted(title: str, what: str, values: Counter[str]) -> FactTable:
    """Values by how often they occur; the rare ones of many are put together."""
    rows = [(printable(value), str(n)) for value, n in values.most_common(_MOST_ROWS)]
    rest = values.total() - sum(n for _, n in values.most_common(_MOST_ROWS))
    if rest:
        rows.append((f"{len(values) - _MOST_ROWS} others", str(rest)))
    return FactTable(title, (what, "images"), rows)


def image_tables(
    images: Sequence[ListedImage], facts: Sequence[ImageFacts | None]
) -> list[FactTable]:
    """Return splits, views, formats, depths and sizes, each with its number of images."""
    readable = [fact for fact in facts if fact is not None and not fact.fault]
    views = Counter(
        image.view or (fact.view if fact else "") or "unknown"
        for image, fact in zip(images, facts, strict=True)
    )
    described: tuple[tuple[str, str, Callable[[ImageFacts], str]], ...] = (
        ("Formats", "format", lambda fact: fact.format),
        ("Depth and colour", "encoding", lambda fact: f"{fact.format}: {fact.encoding}"),
        ("Most frequent sizes", "width × height", lambda fact: f"{fact.width} × {fact.height}"),
    )
    faults = Counter(fact.fault for fact in facts if fact is not None and fact.fault)
    return [
        _splits_table(images),
        _counted("Views", "view", views),
        *([_counted("Why images cannot be read", "reason", faults)] if faults else []),
        *(_counted(title, what, Counter(map(of, readable))) for title, what, of in described),
    ]


def _splits_table(images: Sequence[ListedImage]) -> FactTable:
    rows = []
    for split in SPLITS:
        members = [image for image in images if image.split == split]
        studies = {image.study for image in members}
        patients = {image.patient for image in members}
        rows.append((split, str(len(members)), str(len(studies)), str(len(patients))))
    return FactTable("Splits", ("split", "images", "studies", "patients"), rows)


def metadata_table(listing: Listing) -> FactTable:
    """Return how many cells are filled in each column of the manifest."""
    rows = [
        (printable(name), str(listing.rows - listing.blanks[name]), str(listing.blanks[name]))
        for name in listing.columns
        if name not in ("report", "findings", "impression", "indication", "comparison")
    ]
    return FactTable("Columns of the manifest", ("column", "filled", "blank"), rows)
