"""Turns the files of hospitals and of public sets into data folders."""

from cxrtext.datasets.importing.formats import LAYOUTS
from cxrtext.datasets.importing.importer import ImportSummary, import_folder
from cxrtext.datasets.importing.reading import ImportOptions

__all__ = ["LAYOUTS", "ImportOptions", "ImportSummary", "import_folder"]
