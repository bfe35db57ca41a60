"""Metrics for Prometheus; each application has its own registry.

Labels are names of this program (routes, stages, reasons), never what a caller sent.
"""

from functools import partial
from typing import Any

import prometheus_client as prometheus

from cxrtext.pacs.gateway.numbers import CONTENT_TYPE, gauge

__all__ = ["CONTENT_TYPE", "Metrics"]
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
        own = partial(gauge, self.registry)
        self.queue = own("queue_length", "Questions that wait.", "queue")
        self.under_way = own("requests_under_way", "Requests inside.")
        self.errors = self._counter("errors", "Failures of the server.", "kind")
        self.rejected = self._counter("rejected_requests", "Requests turned away.", "reason")
        self.images = own("index_images", "Indexed images.")
        self.sentences = own("index_sentences", "Indexed sentences.")
        self.ready = own("ready", "1 when questions are answered.")
        self.model = own("model_info", "1; the labels name the model.", "fingerprint", "version")

    def _counter(self, name: str, text: str, *labels: str) -> prometheus.Counter:
        return prometheus.Counter(f"cxrtext_{name}", text, labels, registry=self.registry)

    def _histogram(
        self, name: str, text: str, buckets: tuple[float, ...], *labels: str
    ) -> prometheus.Histogram:
        return prometheus.Histogram(
            f"cxrtext_{name}", text, labels, buckets=buckets, registry=self.registry
        )

    def observe_batch(self, stage: str, size: int) -> None:
        self.batches.labels(stage).observe(size)

    def describe_model(self, about: dict[str, Any], version: str) -> None:
        """Note what is loaded, from :meth:`cxrtext.service.Service.describe`."""
        self.model.clear()  # an index may have switched to another model
        self.model.labels(str(about.get("fingerprint", "")), version).set(1)
        self.images.set(about.get("images", 0))
        self.sentences.set(about.get("sentences", 0))

    def page(self) -> bytes:
        return prometheus.generate_latest(self.registry)
