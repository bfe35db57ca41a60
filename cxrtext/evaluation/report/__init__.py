"""An evaluation as files that a person reads: ``report.html``, ``results.csv`` and the others."""

from cxrtext.evaluation.report.write import ReportOptions, write_report

__all__ = ["ReportOptions", "write_report"]
