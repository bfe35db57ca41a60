"""The server's settings: plain values, which read no file or environment."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from cxrtext.hosts import names_of

Seconds = Annotated[float, Field(gt=0, le=86_400)]


class Settings(BaseModel):
    """How to serve a model; `cxrtext serve` explains its options of the same names."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    checkpoint: Path | None = None
    index: Path | None = None
    device: str = "cpu"
    prompts: Path | None = None
    uploads: Path | None = None
    read_only: bool = False
    inbox: Path | None = None  # of the gateway beside it
    hash_ids: Path | None = None
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    # Reread when it changes; without one every caller may enter.
    keys_file: Path | None = None
    trusted_hosts: tuple[str, ...] = ()  # ``*.example.org`` covers every name below it
    max_body_bytes: Annotated[int, Field(ge=1024)] = 64 * 2**20
    queue_limit: Annotated[int, Field(ge=1)] = 64  # requests waiting for the model or the decoder
    concurrency: Annotated[int, Field(ge=1)] = 256  # requests in the server
    request_seconds: Seconds = 120  # for the answer
    readers: Annotated[int, Field(ge=1, le=64)] = 2
    log_format: Literal["text", "json"] = "text"
    audit_log: Path | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Every name by which callers may address the server, in lower case."""
        return names_of(self.host, self.trusted_hosts)
