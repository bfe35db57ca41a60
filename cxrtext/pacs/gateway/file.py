"""The file that says all of a gateway (``gateway.yaml``): its folders, ports and peers.

::

    state: gateway
    project: project
    dicom: {title: CXRTEXT, host: 0.0.0.0}
    hl7: {host: 0.0.0.0, charset: 8859/1}
    peers:
      - name: archive
        dicomweb: {url: https://pacs.example.org/dicom-web, user: cxrtext, password_env: PASSWORD}
        dimse: {host: pacs.example.org, port: 11112, aet: ARCHIVE}
        addresses: [10.0.0.5]
        follow: {from: 2022-01-01}
      - {name: ris, addresses: [10.0.0.7]}

It is readable by its owner alone; paths are relative to it.
"""

import os
import ssl
import stat
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError, model_validator

from cxrtext.datasets.admission.ids import Ids, read_key
from cxrtext.datasets.importing.reports.hl7 import CHARACTER_SETS
from cxrtext.errors import ConfigError
from cxrtext.files.yaml_text import parse_yaml
from cxrtext.pacs.peers import Aet, Named, Peer, PeerSection, Tls, is_loopback

MAX_PEERS = 64
MAX_FILE_BYTES = 2**20
GUIDE = "docs/reference/pacs.md"

Host = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[^\s/@]+$")]
Port = Annotated[int, Field(ge=0, le=65535)]


class IdsSection(PeerSection):
    """How ids are written, and what else is kept of headers, as import has them."""

    hash: Named | None = None  # key file: ids are replaced by hashes, and pixels alone are kept
    issuer: str = ""  # of patient ids whose header names none
    keep: tuple[str, ...] = ()

    def read(self) -> Ids:
        """How ids are written: as they are, or by the key of the file (ConfigError)."""
        return Ids(None if self.hash is None else read_key(self.hash))


class Serving(PeerSection):
    """A port of ours."""

    host: Host = "127.0.0.1"
    port: Port = 0


class _Encrypted(Serving):
    tls: Tls | None = None

    @model_validator(mode="after")
    def _has_a_certificate(self) -> "_Encrypted":
        if self.tls is not None and self.tls.certificate is None:
            raise ValueError("tls of a port of ours needs certificate and key")
        return self

    def context(self) -> ssl.SSLContext | None:
        return self.tls.server_context() if self.tls else None


class DicomPort(_Encrypted):
    title: Aet = "CXRTEXT"
    port: Port = 11112
    associations: Annotated[int, Field(ge=1, le=256)] = 8  # at a time
    object_mb: Annotated[int, Field(ge=1, le=1024)] = 256  # largest object; held in memory


class Hl7Port(_Encrypted):
    port: Port = 2575
    charset: str = ""  # of messages that name none, as MSH-18 has it; "" for UTF-8

    @model_validator(mode="after")
    def _is_known(self) -> "Hl7Port":
        if self.charset.upper() not in CHARACTER_SETS:
            known = ", ".join(name for name in CHARACTER_SETS if name)
            raise ValueError(f"charset is one of {known}")
        return self


class Serve(Serving):
    """The page and the API, as options of ``cxrtext serve`` of these names have it."""

    port: Port = 8000
    trusted_hosts: tuple[str, ...] = ()
    audit_log: Named | None = None
    uploads: Named | None = None
    log_format: Literal["text", "json"] = "text"


class Status(Serving):
    port: Port = 9108


class Gateway(PeerSection):
    """All that the file says."""

    state: Named = Field(Path("gateway"), validate_default=True)
    project: Named | None = None  # a project or an index; without it what comes waits
    reserve_gib: Annotated[float, Field(ge=0, le=100_000)] = 1.0  # that stay free on the disk
    readers: Annotated[int, Field(ge=1, le=64)] = 2  # processes that decode
    device: str = "auto"
    ids: IdsSection = IdsSection()
    burnt_in: Literal["ignore", "hold"] = "ignore"  # text in the margins of images
    dicom: DicomPort | None = None
    hl7: Hl7Port | None = None
    serve: Serve | None = None
    status: Status = Status()
    peers: Annotated[tuple[Peer, ...], Field(min_length=1, max_length=MAX_PEERS)]

    @model_validator(mode="after")
    def _fits(self) -> "Gateway":
        names = [peer.name for peer in self.peers]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"the name {twice} stands there twice; name each peer once")
        if self.hl7 and not is_loopback(self.hl7.host) and not any(p.addresses for p in self.peers):
            raise ValueError("hl7 is open to others: give the addresses of who may send")
        if self.serve is not None and self.project is None:
            raise ValueError("serve needs a project")
        return self

    @cached_property
    def by_name(self) -> dict[str, Peer]:
        return {peer.name: peer for peer in self.peers}

    def peer(self, name: str) -> Peer:
        """A peer by its name (ConfigError)."""
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

    @property
    def addresses(self) -> dict[str, list[str]]:
        """What peers with addresses send from, by their names."""
        return {peer.name: list(map(str, peer.addresses)) for peer in self.peers if peer.addresses}

    @property
    def titles(self) -> dict[str, str]:
        """The peers that may send objects, by the titles that they send with."""
        return {title: peer.name for peer in self.peers for title in peer.sends_as}


def read_gateway(path: Path) -> Gateway:
    """Read the file, and look at those that it names (ConfigError)."""
    value = _parsed(path)
    try:
        found = Gateway.model_validate(value, context={"folder": path.absolute().parent})
    except ValidationError as error:
        raise ConfigError(f"{path}: {_first_fault(error, value)}; see {GUIDE}") from None
    for peer in found.peers:
        try:
            peer.check_files()
        except ConfigError as error:
            raise ConfigError(f"{path}: {peer.name}: {error}") from None
    for name, port in (("dicom", found.dicom), ("hl7", found.hl7)):
        if port is not None and port.tls is not None:
            port.tls.check(f"{name}.tls")
    return found


def _parsed(path: Path) -> dict[str, object]:
    try:
        with path.open("rb") as handle:
            if stat.S_IMODE(os.fstat(handle.fileno()).st_mode) & 0o077:
                raise ConfigError(
                    f"{path}: others than its owner may read or change it; run: chmod 600 {path}"
                )
            data = handle.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(
            f"{path}: {error.strerror}; it is the file of the gateway, see {GUIDE}"
        ) from None
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(f"{path}: larger than {MAX_FILE_BYTES} bytes; it is no gateway's file")
    try:
        value = parse_yaml(data)
    except ValueError as error:
        raise ConfigError(f"{path}: {error}; see {GUIDE} for its form") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{path}: lists no peers; see {GUIDE} for its form")
    return value


def _first_fault(error: ValidationError, value: Mapping[str, object]) -> str:
    found = error.errors(include_input=False, include_url=False)
    first = min(found, key=lambda one: one["type"] != "extra_forbidden")
    place = [str(part) for part in first["loc"]]
    listed = value.get("peers")
    if len(place) > 1 and place[0] == "peers" and isinstance(listed, list):
        one = listed[int(place[1])]
        name = one.get("name") if isinstance(one, dict) else None
        place[:2] = [name if isinstance(name, str) else f"peer {int(place[1]) + 1}"]
    return ": ".join(filter(None, (": ".join(place), first["msg"].removeprefix("Value error, "))))
