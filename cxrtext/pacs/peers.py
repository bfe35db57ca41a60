"""The hospital systems that are spoken with, as the file of the gateway lists them.

Every address comes from there: none from a request, an answer or a DICOM object.
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


class Web(PeerSection):
    url: Base  # of QIDO, WADO and STOW
    user: str | None = None
    password_env: str | None = None
    token_env: str | None = None  # the variable that holds a bearer token
    ca: Named | None = None  # certificates that its own is checked by; None for the system's
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
    timeout_s: Annotated[float, Field(ge=1, le=600)] = 30.0  # without a byte
    object_mb: Annotated[int, Field(ge=1, le=1024)] = 256  # largest object; 1 GiB can be read


class ResultsRule(PeerSection):
    """Which results are made of images from a peer and sent back to it."""

    sentences: Annotated[tuple[str, ...], Field(min_length=1, max_length=32)]
    above: Annotated[float, Field(ge=0, le=1)] = 0.0  # least probability
    daily: Annotated[int, Field(ge=1, le=1_000_000)] = 500  # most results sent in 24 hours


class Follow(PeerSection):
    """Which studies of a peer are fetched, and when it is looked at."""

    # None: from the day of the first start on.
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
    write: bool = False  # whether anything may be sent to it
    results: ResultsRule | None = None
    on_deletion: Literal["note", "forget"] = "note"  # what its deletion of an image does here

    @model_validator(mode="after")
    def _may_get_results(self) -> "Peer":
        if self.results is not None and not self.write:
            raise ValueError("results are to be sent to it; set write: true")
        return self

    def require_write(self) -> None:
        """Refuse to send to a peer that is not opened for it (ConfigError)."""
        if not self.write:
            raise ConfigError(f"{self.name}: nothing is sent to it; set write: true at this peer")
