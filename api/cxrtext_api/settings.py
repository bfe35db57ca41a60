"""What the server is given: plain values, read from nowhere by themselves."""

import ipaddress
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")

Seconds = Annotated[float, Field(gt=0, le=86_400)]


class Settings(BaseModel):
    """How to serve a model.

    Args:
        checkpoint: The model's folder; by default the one noted in the index.
        index: The index's folder, or several; without one there is no search.
        device: Where to compute.
        prompts: YAML file of the findings' prompts; CheX5's by default.
        uploads: Folder for images that are added over HTTP; without one none can be.
        read_only: Whether to refuse to add and delete images; of a replica that is so anyway.
        inbox: Folder of what hospital systems sent (``cxrtext listen``), for the metrics alone.
        hash_ids: Key file by which ids of DICOM headers are replaced by hashes, the one that the
            archive was imported with; without one they are kept as they are.
        host: The address to listen on; one that is not loopback wants keys.
        port: The port to listen on; 0 takes a free one.
        keys_file: A file of bearer keys, see :mod:`cxrtext_api.gate.keys`; read anew when it
            changes.  Without one every caller is let in.
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
        drain_seconds: How long the server still answers after it was asked to stop, with
            ``/readyz`` already saying no, so that a load balancer can turn away.
        shutdown_seconds: How long accepted requests may then take to end.
        readers: Processes that decode images.
        metrics: Whether ``/metrics`` is there.
        log_format: How log lines are written.
        worklist: Whether ``/v1/worklist`` is there.
        results: Folder of results (``cxrtext results --out``); with one ``/v1/results`` is there,
            and the page shows what was sent back of a study.
        audit_log: File that says who asked about which study, see :mod:`cxrtext_api.observe.audit`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    checkpoint: Path | None = None
    index: Path | tuple[Path, ...] | None = None
    device: str = "cpu"
    prompts: Path | None = None
    uploads: Path | None = None
    read_only: bool = False
    inbox: Path | None = None
    hash_ids: Path | None = None
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
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
    readers: Annotated[int, Field(ge=1, le=64)] = 2
    metrics: bool = True
    log_format: Literal["text", "json"] = "text"
    audit_log: Path | None = None
    worklist: bool = False
    results: Path | None = None

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
    def indexes(self) -> tuple[Path, ...]:
        """The folders of the indexes."""
        return (self.index,) if isinstance(self.index, Path) else self.index or ()


def is_loopback(host: str) -> bool:
    """Whether an address is one that only this machine can reach."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
