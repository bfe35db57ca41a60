"""The hospital systems that are spoken with, as the file of the gateway lists them.

Every address comes from there: none from a request, an answer or a DICOM object.
"""

import ipaddress
import re
import ssl
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    IPvAnyNetwork,
    ValidationInfo,
    field_validator,
    model_validator,
)

from cxrtext.errors import ConfigError, DataError
from cxrtext.pacs.tls import client_context, server_context

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Aet = Annotated[str, Field(pattern=r"^[!-\[\]-~]([ -\[\]-~]{0,14}[!-\[\]-~])?$")]
"""An application entity title: 1 to 16 characters of ASCII without a backslash."""

Host = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[^\s/@]+$")]
Modality = Annotated[str, Field(pattern=r"^[A-Z0-9]{2,16}$")]


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


def _beside(path: Path, info: ValidationInfo) -> Path:
    return Path((info.context or {}).get("folder", "")) / path


Named = Annotated[Path, AfterValidator(_beside)]
"""A file or folder, relative to the file that names it."""

Url = Annotated[str, AfterValidator(_checked)]
Base = Annotated[Url, AfterValidator(lambda url: url.rstrip("/"))]
"""What the addresses of a service have in common."""


class PeerSection(BaseModel):
    """A frozen part of the file that knows no keys but its own."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, populate_by_name=True
    )

    @model_validator(mode="before")
    @classmethod
    def _knows_its_keys(cls, value: object) -> object:
        fields = {field.alias or name: name for name, field in cls.model_fields.items()}
        for key in value if isinstance(value, Mapping) else ():
            if key not in fields and key not in fields.values():
                raise ValueError(f"{key}: is not known; there is {', '.join(fields)}")
        return value


class OAuth(PeerSection):
    """A login service that gives tokens to a client (RFC 6749, section 4.4)."""

    token_url: Url
    client_id: Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[ -~]+$")]
    secret_env: str  # the variable that holds the client's secret
    scope: str = ""
    audience: str = ""
    credentials: Literal["header", "body"] = "header"  # where client and secret are sent
    ca: Named | None = None  # by default that of dicomweb


class Tls(PeerSection):
    ca: Named | None = None  # certificates that its own is checked by; None for the system's
    certificate: Named | None = None  # ours, with its key
    key: Named | None = None

    @model_validator(mode="after")
    def _whole_certificate(self) -> "Tls":
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate and key stand together: give both or neither")
        return self

    def client_context(self) -> ssl.SSLContext:
        return client_context(self.ca, self.certificate, self.key)

    def server_context(self) -> ssl.SSLContext | None:
        if self.certificate is None or self.key is None:
            return None
        return server_context(self.certificate, self.key, self.ca)


class Web(Tls):
    url: Base  # of QIDO, WADO and STOW
    user: str | None = None
    password_env: str | None = None
    token_env: str | None = None  # the variable that holds a bearer token
    oauth: OAuth | None = None
    orthanc: Base | None = None  # Orthanc's own REST API, for its list of changes (follow)

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

    host: Host
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


class Follow(PeerSection):
    """Which studies of a peer are fetched, and when it is looked at."""

    # None: from the day of the first start on.
    first: Annotated[date | None, Field(alias="from")] = None
    days: Annotated[int, Field(ge=1, le=3650)] = 30  # compared image by image each night
    at: Annotated[str, Field(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")] = "02:00"  # local time
    every_s: Annotated[float, Field(ge=0.1, le=86_400)] = 10.0
    modalities: Annotated[tuple[Modality, ...], Field(min_length=1)] = ("CR", "DX")
    accessions: Named | None = None  # a file of accession numbers, one a line: only these

    @property
    def listed(self) -> tuple[str, ...]:
        """The accession numbers of the file, or "" for any (DataError)."""
        return ("",) if self.accessions is None else _accessions(self.accessions)


def _accessions(path: Path) -> tuple[str, ...]:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (UnicodeDecodeError, OSError):
        raise DataError(f"{path}: is no UTF-8 text; give an accession number a line") from None
    numbers = tuple(dict.fromkeys(line.strip() for line in lines if line.strip()))
    for place, number in enumerate(numbers, 1):
        if len(number) > 16 or not number.isprintable() or set(number) & set("*?\\"):
            raise DataError(
                f"{path}: number {place} is no accession number (16 characters, without * ? \\)"
            )
    if not numbers:
        raise DataError(f"{path}: holds no accession number; give one a line")
    return numbers


class Peer(PeerSection):
    name: Name
    dicomweb: Web | None = None
    dimse: Dimse | None = None
    addresses: tuple[IPvAnyNetwork, ...] = ()  # that it may send from
    titles: tuple[Aet, ...] = ()  # that it sends with, beside that of dimse
    limits: Limits = Limits()
    follow: Follow | None = None
    write: bool = False  # whether anything may be sent to it
    results: ResultsRule | None = None
    on_deletion: Literal["note", "forget"] = "note"  # what its deletion of an image does here

    @model_validator(mode="after")
    def _is_somewhere(self) -> "Peer":
        asked = self.dicomweb or self.dimse
        if not (asked or self.addresses or self.titles):
            raise ValueError("give dicomweb, dimse, addresses or titles: where it is, or sends as")
        if self.follow is not None and not asked:
            raise ValueError("follow needs dicomweb or dimse, where it is asked")
        if self.results is not None and not (self.write and asked):
            raise ValueError("results are to be sent to it; set write: true, and where it is")
        return self

    @property
    def address(self) -> tuple[str, int]:
        if self.dicomweb is not None:
            return self.dicomweb.address
        assert self.dimse is not None  # noqa: S101 - who is asked has one of the two
        return self.dimse.host, self.dimse.port

    @property
    def sends_as(self) -> tuple[str, ...]:
        own = (self.dimse.aet,) if self.dimse is not None else ()
        return tuple(dict.fromkeys((*own, *self.titles)))

    def check_files(self) -> None:
        web, dimse = self.dicomweb, self.dimse
        login = Tls(ca=web.oauth.ca) if web and web.oauth else None
        for tls in filter(None, (web, login, dimse.tls if dimse else None)):
            if tls.ca or tls.certificate:  # else those that the system trusts
                tls.client_context()

    def require_write(self) -> None:
        """Refuse to send to a peer that is not opened for it (ConfigError)."""
        if not self.write:
            raise ConfigError(f"{self.name}: nothing is sent to it; set write: true at this peer")
