"""What the lists of public sets have in common: rows that name an image each, found by its name."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from cxrtext.datasets.importing.folder import existing
from cxrtext.datasets.importing.reading import (
    Columns,
    FoundImage,
    Reading,
    check_ids,
    count_rows,
    frontal_view,
    map_rows,
)


def find_image(
    root: Path, item: str, names: Iterable[str], ids: tuple[str, str], columns: Columns = (),
    known: Mapping[str, str] | None = None, *, views: Iterable[str] = (), **more: Any,
) -> FoundImage:  # fmt: skip
    """The image of a row, whose file is the first of some names that is there (LeftOutError).

    Args:
        ids: Its study and its patient.
        columns: Which of the metadata that are ``known`` the user asked for.
        views: Cells of which the first with an answer names the view.
        more: Other fields of `FoundImage`.
    """
    check_ids(item, *ids)
    view = frontal_view(item, *views)
    name, path = existing(root, item, *names)
    metadata = {column: (known or {})[column] for column in columns}
    return FoundImage(path, name, *ids, **{"view": view, "metadata": metadata, **more})


def read_list(
    table: Path,
    required: Iterable[str],
    make: Callable[[Columns, str, dict[str, str]], FoundImage],
    **more: Any,
) -> Reading:
    """A set whose images are the rows of one table; ``more`` are other fields of `Reading`."""
    return Reading(
        count=partial(count_rows, table),
        images=lambda columns: map_rows(table, required, partial(make, columns)),
        **more,
    )
