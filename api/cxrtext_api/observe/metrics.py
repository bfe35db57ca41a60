"""What an operator measures: numbers for Prometheus, of a registry of their own an application.

Labels are names of this program (routes, stages, reasons), never what a caller sent.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import prometheus_client as prometheus

from cxrtext.errors import CxrTextError
from cxrtext.index.store.replica import Publication
from cxrtext.pacs.inbox.status import InboxStatus, read_status
from cxrtext.pacs.results.folder import FILE, ResultsFolder

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
BATCHES = (1, 2, 4, 8, 16, 32, 64)


def _gauge(
    registry: prometheus.CollectorRegistry, name: str, text: str, *labels: str
) -> prometheus.Gauge:
    return prometheus.Gauge(f"cxrtext_{name}", text, labels, registry=registry)


class GatewayMetrics:
    """Numbers of a gateway: of its parts, its inbox, and the results that were sent."""

    def __init__(self, registry: prometheus.CollectorRegistry | None = None) -> None:
        self.registry = registry or prometheus.CollectorRegistry()
        gauge = partial(_gauge, self.registry)
        self.up = gauge("part_up", "1 while the part runs.", "part")
        self.restarts = gauge("part_restarts", "Since the gateway was started.", "part")
        self.waiting = gauge(
            "inbox_waiting", "Entries of the inbox that wait, are held, or failed.", "state"
        )
        self.readable = gauge(
            "readable", "Whether a folder can be read; what was seen last is told if not.", "folder"
        )
        self.oldest = gauge("inbox_oldest_seconds", "How long the first that waits has waited.")
        self.received = gauge("inbox_received", "Entries since the inbox was made.")
        self.entries = gauge(
            "inbox_entries", "Entries done with since the inbox was made.", "what", "outcome"
        )
        self.reports = gauge("inbox_reports_without_study", "Reports whose study is not here.")
        self.sent = gauge("results_sent", "Results that a peer has.", "peer", "kind")
        self.open = gauge(
            "listener_associations", "Associations or connections that are open.", "kind"
        )
        self.requests = gauge(
            "listener_requests", "Since the listener was started.", "kind", "outcome"
        )

    def look(
        self,
        inbox: Path | None,
        results: Path | None,
        parts: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
    ) -> None:
        """Look at the folders, and take over how the parts do, as the supervisor says it."""
        for name, part in parts.items():
            self.up.labels(name).set(int(part["up"]))
            self.restarts.labels(name).set(part["restarts"])
        if inbox is not None:
            with self._reading("inbox"):
                self._describe(read_status(inbox))
        if results is not None and (results / FILE).is_file():
            with self._reading("results"):
                sent = ResultsFolder(results, create=False, compare=False).tally()
                for (peer, kind), count in sent.items():
                    self.sent.labels(peer, kind).set(count)

    @contextmanager
    def _reading(self, folder: str) -> Iterator[None]:
        """Note whether a folder can be read: what was seen last looks as if all were well."""
        try:
            yield
            self.readable.labels(folder).set(1)
        except (CxrTextError, OSError, sqlite3.Error):
            self.readable.labels(folder).set(0)

    def _describe(self, found: InboxStatus) -> None:
        waiting = sum(found.waiting.values())
        states = {"waiting": waiting, "held": found.held, "failed": found.failed}
        for state, count in states.items():
            self.waiting.labels(state).set(count)
        self.oldest.set(found.oldest_s)
        self.received.set(found.received)
        self.reports.set(found.unjoined)
        for (what, outcome), count in found.outcomes.items():
            self.entries.labels(what, outcome).set(count)
        for kind, one in found.listeners.items():
            self.open.labels(kind).set(one.open)
            counts = {"accepted": one.accepted, "refused": one.refused, "cut": one.cut}
            for outcome, count in counts.items():
                self.requests.labels(kind, outcome).set(count)

    def page(self) -> bytes:
        return prometheus.generate_latest(self.registry)


class Metrics:
    def __init__(self) -> None:
        self.registry = prometheus.CollectorRegistry()
        prometheus.ProcessCollector(registry=self.registry)
        prometheus.PlatformCollector(registry=self.registry)
        prometheus.GCCollector(registry=self.registry)
        self.requests = self._counter("http_requests", "Answers.", "method", "route", "status")
        self.seconds = self._histogram("http_request_seconds", "Time to answer.", SECONDS, "route")
        self.stages = self._histogram("stage_seconds", "Time of a stage.", SECONDS, "stage")
        self.batches = self._histogram("batch_size", "Questions a batch.", BATCHES, "stage")
        self.queue = self._gauge("queue_length", "Questions that wait.", "queue")
        self.under_way = self._gauge("requests_under_way", "Requests inside.")
        self.errors = self._counter("errors", "Failures of the server.", "kind")
        self.rejected = self._counter("rejected_requests", "Requests turned away.", "reason")
        self.images = self._gauge("index_images", "Indexed images.")
        self.sentences = self._gauge("index_sentences", "Indexed sentences.")
        self.ready = self._gauge("ready", "1 when questions are answered.")
        self.writes = self._gauge("writes", "0 when nothing can be kept on the disk.")
        self.model = self._gauge(
            "model_info", "1; the labels name the model.", "fingerprint", "version"
        )

        self.publications = self._gauge(
            "publication_seconds", "When it was published, in seconds since 1970.", "publication"
        )

        self.gateway = GatewayMetrics(self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> prometheus.Counter:
        return prometheus.Counter(f"cxrtext_{name}", text, labels, registry=self.registry)

    def _histogram(
        self, name: str, text: str, buckets: tuple[float, ...], *labels: str
    ) -> prometheus.Histogram:
        return prometheus.Histogram(
            f"cxrtext_{name}", text, labels, buckets=buckets, registry=self.registry
        )

    def _gauge(self, name: str, text: str, *labels: str) -> prometheus.Gauge:
        return _gauge(self.registry, name, text, *labels)

    def observe_batch(self, stage: str, size: int) -> None:
        self.batches.labels(stage).observe(size)

    def describe_model(self, about: dict[str, Any], version: str) -> None:
        """Note what is loaded, as :meth:`cxrtext.service.Service.describe` says it."""
        self.model.clear()  # an index may have turned to another model
        self.model.labels(str(about.get("fingerprint", "")), version).set(1)
        self.images.set(about.get("images", 0))
        self.sentences.set(about.get("sentences", 0))

    def describe_publications(self, found: Sequence[Publication]) -> None:
        self.publications.clear()
        for one in found:
            time = datetime.fromisoformat(one.published).timestamp()
            self.publications.labels(one.digest).set(time)

    def page(self) -> bytes:
        return prometheus.generate_latest(self.registry)
