"""The data-check report: what a data set holds, and what is wrong with it."""

from cxrtext.datasets.checking.check import check_data
from cxrtext.datasets.checking.pages import check_ending, write_check
from cxrtext.datasets.checking.problems import CheckReport, Kind, Problem, Severity, verdict

__all__ = [
    "CheckReport",
    "Kind",
    "Problem",
    "Severity",
    "check_data",
    "check_ending",
    "verdict",
    "write_check",
]
