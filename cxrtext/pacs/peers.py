"""The file that says which hospital systems are spoken with (``peers.yaml``).

::

    peers:
      - name: archive
        dicomweb:
          url: https://pacs.example.org/dicom-web
          user: cxrtext
          password_env: CXRTEXT_ARCHIVE_PASSWORD   # environment: the password's name
          ca: /etc/cxrtext/ca.pem                  # by default the system's
        dimse:
          {host: pacs.example.org, port: 2762, aet: ARCHIVE, our_aet: CXRTEXT,
           tls: {ca: /etc/cxrtext/ca.pem, certificate: ours.pem, key: ours.key}}
        limits: {parallel: 2, requests_per_second: 10, window: "19:00-07:00"}
        write: false
        on_deletion: note

It is readable by its owner alone.  Every address comes from here: none from a request, an answer
or a DICOM object.
"""

import ipaddress
import os
import re
import stat
from collections.abc import Mapping
from datetime import datetime, time, timedelta
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from cxrtext.errors import ConfigError
from cxrtext.files.yaml_text import parse_yaml
from cxrtext.pacs.tls import check_private

MAX_PEERS = 64
MAX_FILE_BYTES = 2**20
GUIDE = "docs/reference/pacs.md"

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Aet = Annotated[str, Field(pattern=r"^[!-\[\]-~]([ -\[\]-~]{0,14}[!-\[\]-~])?$")]
"""An application entity title: 1 to 16 characters of ASCII without a backslash."""


