"""The layouts that an import recognizes, tried in order, the surest first."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from cxrtext.datasets.admission.public import noted_layout
from cxrtext.datasets.importing.formats.challenges import open_rsna, open_siim
from cxrtext.datasets.importing.formats.chexpert import open_chexpert
from cxrtext.datasets.importing.formats.dicom import open_dicom
from cxrtext.datasets.importing.formats.generic import open_generic, open_reports_alone
from cxrtext.datasets.importing.formats.mimic import open_mimic
from cxrtext.datasets.importing.formats.nih import open_chestxdet10, open_nih
from cxrtext.datasets.importing.formats.openi import open_openi
from cxrtext.datasets.importing.formats.padchest import open_padchest, open_padchest_gr
from cxrtext.datasets.importing.formats.vindr import open_vindr
from cxrtext.datasets.importing.reading import Reading
from cxrtext.errors import ConfigError, DataError

Opener = Callable[[Path, Path], Reading | None]
"""Opens the set in a folder, to be imported into another; None where the folder holds none."""

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
    "reports": (open_reports_alone, "reports alone (one table, or text files)"),
}
"""Every layout: what opens it, and how it is recognized."""


def open_layout(folder: Path, asked: str, out: Path) -> tuple[Path, str, Reading]:
    """Open a set in the layout that the user names, or that is recognized.

    ``folder`` may be a table, whose folder the images lie in, and ``out`` may lie in the set or be
    its folder.  Returns the folder with all links followed, the layout, and the set.
    """
    if asked not in ("auto", *LAYOUTS):
        names = ", ".join(("auto", *LAYOUTS))
        raise ConfigError(f"--layout '{asked}' is not one of {names}")
    if not folder.exists():
        raise DataError(f"{folder}: no such folder")
    openers: dict[str, Opener] = {name: opener for name, (opener, _) in LAYOUTS.items()}
    root = folder.resolve()
    if folder.is_file():
        openers = {
            "generic": partial(open_generic, table=root),
            "reports": partial(open_reports_alone, table=root),
        }
        root = root.parent
    home = out.resolve()
    # A folder that holds set and import alike has a manifest, and would be taken for another.
    noted = noted_layout(home) if asked == "auto" and root.is_relative_to(home) else ""
    layout = noted if noted in openers else asked
    for name, opener in openers.items():
        if layout in ("auto", name) and (reading := opener(root, home)) is not None:
            return root, name, reading
    if asked != "auto":
        raise DataError(f"{folder}: holds no set of the layout {asked}: {LAYOUTS[asked][1]}")
    raise DataError(
        f"{folder}: holds no DICOM files, no table that names its images and no public set that is "
        "known; give a table with the columns image and study_id, as manifest.csv there or in its "
        "place ('cxrtext import -h' lists the sets)"
    )
