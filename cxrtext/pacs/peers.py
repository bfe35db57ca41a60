"""The hospital systems that the gateway talks to, as its file lists them.

Every address comes from that file, never from a request, an answer or a DICOM object.
"""

import ipaddress
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    model_validator,
)

from cxrtext.errors import ConfigError

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Host = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[^\s/@]+$")]
Modality = Annotated[str, Field(pattern=r"^[A-Z0-9]{2,16}$")]


def is_loopback(host: str) -> bool:
    """Whether a host's name or number alone says that it is this machine."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _checked(url: str) -> str:
    wrong = ValueError("the address is wrong; give one like https://host/dicom-web")
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname
    except ValueError:
        raise wrong from None
    if parts.scheme not in ("http", "https") or not host or port == 0 or not url.isprintable():
        raise wrong
    if parts.username is not None or parts.password is not None:
        raise ValueError("the address holds a user; give user and password_env instead")
    if parts.query or parts.fragment or " " in url:
        raise ValueError("the address has a query, a fragment or a space; leave these out")
    if parts.scheme == "http" and not is_loopback(host):
        raise ValueError("http sends images and the password readable; give https beyond loopback")
    return url


def _beside(path: Path, info: ValidationInfo) -> Path:
    return Path((info.context or {}).get("folder", "")) / path


Named = Annotated[Path, AfterValidator(_beside)]
"""A file or folder, relative to the file that names it."""

Url = Annotated[str, AfterValidator(_checked)]
Base = Annotated[Url, AfterValidator(lambda url: url.rstrip("/"))]
"""The common start of a service's addresses."""


class PeerSection(BaseModel):
    """A frozen part of the file; unknown keys are errors."""

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


class Web(PeerSection):
    url: Base  # of QIDO, WADO and STOW
    user: str | None = None
    password_env: str | None = None
    token_env: str | None = None  # the variable that holds a bearer token
    ca: Named | None = None  # certificates to check the peer's by; None for the system's
    orthanc: Base | None = None  # Orthanc's own REST API, for its list of changes (follow)

    @model_validator(mode="after")
    def _one_login(self) -> "Web":
        if (self.user is None) != (self.password_env is None):
            raise ValueError("user and password_env stand together: give both or neither")
        if self.user is not None and self.token_env is not None:
            raise ValueError("give one login: user with password_env, or token_env")
        return self


class Limits(PeerSection):
    parallel: Annotated[int, Field(ge=1, le=32)] = 2
    requests_per_second: Annotated[float, Field(gt=0, le=1000)] = 100.0
    timeout_s: Annotated[float, Field(ge=1, le=600)] = 30.0  # of silence
    object_mb: Annotated[int, Field(ge=1, le=1024)] = 256  # largest object; 1 GiB can be read


class ResultsRule(PeerSection):
    """Which results to make from a peer's images and send back to it."""

    sentences: Annotated[tuple[str, ...], Field(min_length=1, max_length=32)]
    above: Annotated[float, Field(ge=0, le=1)] = 0.0  # the lowest probability
    daily: Annotated[int, Field(ge=1, le=1_000_000)] = 500  # most results sent in 24 hours


class Follow(PeerSection):
    """Which of a peer's studies to fetch, and when to look."""

    # None: from the day of the first start.
    first: Annotated[date | None, Field(alias="from")] = None
    days: Annotated[int, Field(ge=1, le=3650)] = 30  # compared image by image each night
    at: Annotated[str, Field(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")] = "02:00"  # local time
    every_s: Annotated[float, Field(ge=0.1, le=86_400)] = 10.0
    modalities: Annotated[tuple[Modality, ...], Field(min_length=1)] = ("CR", "DX")


class Peer(PeerSection):
    name: Name
    dicomweb: Web
    limits: Limits = Limits()
    follow: Follow | None = None
    write: bool = False  # whether we may send to it
    results: ResultsRule | None = None
    on_deletion: Literal["note", "forget"] = "note"  # what to do when it deletes an image

    @model_validator(mode="after")
    def _may_get_results(self) -> "Peer":
        if self.results is not None and not self.write:
            raise ValueError("has rules for results, which need write: true")
        return self

    def require_write(self) -> None:
        """Refuse to send to a peer without ``write: true`` (ConfigError)."""
        if not self.write:
            raise ConfigError(f"{self.name}: nothing is sent to it; set write: true at this peer")
