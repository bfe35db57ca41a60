"""The layouts that an import recognizes, in the order in which they are tried."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path, PurePosixPath

from cxrtext.datasets.importing.folder import Files, inside
from cxrtext.datasets.importing.formats.challenges import open_rsna, open_siim, open_vindr
from cxrtext.datasets.importing.formats.dicom import open_dicom
from cxrtext.datasets.importing.formats.generic import (
    by_image,
    labels_of,
    open_generic,
    open_pictures,
    open_reports_alone,
)
from cxrtext.datasets.importing.formats.listed import open_chexpert, open_mimic, open_openi
from cxrtext.datasets.importing.formats.nih import open_chestxdet10, open_nih
from cxrtext.datasets.importing.formats.padchest import open_padchest, open_padchest_gr
from cxrtext.datasets.importing.reading import ImportOptions, Names, Reading, columns_of, label_rows
from cxrtext.datasets.importing.reports.sources import as_reports
from cxrtext.errors import ConfigError, DataError
from cxrtext.records.columns import NO_COLUMNS
from cxrtext.records.report_sources import is_table
from cxrtext.records.rows import TableRows

Opener = Callable[[Path, Path], Reading | None]
"""Opens the set in a folder, given the folder to import into; None if there is no such set."""

LAYOUTS: dict[str, tuple[Opener, str]] = {
    "mimic": (open_mimic, "MIMIC-CXR or MIMIC-CXR-JPG (mimic-cxr-2.0.0-metadata.csv)"),
    "chexpert": (open_chexpert, "CheXpert (train.csv, valid.csv or chexpert_5x200.csv with Path)"),
    "nih": (open_nih, "NIH ChestX-ray14 (Data_Entry_2017.csv)"),
    "rsna": (open_rsna, "RSNA pneumonia (stage_2_train_labels.csv)"),
    "siim": (open_siim, "SIIM-ACR pneumothorax (train-rle.csv)"),
    "vindr": (open_vindr, "VinDr-CXR (image_labels_train.csv or image_labels_test.csv)"),
    "chestxdet10": (open_chestxdet10, "ChestX-Det10 (train.json or test.json with syms and boxes)"),
    "padchest-gr": (open_padchest_gr, "PadChest-GR (grounded_reports_….json)"),
    "padchest": (open_padchest, "PadChest (PADCHEST_chest_x_ray_images_labels_….csv)"),
    "openi": (open_openi, "Open-i (indiana_projections.csv)"),
    "generic": (open_generic, "manifest.csv, or one table with image and study_id"),
    "dicom": (open_dicom, "DICOM files anywhere in the folder"),
    "pictures": (lambda *_: None, "PNG or JPEG files, and a table that names them (--reports)"),
    "reports": (open_reports_alone, "reports alone (one table, or text files)"),
}
"""What opens each layout, and how it is recognized."""


def open_layout(folder: Path, options: ImportOptions, out: Path) -> tuple[Path, str, Reading]:
    """Open a set in the layout that the user names or that is recognized.

    ``folder`` may be a table in the folder of its images, and ``out`` may lie inside the set.
    Tables that the user names replace the set's reports and labels.  Returns the folder with all
    links followed, the layout and the set.
    """
    asked = options.layout
    if asked not in ("auto", *LAYOUTS):
        near = get_close_matches(asked, LAYOUTS, 1)
        hint = f"; --layout {near[0]}?" if near else ""
        raise ConfigError(f"--layout '{asked}' is not one that 'cxrtext import -h' lists{hint}")
    if not folder.exists():
        raise DataError(f"{folder}: no such folder")
    root, home = folder.resolve(), out.resolve()
    alone = folder.is_file()
    table, root = (root, root.parent) if alone else (options.reports, root)
    names, files = NO_COLUMNS, Files(root, home, options.ids)
    if table is not None and is_table(table):
        opened = TableRows.known(table, options.columns, text=not alone)
        names = opened.names
        if "image" in names:
            cells = (row[1]["image"] for row in opened.read(["image"]) if isinstance(row, tuple))
            files.bare = not any("/" in cell.replace("\\", "/") for cell in cells)
    elif options.columns:
        raise ConfigError("--columns needs a table; give one with --reports")
    openers: dict[str, Opener] = {name: opener for name, (opener, _) in LAYOUTS.items()}
    table_of = partial(open_generic, table=table, names=names, files=files)
    openers["pictures"] = (
        partial(table_of, pictures=True)
        if names
        else partial(open_pictures, files=files, texts=table)
    )
    if alone:
        openers = {
            "generic": table_of,
            "reports": partial(open_reports_alone, table=table, names=names),
        }
    for name, opener in openers.items():
        if asked in ("auto", name) and (reading := opener(root, home)) is not None:
            if name not in ("generic", "pictures"):  # other layouts know the patients themselves
                sure = ("patient_id", options.columns.get("patient_id"))
                known = {k: h for k, h in names.items() if k != "patient_id" or h in sure}
                rest = [k for k in names if k not in known or k in ("age", "sex", "view")]
                ignored = ", ".join(f"{k} = {names[k]}" for k in rest)
                names, notes = known, (f"not read, but from the films: {ignored}",) * bool(rest)
                reading = replace(reading, notes=(*reading.notes, *notes))
            return root, name, _with_tables(reading, options, names, files)
    if asked != "auto":
        raise DataError(f"{folder}: no set with the layout {asked}: {LAYOUTS[asked][1]}")
    endings = Counter(
        "that lead out of it" if inside(root, name) is None else PurePosixPath(name).suffix.lower()
        for name in files.names
    )
    held = ", ".join(f"{count} {ending or 'other'}" for ending, count in endings.most_common(4))
    tables = [root / name for name in files.names if name.lower().endswith(".csv")]
    advice = f"name the table of its images and reports: --reports {(*tables, 'TABLE')[0]}"
    if not files.pictures:
        advice = "give a folder of DICOM, PNG or JPEG files"
    raise DataError(f"{folder}: no known set; files: {held or 'none'}; {advice}")


def _with_tables(reading: Reading, options: ImportOptions, names: Names, files: Files) -> Reading:
    """The set with the reports and labels from the user's tables, if any."""
    reading = replace(reading, names=names)
    if (path := options.reports) is not None:
        named = reading.by_image or path.is_dir() or by_image(path, names)
        reading = replace(reading, reports=partial(as_reports, path, names, files), by_image=named)
    if (path := options.labels) is not None:
        if not is_table(path):
            raise DataError(f"{path}: labels are in a .csv, .xlsx or .parquet table")
        headers = TableRows(path).headers
        given = {name: header for name, header in options.columns.items() if header in headers}
        called = TableRows.known(path, given, text=False).names
        findings = labels_of(columns_of(path, called))
        rows = partial(label_rows, path, findings, called, files.study)
        named = reading.by_image or by_image(path, called)
        reading = replace(reading, findings=findings, label_rows=rows, by_image=named)
    tables = [path for path in (options.reports, path) if path is not None and is_table(path)]
    read = [(one.name, TableRows(one, given=tuple(names.values()))) for one in tables]
    notes = [f"{name}: read as {table.legacy}" for name, table in read if table.legacy]
    for name, (sheet, *others) in ((name, table.sheets) for name, table in read if table.sheets):
        also = ", ".join(f"'{one}'" for one in others)
        notes += [f"{name}: sheet '{sheet}' is read, and not {also}"] * bool(others)
    return replace(reading, notes=(*reading.notes, *notes, *files.said))
