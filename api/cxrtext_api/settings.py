"""What the server is told: plain values, read from nowhere by themselves."""

import ipaddress
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from cxrtext_api.keys import Key

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")

Seconds = Annotated[float, Field(gt=0, le=86_400)]


def _as_keys(given: Any) -> Any:
    """Bare digests are taken for keys that may read."""
    if not isinstance(given, tuple | list):
        return given
    return tuple(
        {"key_id": f"plain-{i}", "digest": key} if isinstance(key, str) else key
        for i, key in enumerate(given, 1)
    )


class Settings(BaseModel):
    """How to serve a model.

    Args:
        checkpoint: The model's folder; by default the one noted in the index.
        index: The index's folder, or several; without one there is no search.
        device: Where to compute.
        prompts: YAML file of the findings' prompts; CheX5's by default.
        language_model: Folder or hub id of the language model that scores sentences.
        uploads: Folder for images that are added over HTTP; without one none can be.
        host: The address to listen on; one that is not loopback wants keys.
        port: The port to listen on; 0 takes a free one.
        keys: The bearer keys, or SHA-256 digests of such as may read.
        keys_file: A file of more of them, see :mod:`cxrtext_api.key_files`; read anew when it
            changes.  Without any key every caller is let in.
        trusted_hosts: Names, besides the loopback ones and ``host``, by which callers may address
            the server; ``*.example.org`` takes every name below it.
        cors_origins: Other sites whose pages may ask, such as ``https://viewer.example.org``.
        rate_limit: Requests a minute that a key may make; 0 for any number.
        max_body_bytes: Largest request.
        queue_limit: Requests that may wait for the model, or for the image decoder, at a time.
        concurrency: Requests that may be in the server at a time.
        connections: Connections that may be open at a time.
        header_seconds: How long the head of a request may take to arrive.
        body_seconds: How long its body may take to arrive.
        request_seconds: How long an answer may take.
        keep_alive_seconds: How long an idle connection is kept.
        drain_seconds: How long the server still answers after it was told to stop, with
            ``/readyz`` already saying no, so that a load balancer can turn away.
        shutdown_seconds: How long accepted requests may then take to end.
        workers: Processes that serve, each with a model of its own.
        readers: Processes, in each of these, that decode images.
        metrics: Whether ``/metrics`` is there.
        log_format: How log lines are written.
        audit_log: File that says who asked about which study, see :mod:`cxrtext_api.audit`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    checkpoint: Path | None = None
    index: Path | tuple[Path, ...] | None = None
    device: str = "cpu"
    prompts: Path | None = None
    language_model: str | None = None
    uploads: Path | None = None
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    keys: Annotated[tuple[Key, ...], BeforeValidator(_as_keys)] = ()
    keys_file: Path | None = None
    trusted_hosts: tuple[str, ...] = ()
    cors_origins: tuple[Annotated[str, Field(pattern=r"^https?://[^/?#*\s]+$")], ...] = ()
    rate_limit: Annotated[int, Field(ge=0)] = 1200
    max_body_bytes: Annotated[int, Field(ge=1024)] = 64 * 2**20
    queue_limit: Annotated[int, Field(ge=1)] = 64
    concurrency: Annotated[int, Field(ge=1)] = 256
    connections: Annotated[int, Field(ge=1)] = 1024
    header_seconds: Seconds = 10
    body_seconds: Seconds = 60
    request_seconds: Seconds = 120
    keep_alive_seconds: Annotated[int, Field(ge=1, le=3600)] = 15
    drain_seconds: Annotated[float, Field(ge=0, le=600)] = 0
    shutdown_seconds: Annotated[int, Field(ge=1, le=3600)] = 30
    workers: Annotated[int, Field(ge=1, le=64)] = 1
    readers: Annotated[int, Field(ge=1, le=64)] = 2
    metrics: bool = True
    log_format: Literal["text", "json"] = "text"
    audit_log: Path | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Every name by which callers may address the server, in lower case."""
        own = (name.lower().strip("[]") for name in (*LOOPBACK_NAMES, self.host))
        return (*own, *self.trusted_names)

    @property
    def trusted_names(self) -> tuple[str, ...]:
        """Those of them by which a proxy may serve it, in lower case."""
        return tuple(name.lower().strip("[]") for name in self.trusted_hosts)

    @property
    def guarded(self) -> bool:
        """Whether callers need a key."""
        return bool(self.keys) or self.keys_file is not None


def is_loopback(host: str) -> bool:
    """Whether an address is one that only this machine can reach."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
