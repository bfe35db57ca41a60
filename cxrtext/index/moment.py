"""An index at one moment, whoever writes it meanwhile; for backups and publications.

The catalogue is copied first, as SQLite sees it at one moment, and says what else belongs to that
moment: so many rows of each vector file, which are never written over, and files that are named by
their content.  Where one of them is gone by the time that it is taken, a writer has changed the
index; the catalogue is then copied once more, and what was taken already is kept.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from cxrtext.errors import CheckpointError
from cxrtext.files import file_problems
from cxrtext.files.digests import read_sums
from cxrtext.files.sqlite import open_database
from cxrtext.index.store.catalogue import CATALOGUE, Catalogue, catalogue_errors, empty_index
from cxrtext.index.store.vectors import OF_IMAGES, SENTENCES, VectorFile, vector_files
from cxrtext.index.store.writer import writing
from cxrtext.models.checkpoint import checkpoint_fingerprint

T = TypeVar("T")

UPLOADS = "uploads"
"""What the first folder of uploads is called in a copy; further ones are ``uploads-2`` …"""

ATTEMPTS = 4  # the last holds writers off


class GoneError(Exception):
    """A file that the copied catalogue names is there no longer."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What belongs to an index at one moment."""

    index: Path
    catalogue: Path  # a copy, which nobody else changes
    meta: Mapping[str, str]
    vectors: Mapping[str, tuple[VectorFile, int]]  # by name, with the rows that count
    structures: Sequence[tuple[str, str]]  # names and digests of FAISS files
    roots: Mapping[str, str]  # folders of uploads, by the name of their copy
    uploads: Sequence[tuple[str, str]]  # the name of the folder's copy, and a file in it


def at_one_moment(index: Path, copy: Path, take: Callable[[Moment], T], wait_s: float) -> T:
    """Call a function with an index at one moment, again where its files went meanwhile.

    Args:
        index: The folder of the index.
        copy: Where the catalogue is copied to.
        take: Takes what belongs to the moment; raises :class:`GoneError` where a file is gone.
        wait_s: How long to wait for a writer, where the index changes faster than it is taken.

    Raises:
        CheckpointError: The index is empty or damaged.
        DataError: Another process writes without end.
    """
    for attempt in range(1, ATTEMPTS + 1):
        with ExitStack() as stack:
            if attempt == ATTEMPTS:
                stack.enter_context(writing(index, wait_s=wait_s))
            try:
                return take(_copy_catalogue(index, copy))
            except GoneError as error:
                if attempt == ATTEMPTS:
                    raise CheckpointError(
                        f"{error}: the index names this file and it is not there; run "
                        f"'cxrtext index check {index}'"
                    ) from None
    raise AssertionError  # the last attempt returns or raises


def _copy_catalogue(index: Path, copy: Path) -> Moment:
    copy.unlink(missing_ok=True)
    with (
        catalogue_errors(index / CATALOGUE),
        Catalogue(index / CATALOGUE) as source,
        closing(open_database(copy)) as target,
    ):
        source.database.backup(target)
    with Catalogue(copy) as copied:
        meta = copied.meta()
        if "generation" not in meta:
            raise empty_index(index)
        structures = copied.database.execute("SELECT file, digest FROM structures").fetchall()
        named = copied.database.execute(
            "SELECT DISTINCT path, file FROM images JOIN roots USING (root) "
            "WHERE file IS NOT NULL ORDER BY path, file"
        ).fetchall()
    rows = dict.fromkeys(OF_IMAGES, int(meta["places"]))
    rows[SENTENCES] = int(meta["sentence_places"])
    name_of: dict[str, str] = {}
    for root, _ in named:
        name_of.setdefault(root, f"{UPLOADS}-{len(name_of) + 1}" if name_of else UPLOADS)
    return Moment(
        index=index,
        catalogue=copy,
        meta=meta,
        vectors={name: (file, rows[name]) for name, file in vector_files(index, meta).items()},
        structures=structures,
        roots={name: root for root, name in name_of.items()},
        uploads=[(name_of[root], file) for root, file in named],
    )


def too_short(index: Path, file: Path) -> CheckpointError:
    """What is raised of a vector file with fewer rows than its index says."""
    return CheckpointError(
        f"{file}: is shorter than the index says; run 'cxrtext index check {index}'"
    )


def damaged_structure(index: Path, name: str) -> CheckpointError:
    """What is raised of a FAISS file that is not what its index says."""
    return CheckpointError(
        f"{index / name}: is damaged; 'cxrtext index rebuild {index}' makes it again"
    )


def damaged_upload(file: Path) -> CheckpointError:
    """What is raised of a kept file that is not what its name says."""
    return CheckpointError(
        f"{file}: is not what its name says; put the file of an older backup in its place, or "
        "delete its image"
    )


def checkpoint_of(moment: Moment, without: str) -> Path:
    """The checkpoint that an index notes, compared with its digests.

    Args:
        without: What to do where it is not there.

    Raises:
        CheckpointError: It is not there, or damaged.
    """
    noted = moment.index / moment.meta.get("checkpoint", "")
    if not (noted / "config.json").is_file():
        raise CheckpointError(
            f"{moment.index}: the checkpoint that made this index is no longer at "
            f"'{moment.meta.get('checkpoint', '')}'; {without}"
        )
    if problems := file_problems(noted):
        raise CheckpointError(f"{problems[0]}; a damaged checkpoint is not copied")
    require_model_of(moment, noted, without, sums=read_sums(noted))
    return noted


def require_model_of(
    moment: Moment, checkpoint: Path, without: str, *, sums: Mapping[str, str] | None = None
) -> None:
    """Refuse a checkpoint that is not the index's any more (CheckpointError).

    ``sums`` are the digests of its files, where they are known; else the files are read.
    """
    if checkpoint_fingerprint(checkpoint, sums) != moment.meta["model"]:
        raise CheckpointError(
            f"{checkpoint}: holds another model than the one that made {moment.index}, which "
            "could not be searched with it; put that one back, or run 'cxrtext index rebuild "
            f"{moment.index} --model {checkpoint}'; {without}"
        )
