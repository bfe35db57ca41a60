"""The data-check report: what a data set holds, and what is wrong with it."""

from cxrtext.datasets.checking.check import check_data
from cxrtext.datasets.checking.problems import Kind, Problem, Severity
from cxrtext.datasets.checking.read_images import CheckOptions
from cxrtext.datasets.checking.report import CheckReport
from cxrtext.datasets.checking.words import verdict
from cxrtext.datasets.checking.write import check_ending, write_check

__all__ = [
    "CheckOptions",
    "CheckReport",
    "Kind",
    "Problem",
    "Severity",
    "check_data",
    "check_ending",
    "verdict",
    "write_check",
]
