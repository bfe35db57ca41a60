"""Check what a command is given before it imports the heavy packages.

The type of a parameter says what it must be: ``Annotated[Path, typer.Option(), CHECKPOINT]``.
:func:`checked` checks all of them before the command begins.  The library reports what only the
work itself can find, such as a damaged row of a table.
"""

import inspect
import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from math import isfinite
from pathlib import Path
from typing import Any, get_args

from cxrtext.errors import CheckpointError, ConfigError, DataError, InputError
from cxrtext.files import is_empty


@dataclass(frozen=True, slots=True)
class Kind:
    """What a parameter must be; ``check`` raises a :class:`CxrTextError` for any other value."""

    check: Callable[[Any], None]


def _file(path: Path) -> None:
    if not path.exists():
        raise DataError(f"{path}: no such file")
    if path.is_dir():
        raise DataError(f"{path}: is a folder; give a file")
    _readable(path)


def _folder(path: Path) -> None:
    if not path.exists():
        raise DataError(f"{path}: no such folder")
    if not path.is_dir():
        raise DataError(f"{path}: is a file; give a folder")
    _readable(path)


def _file_or_folder(path: Path) -> None:
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    _readable(path)


def _readable(path: Path) -> None:
    if not os.access(path, os.R_OK):
        raise DataError(f"{path}: cannot be read; check who may read it")


def _report(path: Path) -> None:
    if str(path) == "-":
        return
    if not path.exists():
        raise DataError(f"{path}: no such file; give one with the report's text, or - and type it")
    _file(path)


def _new_folder(path: Path) -> None:
    if path.exists() and not path.is_dir():
        raise DataError(f"{path}: is a file; name a folder")
    _writable(path)


def _empty_folder(path: Path) -> None:
    _new_folder(path)
    if path.is_dir() and not is_empty(path):
        raise DataError(f"{path}: is not empty; name a new folder")


def _new_file(path: Path) -> None:
    if path.is_dir():
        raise DataError(f"{path}: is a folder; name a file")
    _writable(path)


def _writable(path: Path) -> None:
    """Refuse a path that cannot be written, and an address such as s3://bucket."""
    if path.parts and path.parts[0].endswith(":") and not Path(path.parts[0]).exists():
        raise DataError(f"{path}: is an address; name a folder or file on this machine")
    there = next(one for one in (path, *path.absolute().parents) if one.exists())
    if there != path and not there.is_dir():
        raise DataError(f"{path}: '{there.name}' is a file, not a folder; name another place")
    if not os.access(there, os.W_OK):
        raise DataError(f"{path}: cannot be written; check who may write there")


def _new_table(path: Path) -> None:
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise DataError(f"{path}: a table ends in .csv or .parquet")
    _new_file(path)


_TABLES = ("manifest", "reports", "labels", "boxes")  # the names of a data folder's tables


def _absent_table(path: Path) -> None:
    _new_table(path)
    if path.exists():
        raise DataError(f"{path}: is there already; name another file, or remove it")


def _new_predictions(path: Path) -> None:
    _absent_table(path)
    beside = (path.with_name("manifest.csv"), path.with_name("manifest.parquet"))
    if path.stem in _TABLES and any(table.is_file() for table in beside):
        raise DataError(
            f"{path}: it would be taken for the data folder's own {path.stem}; name another file, "
            "such as predictions.csv"
        )


def _new_table_or_stdout(path: str) -> None:
    if path != "-":
        _new_table(Path(path))


def _backbone(folder: Path) -> None:
    from cxrtext.models.folders import CONFIG

    _folder(folder)
    if not (folder / CONFIG).is_file():
        raise CheckpointError(
            f"{folder}: has no {CONFIG}; give a vision model's folder, as transformers saves it"
            + "".join(f", such as {path.parent}" for path in [*folder.glob(f"*/{CONFIG}")][:1])
        )


def _device(name: str) -> None:
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", name):
        raise ConfigError(f"--device: '{name}' is not auto, cpu, cuda or cuda:N")


def _split(name: str) -> None:
    from cxrtext.records.manifest import SPLITS

    if name not in (*SPLITS, "all"):
        raise ConfigError(f"--split: '{name}' is not one of {', '.join(SPLITS)}, all")


def _sentence(text: str) -> None:
    from cxrtext.service.limits import check_sentence

    check_sentence(text)
    with suppress(OSError, ValueError):  # not a path at all
        if Path(text).is_file():
            raise DataError(
                f"{text}: is a file, not a sentence; give an image before the sentence, or with "
                "--image if the command has it"
            )


def _by(module: str, name: str) -> Kind:
    """A check by a function of the library, imported when it is first needed."""
    return Kind(lambda value: getattr(import_module(f"cxrtext.{module}"), name)(value))


