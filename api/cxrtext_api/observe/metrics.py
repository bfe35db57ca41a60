"""What an operator measures: numbers for Prometheus, of a registry of their own an application.

Labels are names of this program (routes, stages, reasons), never what a caller sent.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import prometheus_client as prometheus

from cxrtext.index.store.replica import Publication
from cxrtext.pacs.inbox.status import InboxStatus

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
BATCHES = (1, 2, 4, 8, 16, 32, 64)


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

        self.inbox_waiting = self._gauge(
            "inbox_waiting", "Entries of the inbox that wait, are held, or failed.", "state"
        )
        self.readable = self._gauge(
            "readable", "Whether a folder can be read; what was seen last is told if not.", "folder"
        )
        self.inbox_oldest = self._gauge(
            "inbox_oldest_seconds", "How long the first that waits has waited."
        )
        self.inbox_entries = self._gauge(
            "inbox_entries", "Entries done with since the inbox was made.", "what", "outcome"
        )
        self.inbox_reports = self._gauge(
            "inbox_reports_without_study", "Reports whose study is not here."
        )
        self.results_sent = self._gauge("results_sent", "Results that a peer has.", "peer", "kind")
        self.listener_up = self._gauge("listener_up", "1 while it runs.", "kind")
        self.listener_open = self._gauge(
            "listener_associations", "Associations or connections that are open.", "kind"
        )
        self.listener_counts = self._gauge(
            "listener_requests", "Since the listener was started.", "kind", "outcome"
        )

    def _counter(self, name: str, text: str, *labels: str) -> prometheus.Counter:
        return prometheus.Counter(f"cxrtext_{name}", text, labels, registry=self.registry)

    def _histogram(
        self, name: str, text: str, buckets: tuple[float, ...], *labels: str
    ) -> prometheus.Histogram:
        return prometheus.Histogram(
            f"cxrtext_{name}", text, labels, buckets=buckets, registry=self.registry
        )

    def _gauge(self, name: str, text: str, *labels: str) -> prometheus.Gauge:
        return prometheus.Gauge(f"cxrtext_{name}", text, labels, registry=self.registry)

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

    def describe_inbox(self, found: InboxStatus) -> None:
        waiting = sum(found.waiting.values())
        states = {"waiting": waiting, "held": found.held, "failed": found.failed}
        for state, count in states.items():
            self.inbox_waiting.labels(state).set(count)
        self.inbox_oldest.set(found.oldest_s)
        self.inbox_reports.set(found.unjoined)
        for (what, outcome), count in found.outcomes.items():
            self.inbox_entries.labels(what, outcome).set(count)
        for kind, one in found.listeners.items():
            self.listener_up.labels(kind).set(int(one.alive))
            self.listener_open.labels(kind).set(one.open)
            counts = {"accepted": one.accepted, "refused": one.refused, "cut": one.cut}
            for outcome, count in counts.items():
                self.listener_counts.labels(kind, outcome).set(count)

    def describe_results(self, sent: Mapping[tuple[str, str], int]) -> None:
        """Note how many results each peer was sent, by its name in peers.yaml and their kind."""
        for (peer, kind), count in sent.items():
            self.results_sent.labels(peer, kind).set(count)

    def page(self) -> bytes:
        return prometheus.generate_latest(self.registry)
