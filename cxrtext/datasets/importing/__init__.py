"""The files of hospitals and of public sets, turned into data folders."""

from cxrtext.datasets.importing.layouts import LAYOUTS
from cxrtext.datasets.importing.options import ImportOptions
from cxrtext.datasets.importing.run import import_folder
from cxrtext.datasets.importing.summary import ImportSummary

__all__ = ["LAYOUTS", "ImportOptions", "ImportSummary", "import_folder"]
