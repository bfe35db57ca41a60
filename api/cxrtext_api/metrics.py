"""What an operator measures: numbers for Prometheus, of a registry of their own an application.

Labels are names of this program (routes, stages, reasons), never what a caller sent.
"""

import os
import weakref
from collections.abc import Callable
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
    multiprocess,
)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SHARED_FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""Where several serving processes add their numbers up; set by the one that starts them."""

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
BATCHES = (1, 2, 4, 8, 16, 32, 64)

_newest: "weakref.ref[Metrics] | None" = None


class Metrics:
    """The numbers of one application.

    Args:
        on_stage: Also told of each stage and its seconds.
    """

    def __init__(self, on_stage: Callable[[str, float], None] | None = None) -> None:
        global _newest
        self.registry = CollectorRegistry()
        self._on_stage = on_stage
        self._shared = bool(os.environ.get(SHARED_FOLDER_VARIABLE))
        if not self._shared:
            ProcessCollector(registry=self.registry)
            PlatformCollector(registry=self.registry)
            GCCollector(registry=self.registry)
        self.requests = self._counter("http_requests", "Answers.", "method", "route", "status")
        self.seconds = self._histogram("http_request_seconds", "Time to answer.", SECONDS, "route")
        self.stages = self._histogram("stage_seconds", "Time of a stage.", SECONDS, "stage")
        self.batches = self._histogram("batch_size", "Questions a batch.", BATCHES, "stage")
        self.queue = self._gauge("queue_length", "Questions that wait.", "livesum", "queue")
        self.under_way = self._gauge("requests_under_way", "Requests inside.", "livesum")
        self.errors = self._counter("errors", "Failures of the server.", "kind")
        self.rejected = self._counter("rejected_requests", "Requests turned away.", "reason")
        self.images = self._gauge("index_images", "Indexed images.", "mostrecent")
        self.sentences = self._gauge("index_sentences", "Indexed sentences.", "mostrecent")
        self.ready = self._gauge("ready", "1 when questions are answered.", "livemin")
        self.writes = self._gauge("writes", "0 when nothing can be kept on the disk.", "livemin")
        self.model = self._gauge(
            "model_info", "1; the labels tell the model.", "mostrecent", "fingerprint", "version"
        )
        _newest = weakref.ref(self)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"cxrtext_{name}", text, labels, registry=self.registry)

    def _histogram(
        self, name: str, text: str, buckets: tuple[float, ...], *labels: str
    ) -> Histogram:
        return Histogram(f"cxrtext_{name}", text, labels, buckets=buckets, registry=self.registry)

    def _gauge(self, name: str, text: str, mode: Any, *labels: str) -> Gauge:
        return Gauge(
            f"cxrtext_{name}", text, labels, registry=self.registry, multiprocess_mode=mode
        )

    def observe_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an answer."""
        self.requests.labels(method, route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def reject(self, reason: str) -> None:
        """Count a request that was turned away before it reached a route."""
        self.rejected.labels(reason).inc()

    def observe_stage(self, stage: str, seconds: float) -> None:
        """Note how long a stage of the work took."""
        self.stages.labels(stage).observe(seconds)
        if self._on_stage is not None:
            self._on_stage(stage, seconds)

    def observe_batch(self, stage: str, size: int) -> None:
        """Note how many questions were answered together."""
        self.batches.labels(stage).observe(size)

    def set_queue(self, name: str, length: int) -> None:
        """Note how many questions wait."""
        self.queue.labels(name).set(length)

    def count_error(self, kind: str) -> None:
        """Count a failure of the server."""
        self.errors.labels(kind).inc()

    def tell_model(self, about: dict[str, Any], version: str) -> None:
        """Note what is loaded, as :meth:`cxrtext.service.Service.describe` tells it."""
        self.model.labels(str(about.get("fingerprint", "")), version).set(1)
        self.images.set(about.get("images", 0))
        self.sentences.set(about.get("sentences", 0))

    def page(self) -> bytes:
        """Everything in Prometheus' text format."""
        if not self._shared:
            return generate_latest(self.registry)
        together = CollectorRegistry()
        multiprocess.MultiProcessCollector(together)  # type: ignore[no-untyped-call]
        return generate_latest(together)


def observe_stage(stage: str, seconds: float) -> None:
    """Note how long a stage of the work took, such as "decode", "image" or "text"."""
    if (metrics := _current()) is not None:
        metrics.observe_stage(stage, seconds)


def observe_batch(stage: str, size: int) -> None:
    """Note how many questions were answered together."""
    if (metrics := _current()) is not None:
        metrics.observe_batch(stage, size)


def set_queue(name: str, length: int) -> None:
    """Note how many questions wait."""
    if (metrics := _current()) is not None:
        metrics.set_queue(name, length)


def count_error(kind: str) -> None:
    """Count a failure of the server, by the name of its kind."""
    if (metrics := _current()) is not None:
        metrics.count_error(kind)


def _current() -> Metrics | None:
    return None if _newest is None else _newest()
