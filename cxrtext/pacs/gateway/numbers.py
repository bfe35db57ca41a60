"""Metrics of a gateway for Prometheus: its parts, its inbox, and the results it sent."""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import prometheus_client as prometheus

from cxrtext.errors import CxrTextError
from cxrtext.pacs.inbox.status import InboxStatus, read_status
from cxrtext.pacs.results.folder import FILE, ResultsFolder

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def gauge(
    registry: prometheus.CollectorRegistry, name: str, text: str, *labels: str
) -> prometheus.Gauge:
    return prometheus.Gauge(f"cxrtext_{name}", text, labels, registry=registry)


class GatewayMetrics:
    def __init__(self) -> None:
        self.registry = prometheus.CollectorRegistry()
        own = partial(gauge, self.registry)
        self.up = own("part_up", "1 while the part runs.", "part")
        self.restarts = own("part_restarts", "Since the gateway was started.", "part")
        self.waiting = own(
            "inbox_waiting", "Entries of the inbox that wait, are held, or failed.", "state"
        )
        self.readable = own(
            "readable", "Whether a folder can be read; what was seen last is told if not.", "folder"
        )
        self.oldest = own("inbox_oldest_seconds", "How long the first that waits has waited.")
        self.received = own("inbox_received", "Entries since the inbox was made.")
        self.entries = own(
            "inbox_entries", "Entries done with since the inbox was made.", "what", "outcome"
        )
        self.reports = own("inbox_reports_without_study", "Reports whose study is not here.")
        self.undecided = own("inbox_reports_held", "Reports that wait for somebody.")
        self.sent = own("results_sent", "Results that a peer has.", "peer", "kind")

    def look(
        self,
        inbox: Path,
        results: Path,
        parts: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
    ) -> None:
        """Read the folders, and set the state of the parts as the gateway gives it."""
        for name, part in parts.items():
            self.up.labels(name).set(int(part["up"]))
            self.restarts.labels(name).set(part["restarts"])
        with self._reading("inbox"):
            self._describe(read_status(inbox))
        if (results / FILE).is_file():
            with self._reading("results"):
                sent = ResultsFolder(results, create=False).tally()
                for (peer, kind), count in sent.items():
                    self.sent.labels(peer, kind).set(count)

    @contextmanager
    def _reading(self, folder: str) -> Iterator[None]:
        """Note whether a folder can be read; without this, old numbers would look current."""
        try:
            yield
            self.readable.labels(folder).set(1)
        except (CxrTextError, OSError, sqlite3.Error):
            self.readable.labels(folder).set(0)

    def _describe(self, status: InboxStatus) -> None:
        self.waiting.labels("waiting").set(sum(status.waiting.values()))
        self.waiting.labels("held").set(status.held)
        self.waiting.labels("failed").set(status.failed)
        self.oldest.set(status.oldest_s)
        self.received.set(status.received)
        self.reports.set(status.unjoined)
        self.undecided.set(status.undecided)
        for (what, outcome), count in status.outcomes.items():
            self.entries.labels(what, outcome).set(count)

    def page(self) -> bytes:
        return prometheus.generate_latest(self.registry)
