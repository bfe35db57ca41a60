"""What a command is given, checked before the command imports what computes.

A parameter says in its type what it is to be: ``Annotated[Path, typer.Option(), CHECKPOINT]``.
:func:`checked` looks at all of them before the command begins.  What only the work itself can find
out, such as a damaged row of a table, is reported by the library as it comes to it.
"""

import inspect
import os
import re
from collections.abc import Callable, Mapping
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
    """What a parameter is to be; ``check`` raises a :class:`CxrTextError` for another value."""

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
    """Refuse a place where nothing can be made, and an address such as s3://bucket."""
    if path.parts and path.parts[0].endswith(":") and not Path(path.parts[0]).exists():
        raise DataError(f"{path}: is an address; name a folder or file of this machine")
    there = next(one for one in (path, *path.absolute().parents) if one.exists())
    if there != path and not there.is_dir():
        raise DataError(f"{path}: '{there.name}' is a file and not a folder; name another place")
    if not os.access(there, os.W_OK):
        raise DataError(f"{path}: cannot be written; check who may write there")


def _new_table(path: Path) -> None:
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise DataError(f"{path}: a table ends in .csv or .parquet")
    _new_file(path)


_TABLES = ("manifest", "reports", "labels", "boxes")  # what a data folder calls its tables


def _absent_table(path: Path) -> None:
    _new_table(path)
    if path.exists():
        raise DataError(f"{path}: is there already; name another file, or remove it")


def _new_predictions(path: Path) -> None:
    _absent_table(path)
    beside = (path.with_name("manifest.csv"), path.with_name("manifest.parquet"))
    if path.stem in _TABLES and any(table.is_file() for table in beside):
        raise DataError(
            f"{path}: a data folder's own {path.stem} are called so, and would be taken for the "
            "truth; name another file, such as predictions.csv"
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
            + "".join(f", such as {one.parent}" for one in [*folder.glob(f"*/{CONFIG}")][:1])
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
    with suppress(OSError, ValueError):  # no path at all
        if Path(text).is_file():
            raise DataError(
                f"{text}: is a file, where a sentence is to be; an image goes before the sentence, "
                "or with --image where the command has that"
            )


def _by(module: str, name: str) -> Kind:
    """What a function of the library checks, which is imported when it is first needed."""
    return Kind(lambda value: getattr(import_module(f"cxrtext.{module}"), name)(value))


FILE = Kind(_file)
FOLDER = Kind(_folder)
FILE_OR_FOLDER = Kind(_file_or_folder)
REPORT = Kind(_report)
"""A file, or "-" for standard input."""
SOURCE = _by("records.report_sources", "check_source")
"""What text is read from: a table, a file, a folder, or "-" for standard input."""
CHECKPOINT = _by("models.folders", "check_checkpoint")
BACKBONE = Kind(_backbone)
"""A folder of a vision model; its weights are not looked at."""
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
"""A table that replaces none."""
NEW_PREDICTIONS = Kind(_new_predictions)
"""A table that replaces none, and that nothing takes for a data folder's own."""
NEW_TABLE_OR_STDOUT = Kind(_new_table_or_stdout)
NEW_FOLDER = Kind(_new_folder)
"""A folder to make, or to write into."""
EMPTY_FOLDER = Kind(_empty_folder)
"""A folder to make, or one that holds nothing."""
DEVICE = Kind(_device)
SPLIT = Kind(_split)
SENTENCE = Kind(_sentence)
SECTION = Kind(lambda name: _by("text", "check_sections").check([name]))
ANY_PATH = Kind(lambda _: None)
"""A path that its command checks by itself."""


def checked(command: Callable[..., None]) -> Callable[..., None]:
    """A command that looks at what it is given before it begins.

    Parameters that are paths have a :class:`Kind` among their annotations, and others may have one.
    Text without a kind, and sentences, must be UTF-8; a path may have any bytes.
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
        # A file in a sentence's place says why what stands in the file's own place is none.
        for name, kind in sorted(kinds.items(), key=lambda one: one[1] is not SENTENCE):
            value = given.get(name)
            for one in value if isinstance(value, list | tuple) else [value]:
                if one is not None and kind is FILE and one.is_dir():
                    raise DataError(f"{one}: is a folder; give a file: {_help_of(command, name)}")
                if one is not None:
                    kind.check(one)
        command(**given)

    return run


def _check_text(value: Any) -> None:
    """Refuse bytes that are not UTF-8, which Python turns into lone surrogates of an argument."""
    from cxrtext.records.decoding import undecoded

    for text in value if isinstance(value, list | tuple) else [value]:
        if isinstance(text, str) and undecoded(text):
            shown = os.fsencode(text).decode("utf-8", "backslashreplace")
            raise InputError(f"'{shown}' is not UTF-8; set the terminal's encoding to UTF-8")


def kinds_of(command: Callable[..., None]) -> dict[str, Kind]:
    """What each parameter of a command is to be, of those that say so."""
    kinds = {}
    for name, parameter in inspect.signature(command).parameters.items():
        found = [one for one in get_args(parameter.annotation) if isinstance(one, Kind)]
        if found:
            kinds[name] = found[0]
        elif "Path" in str(get_args(parameter.annotation)[:1] or parameter.annotation):
            raise TypeError(f"{command.__name__}: {name}: a path says what it is to be")
    return kinds


def _help_of(command: Callable[..., None], name: str) -> str:
    """What a command's help says of a parameter, as the end of a sentence."""
    said = get_args(inspect.signature(command).parameters[name].annotation)
    text = next(str(one.help) for one in said if getattr(one, "help", None)).rstrip(".")
    return text[0].lower() + text[1:]


def check_each(kinds: Mapping[str, tuple[Kind, Any]]) -> None:
    """Check values that are not parameters, such as those of a configuration file.

    ``kinds`` is what each is to be and what it is, by its name; None is passed over.
    """
    for name, (kind, value) in kinds.items():
        if value is None:
            continue
        try:
            kind.check(value)
        except (CheckpointError, DataError) as error:
            raise ConfigError(f"{name}: {error}") from None
