"""The layouts that an import recognizes, tried the surest first."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from cxrtext.datasets.importing.folder import noted_layout
from cxrtext.datasets.importing.formats.chexpert import open_chexpert
from cxrtext.datasets.importing.formats.dicom import open_dicom
from cxrtext.datasets.importing.formats.generic import open_generic, open_reports
from cxrtext.datasets.importing.formats.mimic import open_mimic
from cxrtext.datasets.importing.formats.nih import open_nih
from cxrtext.datasets.importing.formats.openi import open_openi
from cxrtext.datasets.importing.reading import ImportOptions, Reading
from cxrtext.errors import ConfigError, DataError

Opener = Callable[[Path, ImportOptions, Path], Reading | None]

LAYOUTS: dict[str, tuple[Opener, str]] = {
    "mimic": (open_mimic, "MIMIC-CXR or MIMIC-CXR-JPG (mimic-cxr-2.0.0-metadata.csv)"),
    "chexpert": (open_chexpert, "CheXpert (train.csv or valid.csv with a column Path)"),
    "nih": (open_nih, "NIH ChestX-ray14 (Data_Entry_2017.csv)"),
    "openi": (open_openi, "Open-i (indiana_projections.csv)"),
    "generic": (open_generic, "manifest.csv, or one table with image and study_id"),
    "dicom": (open_dicom, "DICOM files anywhere in the folder"),
    "reports": (open_reports, "reports alone (one table, or text files)"),
}
"""Every layout: what opens it, and how it is told."""


def _recognized() -> str:
    return "; ".join(f"{name}: {told}" for name, (_, told) in LAYOUTS.items())


def open_layout(folder: Path, options: ImportOptions, out: Path) -> tuple[Path, Reading]:
    """Open a set in the layout that the user names, or that is recognized.

    Args:
        folder: The folder; or a table, whose folder the images lie in.
        out: The folder to be written, which may lie in the set or be its folder.

    Returns:
        The folder with all links followed, and the set.
    """
    if options.layout not in ("auto", *LAYOUTS):
        names = ", ".join(("auto", *LAYOUTS))
        raise ConfigError(f"--layout '{options.layout}' is not one of {names}")
    if not folder.exists():
        raise DataError(f"{folder}: no such folder")
    table = folder.resolve() if folder.is_file() else None
    root = folder.resolve() if table is None else table.parent
    openers: dict[str, Opener] = {name: opener for name, (opener, _) in LAYOUTS.items()}
    if table is not None:
        openers = {
            "generic": partial(open_generic, table=table),
            "reports": partial(open_reports, table=table),
        }
    home = out.resolve()
    # A folder that holds set and import alike has a manifest, and would be taken for another.
    layout = noted_layout(home) if root.is_relative_to(home) else ""
    layout = layout if options.layout == "auto" and layout in openers else options.layout
    for name, opener in openers.items():
        if layout in ("auto", name):
            reading = opener(root, options, home)
            if reading is not None:
                return root, reading
    if options.layout != "auto":
        told = LAYOUTS[options.layout][1]
        raise DataError(f"{folder}: holds no set of the layout {options.layout}: {told}")
    raise DataError(f"{folder}: no layout is recognized in it; these are: {_recognized()}")