class PeerSection(BaseModel):
    """A frozen part of the file that knows no keys but its own."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class OAuth(PeerSection):
    """A login service that gives tokens to a client (RFC 6749, section 4.4)."""

    token_url: str
    client_id: Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[ -~]+$")]
    secret_env: str  # the variable that holds the client's secret
    scope: str = ""
    audience: str = ""
    credentials: Literal["header", "body"] = "header"  # where client and secret are sent
    ca: Path | None = None  # by default that of dicomweb

    @field_validator("token_url")
    @classmethod
    def _an_address(cls, url: str) -> str:
        return _checked(url)


class Tls(PeerSection):
    ca: Path | None = None  # certificates that its own is checked by; None for the system's
    certificate: Path | None = None  # ours, with its key
    key: Path | None = None

    @model_validator(mode="after")
    def _whole_certificate(self) -> "Tls":
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate and key stand together: give both or neither")
        return self

    def check(self, where: str) -> None:
        """Look at the files (ConfigError); ``where`` says which part of peers.yaml they are of."""
        for key in ("ca", "certificate", "key"):
            path: Path | None = getattr(self, key)
            if path is not None and not path.is_file():
                raise ConfigError(f"{path}: no such file; {where}.{key} names a PEM file")
        if self.key is not None:
            check_private(self.key)


class Web(Tls):
    url: str  # what QIDO, WADO and STOW have in common, without a slash at its end
    user: str | None = None
    password_env: str | None = None
    token_env: str | None = None  # the variable that holds a bearer token
    oauth: OAuth | None = None
    orthanc: str | None = None  # Orthanc's own REST API, for its list of changes (follow)

    @field_validator("url", "orthanc")
    @classmethod
    def _an_address(cls, url: str | None) -> str | None:
        return None if url is None else _checked(url).rstrip("/")

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)

    @model_validator(mode="after")
    def _one_login(self) -> "Web":
        if (self.user is None) != (self.password_env is None):
            raise ValueError("user and password_env stand together: give both or neither")
        if sum(way is not None for way in (self.user, self.token_env, self.oauth)) > 1:
            raise ValueError("give one login: user with password_env, token_env, or oauth")
        return self


class Dimse(PeerSection):
    """Where and how a peer is asked over DIMSE, and the titles of both sides."""

    host: Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[^\s/@]+$")]
    port: Annotated[int, Field(ge=1, le=65535)]
    aet: Aet  # the peer's title
    our_aet: Aet = "CXRTEXT"
    retrieve: Literal["get", "move"] = "get"
    our_port: Annotated[int, Field(ge=1, le=65535)] | None = None  # where C-MOVE sends to
    our_host: str = ""  # the address that our_port listens at; "" for all
    tls: Tls | None = None

    @field_validator("tls", mode="before")
    @classmethod
    def _says_what(cls, tls: object) -> object:
        if not isinstance(tls, (Mapping, Tls)):  # an empty one would encrypt nothing
            raise ValueError("is to be such as {ca: FILE}, or {} for the system's authorities")
        return tls

    @model_validator(mode="after")
    def _move_has_a_port(self) -> "Dimse":
        if self.retrieve == "move" and self.our_port is None:
            raise ValueError("retrieve: move needs our_port, where the peer sends the images to")
        if self.retrieve == "move" and self.tls is not None and self.tls.certificate is None:
            raise ValueError(
                "retrieve: move with tls needs tls.certificate and tls.key, for our_port speaks TLS"
            )
        return self


class Window(PeerSection):
    """The hours of the day, in local time, in which a peer may be asked."""

    begin: time
    end: time

    def opens_in(self, now: datetime) -> timedelta:
        """How long it is until it may be asked; zero where it may be now."""
        at = now.time()
        inside = (
            self.begin <= at < self.end
            if self.begin < self.end
            else at >= self.begin or at < self.end
        )
        if inside:
            return timedelta(0)
        opening = datetime.combine(now.date(), self.begin, now.tzinfo)
        return opening - now if opening > now else opening + timedelta(days=1) - now

    def __str__(self) -> str:
        return f"{self.begin:%H:%M}-{self.end:%H:%M}"


class Limits(PeerSection):
    parallel: Annotated[int, Field(ge=1, le=32)] = 2
    requests_per_second: Annotated[float, Field(gt=0, le=1000)] = 10.0
    window: Window | None = None
    timeout_s: Annotated[float, Field(ge=1, le=600)] = 30.0  # without a byte
    object_mb: Annotated[int, Field(ge=1, le=1024)] = 256  # largest object; 1 GiB can be read

    @field_validator("window", mode="before")
    @classmethod
    def _hours(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        parts = re.fullmatch(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)", value.strip())
        if parts is None:
            raise ValueError('the window is to be such as "19:00-07:00", in quotes')
        begin, end = (time(int(parts[n]), int(parts[n + 1])) for n in (1, 3))
        if begin == end:
            raise ValueError("the window begins when it ends; leave it out for the whole day")
        return {"begin": begin, "end": end}


class ResultsRule(PeerSection):
    """Which results are made of images from a peer and sent back to it."""

    sentences: Annotated[tuple[str, ...], Field(min_length=1, max_length=32)]
    above: Annotated[float, Field(ge=0, le=1)] = 0.0  # least probability

    @model_validator(mode="before")
    @classmethod
    def _without_kinds(cls, rule: object) -> object:
        if isinstance(rule, Mapping) and "kinds" in rule:
            raise ValueError(
                "kinds is no key any more: results are always a secondary capture and an SR; "
                "leave it out"
            )
        return rule


class Peer(PeerSection):
    name: Name
    dicomweb: Web | None = None
    dimse: Dimse | None = None
    limits: Limits = Limits()
    write: bool = False  # whether anything may be sent to it
    results: ResultsRule | None = None
    on_deletion: Literal["note", "forget"] = "note"  # what its deletion of an image does here

    @model_validator(mode="after")
    def _is_somewhere(self) -> "Peer":
        if self.dicomweb is None and self.dimse is None:
            raise ValueError("neither dicomweb nor dimse is given; one says where the peer is")
        if self.results is not None and not self.write:
            raise ValueError("results are to be sent to it, and write is false; set write: true")
        return self

    @property
    def address(self) -> tuple[str, int]:
        if self.dicomweb is not None:
            return self.dicomweb.address
        assert self.dimse is not None  # noqa: S101 - one of the two is there
        return self.dimse.host, self.dimse.port

    def require_write(self) -> None:
        """Refuse to send to a peer that is not opened for it (ConfigError)."""
        if not self.write:
            raise ConfigError(
                f"{self.name}: nothing is sent to it; set write: true at this peer in peers.yaml"
            )


class _File(PeerSection):
    peers: Annotated[tuple[Peer, ...], Field(min_length=1, max_length=MAX_PEERS)]

    @cached_property
    def by_name(self) -> dict[str, Peer]:
        return {peer.name: peer for peer in self.peers}


def is_loopback(host: str) -> bool:
    """Whether a host is this machine by its very name or number."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname
    except ValueError:
        raise ValueError("the address is wrong; give such as https://host/dicom-web") from None
    if parts.scheme not in ("http", "https") or not host or port == 0 or not url.isprintable():
        raise ValueError("the address is wrong; give such as https://host/dicom-web")
    if parts.username is not None or parts.password is not None:
        raise ValueError("the address holds a user; give user and password_env instead")
    if parts.query or parts.fragment or " " in url:
        raise ValueError("the address ends in a question or a space; leave these out")
    if parts.scheme == "http" and not is_loopback(host):
        raise ValueError("http sends images and the password readable; give https beyond loopback")
    return url


