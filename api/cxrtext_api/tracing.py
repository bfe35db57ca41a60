"""Spans for OpenTelemetry, where its packages are there and its environment asks for it.

Install the extra "otel" and set ``OTEL_EXPORTER_OTLP_ENDPOINT`` (or ``..._TRACES_ENDPOINT``).
Attributes are methods, route patterns, stages and numbers; never what a caller sent.
"""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import cxrtext

VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


class Span(Protocol):
    """The part of OpenTelemetry's span that is used."""

    def set_attribute(self, key: str, value: Any) -> object:
        """Say something about the span."""

    def update_name(self, name: str) -> object:
        """Call it something else."""


class _NoSpan:
    """Where nobody listens."""

    def set_attribute(self, key: str, value: Any) -> None:
        """Do nothing."""

    def update_name(self, name: str) -> None:
        """Do nothing."""


NO_SPAN = _NoSpan()


class Tracing:
    """Makes spans, or nothing.

    Args:
        tracer: OpenTelemetry's tracer.
        provider: What is to be shut down at the end.
    """

    def __init__(self, tracer: Any = None, provider: Any = None) -> None:
        self._tracer = tracer
        self._provider = provider

    @contextmanager
    def request(self, method: str) -> Iterator[Span]:
        """A span of a request, the parent of what happens within."""
        if self._tracer is None:
            yield NO_SPAN
            return
        from opentelemetry.trace import SpanKind

        with self._tracer.start_as_current_span(
            method, kind=SpanKind.SERVER, record_exception=False, set_status_on_exception=False
        ) as span:
            span.set_attribute("http.request.method", method)
            yield span

    def stage(self, stage: str, seconds: float) -> None:
        """A span of a stage that has just ended; a batch serves many requests and has no parent."""
        if self._tracer is None:
            return
        end = time.time_ns()
        span = self._tracer.start_span(stage, start_time=end - int(seconds * 1e9))
        span.end(end_time=end)

    def close(self) -> None:
        """Send what is left."""
        if self._provider is not None:
            self._provider.shutdown()


def open_tracing(environment: Mapping[str, str] = os.environ) -> Tracing:
    """Spans as the environment asks for them.

    Args:
        environment: Such as ``os.environ``.
    """
    if not any(environment.get(name) for name in VARIABLES):
        return Tracing()
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        return Tracing()
    about = Resource.create({"service.name": environment.get("OTEL_SERVICE_NAME", "cxrtext")})
    provider = TracerProvider(resource=about, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Tracing(provider.get_tracer("cxrtext_api", cxrtext.__version__), provider)
