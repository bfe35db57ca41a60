"""An evaluation as files that a person reads: ``report.html`` and ``metrics.json``."""

from cxrtext.evaluation.report.write import ReportOptions, write_report

__all__ = ["ReportOptions", "write_report"]