def read_peers(path: Path) -> dict[str, Peer]:
    given = _parsed(path)
    if len(given.by_name) < len(given.peers):
        names = [peer.name for peer in given.peers]
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigError(f"{path}: the name {twice} stands there twice; name each peer once")
    for peer in given.peers:
        web, dimse = peer.dicomweb, peer.dimse
        try:
            if web is not None:
                web.check("dicomweb")
            if web is not None and web.oauth is not None:
                Tls(ca=web.oauth.ca).check("oauth")
            if dimse is not None and dimse.tls is not None:
                dimse.tls.check("dimse.tls")
        except ConfigError as error:
            raise ConfigError(f"{path}: {peer.name}: {error}") from None
    return given.by_name


def read_peer(path: Path, name: str) -> Peer:
    peers = read_peers(path)
    if name not in peers:
        raise ConfigError(f"{path}: has no peer {name!r}; it has {', '.join(sorted(peers))}")
    return peers[name]


def _parsed(path: Path) -> _File:
    try:
        with path.open("rb") as handle:
            if stat.S_IMODE(os.fstat(handle.fileno()).st_mode) & 0o077:
                raise ConfigError(
                    f"{path}: others than its owner may read or change it; run: chmod 600 {path}"
                )
            data = handle.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; it is to list the peers") from None
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(f"{path}: larger than {MAX_FILE_BYTES} bytes; it lists peers alone")
    try:
        value = parse_yaml(data)
    except ValueError as error:
        raise ConfigError(f"{path}: {error}; see {GUIDE} for its form") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{path}: lists no peers; see {GUIDE} for its form")
    try:
        return _File.model_validate(value)
    except ValidationError as error:
        raise ConfigError(f"{path}: {_first_fault(error, value)}; see {GUIDE}") from None


def _first_fault(error: ValidationError, value: Mapping[object, object]) -> str:
    found = error.errors(include_input=False, include_url=False)
    first = min(found, key=lambda one: one["type"] != "extra_forbidden")
    place = [str(part) for part in first["loc"]]
    listed = value.get("peers")
    if len(place) > 1 and place[0] == "peers" and isinstance(listed, list):
        one = listed[int(place[1])]
        name = one.get("name") if isinstance(one, dict) else None
        place[:2] = [name if isinstance(name, str) else f"peer {int(place[1]) + 1}"]
    return f"{': '.join(place)}: {first['msg'].removeprefix('Value error, ')}"
