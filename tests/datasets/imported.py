"""What an import by Python made of a folder."""

from pathlib import Path
from typing import Any

from cxrtext.datasets.importing import ImportOptions, ImportSummary, import_folder
from cxrtext.records import Box, iter_boxes
from tests.datasets.written import load_table

Imported = tuple[ImportSummary, list[dict[str, str]], dict[str, str]]
"""What was counted, the manifest, and why items were left out."""


def import_beside(folder: Path, **options: Any) -> Imported:
    out = folder.parent / "out"
    summary = import_folder(folder, out, ImportOptions(**options))
    paths = out / "manifest.csv", out / "import.rejected.csv"
    rows, left = (load_table(path) if path.exists() else [] for path in paths)
    return summary, rows, {row["item"]: row["reason"] for row in left}


def drawn_boxes(path: Path) -> list[Box]:
    """The boxes of a file, but for what has none."""
    return [one for one in iter_boxes(path) if isinstance(one, Box)]
