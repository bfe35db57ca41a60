"""The file that describes a gateway (``gateway.yaml``): its folders, ports and peers.

Only its owner may read it; paths are relative to it.
"""

import os
import stat
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator

from cxrtext.datasets.admission.ids import Ids, read_key
from cxrtext.datasets.importing.formats.dicom import KEEP
from cxrtext.errors import ConfigError
from cxrtext.files.yaml_text import parse_yaml
from cxrtext.pacs.dicomweb import bearer
from cxrtext.pacs.peers import Named, Peer, PeerSection
from cxrtext.pacs.ports import Hl7Port, Port, Serving
from cxrtext.records.manifest import ACQUIRED

MAX_PEERS = 64
MAX_FILE_BYTES = 2**20
GUIDE = "docs/reference/pacs.md"


class IdsSection(PeerSection):
    """How to write ids, and what else to keep of headers, as in an import."""

    hash: Named | None = None  # key file: ids become hashes, and only pixels are kept
    issuer: str = ""  # of patient ids if the header names none
    keep: tuple[str, ...] = ()

    @field_validator("keep")
    @classmethod
    def _is_offered(cls, names: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if unknown := [name for name in names if name not in KEEP]:
            raise ValueError(f"{unknown[0]}: there is {', '.join(KEEP)}")
        dated = [name for name in names if name in ("date", ACQUIRED)]
        if dated and info.data.get("hash") is not None:
            raise ValueError(f"{dated[0]}: dates are dropped with ids.hash; leave {dated[0]} out")
        return names

    def read(self) -> Ids:
        """Ids as they are, or hashed with the key in the file (ConfigError)."""
        return Ids(None if self.hash is None else read_key(self.hash))


class Serve(Serving):
    """The page and the API; the keys are options of ``cxrtext serve``."""

    port: Port = 8000
    trusted_hosts: tuple[str, ...] = ()
    audit_log: Named | None = None
    uploads: Named | None = None
    log_format: Literal["text", "json"] = "text"


class Status(Serving):
    port: Port = 9108
    trusted_hosts: tuple[str, ...] = ()  # host names in requests, as for serve
    key_env: str | None = None  # the variable with the bearer token that requests need

    @property
    def login(self) -> dict[str, str]:
        """The headers that requests need (ConfigError: the variable is not set)."""
        return {} if self.key_env is None else bearer(self.key_env)


class Gateway(PeerSection):
    state: Named = Field(Path("gateway"), validate_default=True)
    project: Named | None = None  # a project or an index; without one, everything received waits
    reserve_gib: Annotated[float, Field(ge=0, le=100_000)] = 1.0  # to keep free on the disk
    readers: Annotated[int, Field(ge=1, le=64)] = 2  # processes that decode
    device: str = "auto"
    ids: IdsSection = IdsSection()
    burnt_in: Literal["ignore", "hold"] = "ignore"  # text in the margins of images
    hl7: Hl7Port | None = None
    serve: Serve | None = None
    status: Status = Status()
    peers: Annotated[tuple[Peer, ...], Field(min_length=1, max_length=MAX_PEERS)]

    @model_validator(mode="after")
    def _fits(self) -> "Gateway":
        names = [peer.name for peer in self.peers]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"two peers are named {twice}; give each its own name")
        if self.serve is not None and self.project is None:
            raise ValueError("serve needs a project")
        return self

    @cached_property
    def by_name(self) -> dict[str, Peer]:
        return {peer.name: peer for peer in self.peers}

    def peer(self, name: str) -> Peer:
        if name not in self.by_name:
            raise ConfigError(f"there is no peer {name!r}; there is {', '.join(self.by_name)}")
        return self.by_name[name]

    @property
    def inbox(self) -> Path:
        return self.state / "inbox"

    @property
    def archive(self) -> Path:
        return self.state / "archive"

    @property
    def results(self) -> Path:
        return self.state / "results"


def read_gateway(path: Path) -> Gateway:
    value = _parsed(path)
    try:
        return Gateway.model_validate(value, context={"folder": path.absolute().parent})
    except ValidationError as error:
        raise ConfigError(f"{path}: {_first_fault(error, value)}; see {GUIDE}") from None


def _parsed(path: Path) -> dict[str, object]:
    try:
        with path.open("rb") as handle:
            if stat.S_IMODE(os.fstat(handle.fileno()).st_mode) & 0o077:
                raise ConfigError(
                    f"{path}: users besides its owner may read or change it; run: chmod 600 {path}"
                )
            data = handle.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(
            f"{path}: {error.strerror}; it is the file of the gateway, see {GUIDE}"
        ) from None
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(f"{path}: larger than {MAX_FILE_BYTES} bytes; it is not a gateway's file")
    try:
        value = parse_yaml(data)
    except ValueError as error:
        raise ConfigError(f"{path}: {error}; see {GUIDE} for its form") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{path}: lists no peers; see {GUIDE} for its form")
    return value


def _first_fault(error: ValidationError, value: Mapping[str, object]) -> str:
    first = error.errors(include_input=False, include_url=False)[0]
    place = [str(part) for part in first["loc"]]
    listed = value.get("peers")
    if len(place) > 1 and place[0] == "peers" and isinstance(listed, list):
        peer = listed[int(place[1])]
        name = peer.get("name") if isinstance(peer, dict) else None
        place[:2] = [name if isinstance(name, str) else f"peer {int(place[1]) + 1}"]
    return ": ".join(filter(None, (": ".join(place), first["msg"].removeprefix("Value error, "))))
