"""Taking an archive's radiographs out of a PACS, resumed wherever it was stopped."""

from cxrtext.pacs.pull.pull import PullOptions, PullSummary, pull_archive

__all__ = ["PullOptions", "PullSummary", "pull_archive"]
