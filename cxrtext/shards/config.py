"""The file that says which services hold the parts of an archive (``shards.yaml``).

::

    deadline_s: 10
    shards:
      - name: shard-00
        urls: [https://a.example.org, https://b.example.org]   # replicas, tried in turn
        key_variable: CXRTEXT_SHARDS_KEY                         # environment: the key's name
        ca: /etc/cxrtext/ca.pem                                  # by default the system's
      - name: shard-01
        urls: [https://c.example.org]
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cxrtext.client.transport import check_address, check_key
from cxrtext.errors import ConfigError

MAX_SHARDS = 256
MAX_REPLICAS = 8
MAX_FILE_BYTES = 2**20

Seconds = Annotated[float, Field(gt=0, le=3600)]


@dataclass(frozen=True, slots=True)
class ShardAddress:
    """Where a part of the archive is asked, and how."""

    name: str
    urls: tuple[str, ...]  # of services with the same part
    key: str | None = None
    ca: Path | None = None  # certificates that its own is checked by; None for the system's


@dataclass(frozen=True, slots=True)
class ShardList:
    """The parts of an archive, in their order."""

    shards: tuple[ShardAddress, ...]
    deadline_s: float = 10.0  # for the answer of a shard to a question
    export_s: float = 900.0  # for its answer to one that looks at every image
    hedge_s: float | None = None  # after which a second replica is asked too; None: by its speed
    probe_s: float = 2.0  # between two looks at whether a silent service is there
    connections: int = 16  # to each service


class _Shard(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    urls: Annotated[list[str], Field(min_length=1, max_length=MAX_REPLICAS)]
    key_variable: str | None = None
    ca: Path | None = None


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    shards: Annotated[list[_Shard], Field(min_length=1, max_length=MAX_SHARDS)]
    key_variable: str | None = None  # of every shard that names none
    ca: Path | None = None
    deadline_s: Seconds = 10.0
    export_s: Seconds = 900.0
    hedge_s: Seconds | None = None
    probe_s: Seconds = 2.0
    connections: Annotated[int, Field(ge=1, le=1000)] = 16


def read_shards(path: Path, environment: Mapping[str, str] = os.environ) -> ShardList:
    """Read a file of shards; the keys are taken from the environment.

    Raises:
        ConfigError: The file cannot be read or is wrong, a name or an address stands twice, a
            variable is not set, or a file of certificates is missing; no key is quoted.
    """
    given = _parsed(path)
    names = [shard.name for shard in given.shards]
    urls = [url.rstrip("/") for shard in given.shards for url in shard.urls]
    for what, values in (("name", names), ("address", urls)):
        if twice := [value for value in values if values.count(value) > 1]:
            raise ConfigError(f"{path}: the {what} {twice[0]} stands there twice; name each once")
    return ShardList(
        tuple(_address(path, given, shard, environment) for shard in given.shards),
        *(given.deadline_s, given.export_s, given.hedge_s, given.probe_s, given.connections),
    )


def _parsed(path: Path) -> _File:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise ConfigError(f"{path}: larger than {MAX_FILE_BYTES} bytes; it lists shards alone")
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; it is to list the shards") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise ConfigError(f"{path}: not YAML; see docs/tasks/shards.md for its form") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{path}: lists no shards; see docs/tasks/shards.md for its form")
    try:
        return _File.model_validate(value)
    except ValidationError as error:
        (first, *_) = error.errors(include_input=False, include_url=False)
        place = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"{path}: {place}: {first['msg']}; see docs/tasks/shards.md") from None


def _address(
    path: Path, given: _File, shard: _Shard, environment: Mapping[str, str]
) -> ShardAddress:
    where = f"{path}: {shard.name}"
    variable = shard.key_variable or given.key_variable
    key = None if variable is None else environment.get(variable, "").strip()
    if key == "":
        raise ConfigError(f"{where}: the environment has no key in {variable}; set it")
    try:
        for url in shard.urls:
            check_address(url)
        if key is not None:
            check_key(key)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    ca = shard.ca or given.ca
    if ca is not None and not ca.is_file():
        raise ConfigError(f"{where}: {ca}: no such file; ca names a file of certificates")
    return ShardAddress(shard.name, tuple(url.rstrip("/") for url in shard.urls), key, ca)