FILE = Kind(_file)
FOLDER = Kind(_folder)
FILE_OR_FOLDER = Kind(_file_or_folder)
REPORT = Kind(_report)
"""A file, or "-" for standard input."""
SOURCE = _by("records.report_sources", "check_source")
"""A source of text: a table, a file, a folder, or "-" for standard input."""
CHECKPOINT = _by("models.folders", "check_checkpoint")
BACKBONE = Kind(_backbone)
"""A folder of a vision model; its weights are not checked."""
INDEX = _by("index.store.catalogue", "check_index_folder")
PLACE = _by("project.place", "find_part")
"""A project, a checkpoint or an index."""
LANGUAGE_MODEL = Kind(lambda name: _by("models.folders", "check_model_name").check(str(name)))
"""A folder, or a hub id; the hub is not asked."""
DATA_FOLDER = _by("evaluation.data", "manifest_of")
PROMPTS = _by("evaluation.classification.prompts", "read_prompts")
NEW_FILE = Kind(_new_file)
NEW_TABLE = Kind(_new_table)
ABSENT_TABLE = Kind(_absent_table)
"""A table that does not exist yet."""
NEW_PREDICTIONS = Kind(_new_predictions)
"""A table that does not exist yet and has no name of a data folder's own tables."""
NEW_TABLE_OR_STDOUT = Kind(_new_table_or_stdout)
NEW_FOLDER = Kind(_new_folder)
"""A folder to make, or to write into."""
EMPTY_FOLDER = Kind(_empty_folder)
"""A folder to make, or an empty one."""
DEVICE = Kind(_device)
SPLIT = Kind(_split)
SENTENCE = Kind(_sentence)
SECTION = Kind(lambda name: _by("text", "check_sections").check([name]))
ANY_PATH = Kind(lambda _: None)
"""A path that the command checks itself."""


def checked(command: Callable[..., None]) -> Callable[..., None]:
    """Make a command check its parameters before it begins.

    Paths must have a :class:`Kind` among their annotations; other parameters may have one.
    Sentences and text without a kind must be UTF-8; a path may have any bytes.
    """
    kinds = kinds_of(command)
    paths = {name for name, kind in kinds.items() if kind is not SENTENCE}

    @wraps(command)
    def run(**given: Any) -> None:
        for name, value in given.items():
            if name not in paths:
                _check_text(value)
            if isinstance(value, float) and not isfinite(value):
                raise ConfigError(f"--{name.replace('_', '-')} is {value}; give a finite number")
        # Sentences first: if a file stands in a sentence's place, that explains the other errors.
        for name, kind in sorted(kinds.items(), key=lambda item: item[1] is not SENTENCE):
            for value in filter(lambda value: value is not None, _values(given.get(name))):
                if kind is FILE and value.is_dir():
                    raise DataError(f"{value}: is a folder; give a file: {_help_of(command, name)}")
                kind.check(value)
        command(**given)

    return run


def _values(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list | tuple) else [value]


def _check_text(value: Any) -> None:
    """Refuse bytes that are not UTF-8, which Python keeps in arguments as lone surrogates."""
    from cxrtext.records.decoding import undecoded

    for text in _values(value):
        if isinstance(text, str) and undecoded(text):
            shown = os.fsencode(text).decode("utf-8", "backslashreplace")
            raise InputError(f"'{shown}' is not UTF-8; set the terminal's encoding to UTF-8")


def kinds_of(command: Callable[..., None]) -> dict[str, Kind]:
    """The kinds of a command's parameters; each path must have one."""
    kinds = {}
    for name, parameter in inspect.signature(command).parameters.items():
        own = [part for part in get_args(parameter.annotation) if isinstance(part, Kind)]
        if own:
            kinds[name] = own[0]
        elif "Path" in str(get_args(parameter.annotation)[:1] or parameter.annotation):
            raise TypeError(f"{command.__name__}: {name}: a path needs a Kind")
    return kinds


def _help_of(command: Callable[..., None], name: str) -> str:
    """A parameter's help, worded to end a sentence."""
    parts = get_args(inspect.signature(command).parameters[name].annotation)
    text = next(str(part.help) for part in parts if getattr(part, "help", None)).rstrip(".")
    return text[0].lower() + text[1:]


def check_each(kinds: Mapping[str, tuple[Kind, Any]]) -> None:
    """Check values from elsewhere, such as a configuration file.

    ``kinds`` has the kind and the value of each by its name; None is skipped.
    """
    for name, (kind, value) in kinds.items():
        if value is None:
            continue
        try:
            kind.check(value)
        except (CheckpointError, DataError) as error:
            raise ConfigError(f"{name}: {error}") from None
