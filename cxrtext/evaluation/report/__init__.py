"""Write an evaluation as files for people: ``report.html``, ``results.csv`` and others."""

from cxrtext.evaluation.report.write import ReportOptions, write_report

__all__ = ["ReportOptions", "write_report"]
