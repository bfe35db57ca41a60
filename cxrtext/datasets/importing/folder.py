"""The folder that an import writes, and the images in it; a folder not made by one is refused."""

import fcntl
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import asdict
from functools import cached_property, partial
from pathlib import Path, PurePosixPath
from typing import Any, Literal
from unicodedata import normalize

from cxrtext.datasets.admission.ids import Ids
from cxrtext.datasets.admission.public import NOTE, read_note
from cxrtext.datasets.importing.loose import IdMatching, match_ids
from cxrtext.datasets.importing.reading import FoundImage, ImportOptions, LeftOutError
from cxrtext.errors import ConfigError, DataError, WorkError
from cxrtext.files import replacing, sha256, write_sealed
from cxrtext.records import LeftOut, RowWriter
from cxrtext.records.report_folder import FOLLOW_LINKS, walk
from cxrtext.records.study import DAMAGED

SAME = "import.same-images.csv"
REPLACED = "reports.replaced.csv"
WRITTEN = (
    *("manifest.csv", "reports.csv", REPLACED, "labels.csv", "boxes.json"),
    *(SAME, "import.rejected.csv"),
)
"""What an import writes into its folder beside the images."""
PICTURES = (".png", ".jpg", ".jpeg")  # endings of image files that are not DICOM
ENDINGS = (*PICTURES, ".dcm")
NOT_THERE = "listed, but the image file is not there"
SEVERAL = "files are called so; name the folder too, or the ending"
LEADS_OUT = "a link that leads nowhere or out of the folder"


def walk_set(root: Path, out: Path) -> Iterator[str | LeftOut]:
    """The relative path of every file of a set, in order, without the data folder; see `walk`.

    ``out`` is the data folder with all links followed.
    """
    return walk(root, lambda entry: Path(entry.path) != out)


def inside(root: Path, name: str) -> Path | None:
    """The file of a relative path, all links followed; None if it lies outside the folder.

    With `FOLLOW_LINKS` links may lead outside.
    """
    if not name or "\0" in name:
        return None
    try:
        path = (root / name).resolve()
    except (OSError, RuntimeError, ValueError):
        return None
    if FOLLOW_LINKS.get() and ".." not in PurePosixPath(name).parts and not name.startswith("/"):
        return path
    return path if path.is_relative_to(root) and path != root else None


def existing(root: Path, item: str, *names: str) -> tuple[str, Path]:
    """The first of some relative paths with a file in the folder, and the file (LeftOutError)."""
    for name in names:
        path = inside(root, name)
        if path is not None and path.is_file():
            is_plain = ".." not in PurePosixPath(name).parts and not name.startswith("/")
            return name if is_plain else path.relative_to(root).as_posix(), path
        if path is None and name and "\0" not in name and os.path.lexists(root / name):
            raise LeftOutError(LeftOut(item, "put the file there", LEADS_OUT))
    raise LeftOutError(LeftOut(item, what=NOT_THERE, other=next(filter(None, names), "")))


def without_ending(name: str, *, last: bool = False) -> str:
    """A path, or its ``last`` part, without the ending of an image file."""
    # MS-CXR's boxes say .jpg, DICOM files .dcm.
    path = PurePosixPath(name.replace("\\", "/").rpartition("/")[2] if last else name)
    return str(path.with_suffix("")) if path.suffix.lower() in ENDINGS else str(path)


def _alike(name: str) -> str:
    return normalize("NFC", name).casefold()


class Files:
    """The files of a set as tables name them; the folder is read when it is first needed."""

    def __init__(self, root: Path, out: Path, matching: IdMatching = "exact") -> None:
        self.root, self._out, self._matching = root, out, matching
        self.said: list[str] = []  # notes on names that a spreadsheet changed
        self.asked: set[str] = set()  # names that a table asked for
        self._mended: dict[str, str] = {}
        self.bare = False  # whether the cells name files without folders

    @cached_property
    def names(self) -> list[str]:
        return [name for name in walk_set(self.root, self._out) if isinstance(name, str)]

    @cached_property
    def pictures(self) -> list[str]:
        return [name for name in self.names if name.lower().endswith(PICTURES)]

    @cached_property
    def _called(self) -> dict[str, set[str]]:
        called_so: dict[str, set[str]] = {}
        for name in self.names:
            for one in (name, name.rpartition("/")[2]):
                for called in (one, without_ending(one)):
                    called_so.setdefault(_alike(called), set()).add(name)
        return called_so

    @cached_property
    def _first(self) -> dict[str, str]:
        first: dict[str, str] = {}
        for path in self.names:
            stem, dot, ending = path.rpartition("/")[2].rpartition(".")
            first.setdefault(stem + dot + ending.lower(), path)
        return first

    def __getitem__(self, name: str) -> str:
        """The first path with a file name, its ending in small letters; "" if there is none."""
        return self._first.get(name, "")

    def find(self, item: str, cell: str) -> tuple[str, Path]:
        """The relative path of the file that a cell names, and the file (LeftOutError).

        A cell holds that path, a longer path of another machine that ends in it, or the name of a
        file anywhere in the folder; with its ending or without.  If no cell names a folder, only
        one file may have that name.
        """
        cell = self._mended.get(cell, cell)
        name = PurePosixPath(cell.replace("\\", "/"))
        path, own = inside(self.root, str(name)), str(name)
        if not name.name:
            raise LeftOutError(LeftOut(item, "image is empty; name its file"))
        up = ".." in name.parts
        names = [own] if path and path.is_file() else [] if up else self._ending_as(name)
        if self.bare and names == [own]:
            twins = self._called.get(_alike(own), {own})
            names = [one for one in twins if one.rpartition("/")[2] == own]
        if path is None and not names and (up or os.path.lexists(own)):
            raise LeftOutError(LeftOut(item, "image lies outside the folder; move it there"))
        if len(names) > 1:
            raise LeftOutError(LeftOut(item, f"{len(names)} {SEVERAL}"))
        self.asked.update(names)
        return existing(self.root, item, *names, own)

    def _ending_as(self, name: PurePosixPath) -> list[str]:
        """The files whose path a path ends in; for a bare name, the files with that name."""
        for start in range(len(name.parts)):
            tail = _alike("/".join(name.parts[start:]))
            some = sorted(self._called.get(tail, ()))
            whole = [one for one in some if tail in (_alike(one), _alike(without_ending(one)))]
            if len(name.parts) > 1 or (whole and not self.bare):
                some = whole
            if some:
                return some
        return []

    def settle(self, table: Path, cells: Iterable[str]) -> None:
        """Look for files under names that a spreadsheet has changed; see `match_ids`."""
        stem = partial(without_ending, last=True)
        missing = {stem(cell): cell for cell in cells if cell and not self._is_there(cell)}
        stems = {stem(name): name for name in self.pictures} if missing else {}
        mended, said = match_ids(table, "image", missing, stems, self._matching)
        self._mended |= {missing[cell]: stems[own] for cell, own in mended.items()}
        self.said += [said] * bool(said)

    def _is_there(self, cell: str) -> bool:
        try:
            return bool(self.find("", cell))
        except LeftOutError:
            return False

    def study(self, item: str, row: Mapping[str, str]) -> str:
        """The study that a row names, or else its image."""
        if "study_id" in row:
            return row["study_id"]
        try:
            return self.find(item, row["image"])[0]
        except LeftOutError as error:
            if error.entry.why.endswith(SEVERAL):
                raise
            return row["image"]  # the image itself is reported as missing

    def by_folder(self, studies: Set[str]) -> dict[str, list[str]]:
        """The pictures by their folder; {} if file names match more studies than folders do."""
        folders: dict[str, list[str]] = {}
        for name in self.pictures:
            folders.setdefault(PurePosixPath(name).parent.name, []).append(name)
        stems = {PurePosixPath(name).stem for name in self.pictures}
        return folders if len(folders.keys() & studies) > len(stems & studies) else {}


class Placer:
    """Gives every image its name in the manifest, and puts the file there.

    Images are copied, which takes no space if the file system can share blocks (reflinks of Btrfs
    and XFS).  A symbolic link would lead out of the folder; editing a hard link would change the
    original.  With ``link``, hard links are made where possible and the file becomes read-only.
    With hashed ids, files are named by hashes, because their names may be patients'.
    """

    def __init__(self, out: Path, ids: Ids, *, link: bool) -> None:
        self.counts: Counter[str] = Counter()
        self._out, self._ids, self._link = out, ids, link
        self._sources, self._names = set[str](), set[str]()

    def name(self, image: FoundImage) -> str | None:
        """The ``image`` cell of an image; None if the image or the cell came before."""
        name = self._name(image)
        if image.name in self._sources or name in self._names:
            return None
        self._sources.add(image.name)
        self._names.add(name)
        return name

    def place(self, image: FoundImage, name: str) -> None:
        self.counts[self._bring(image.path, self._out / name)] += 1

    def placed(self) -> Iterator[str]:
        """The read-only images in the folder; `place` makes them so."""
        for name in walk(self._out / "images", lambda _: True):
            if isinstance(name, str):
                path = self._out / "images" / name
                if not path.is_symlink() and path.is_file() and not path.stat().st_mode & 0o222:
                    yield f"images/{name}"

    def remove(self, names: Iterable[str]) -> None:
        """Remove images that an earlier run put there and this one does not keep."""
        for name in names:
            path = inside(self._out.resolve(), name)
            if name.startswith("images/") and path is not None and path.is_file():
                path.unlink()

    def _name(self, image: FoundImage) -> str:
        if self._ids.hashed:
            ending = Path(image.name).suffix.lower()
            ending = ending if ending in ENDINGS else ".dcm"
            return f"images/{self._ids.of('file', image.name)}{ending}"
        name = "images/" + image.name.removeprefix("images/")
        return "images/" + image.name if name in self._names else name

    def _bring(self, source: Path, target: Path) -> str:
        try:
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            return self._brought(source, target)
        except OSError as error:
            reason = f"cannot be written ({error.strerror})"
            raise WorkError(f"{target}: {reason}; run the same command again to resume") from None

    def _brought(self, source: Path, target: Path) -> str:
        if target.exists():
            if self._link and target.samefile(source):
                return "linked, read-only"
            one, other = source.stat(), target.stat()
            if (
                (one.st_size, one.st_mtime_ns) == (other.st_size, other.st_mtime_ns)
                and not target.samefile(source)
                and sha256(source) == sha256(target)
            ):
                return "copied"
            target.unlink()
        if self._link:
            with suppress(OSError):  # another file system or owner, or no hard links
                os.link(source, target)
                target.chmod(target.stat().st_mode & ~0o222)
                return "linked, read-only"
        with replacing(target) as temporary:
            _copy(source, temporary)
            temporary.chmod(0o400)
            times = source.stat()
            os.utime(temporary, ns=(times.st_atime_ns, times.st_mtime_ns))
        return "copied"


def changed_since(image: FoundImage) -> str:
    """What is wrong with a file after its header was read; "" if it has not changed."""
    try:
        is_changed = image.modified_ns not in (None, image.path.stat().st_mtime_ns)
    except OSError as error:
        return f"cannot be read ({error.strerror}); run the import again"
    return "was changed after its header was read; run the import again" if is_changed else ""


_CLONE = 0x40049409  # Linux's FICLONE


def _copy(source: Path, target: Path) -> None:
    """Copy a file, if possible by a reflink, which shares its blocks until one is written."""
    with source.open("rb") as read, target.open("wb") as written, suppress(OSError):
        fcntl.ioctl(written.fileno(), _CLONE, read.fileno())
        return
    shutil.copyfile(source, target)


_NOT_NOTED = (
    *("reports", "boxes", "hash_key", "max_rejected", "layout", "merged_patients"),
    *("link", "columns", "labels", "ids", "follow_links"),
    "label_sentences",
)
"""Options that may change from one run to the next."""


def _parameters(options: ImportOptions, layout: str, ids: Ids) -> dict[str, Any]:
    """The options that decide the folder's content; no paths, which may name people."""
    noted = {name: value for name, value in asdict(options).items() if name not in _NOT_NOTED}
    noted["keep"], noted["split"] = list(options.keep), list(options.split)
    noted["sentences_from"] = "plain" if options.label_sentences else None
    made = {"made_by": "cxrtext import", "version": 1, "layout": layout}
    return {**made, **noted, "key": ids.fingerprint}


def claim_folder(out: Path, root: Path, options: ImportOptions, layout: str, ids: Ids) -> None:
    """Note the options in a new or empty folder, or check that an earlier run noted the same."""
    if out.exists() and not out.is_dir():
        raise DataError(f"{out}: is a file; name a folder")
    home, parameters = out.resolve(), _parameters(options, layout, ids)
    if root.is_relative_to(home):
        raise ConfigError(f"{out}: holds the set itself; name another folder as --out")
    if options.hash_key is not None and options.hash_key.resolve().is_relative_to(home):
        raise ConfigError(f"{options.hash_key}: the key would lie with the data; keep it elsewhere")
    note = out / NOTE
    if note.is_file():
        if not (noted := read_note(note)):
            raise DataError(f"{note}: not readable; remove the folder or name another")
        if other := [name for name in parameters if noted.get(name) != parameters[name]]:
            raise DataError(
                f"{note}: the folder was imported with another {', '.join(other)}; name another "
                "folder, or remove this one"
            )
        return
    if out.is_dir() and any(not entry.name.startswith(".") for entry in out.iterdir()):
        raise DataError(
            f"{out}: the folder is not empty and was not made by an import; name another"
        )
    out.mkdir(mode=0o700, parents=True, exist_ok=True)
    out.chmod(0o700)  # for its owner alone
    write_sealed(note, parameters)


Of = Literal["image", "report", "labels", "box"]
"""What a left-out item would have become."""
_ROW = re.compile(
    r"(?:[\w.-]+ )?(?:row|line|annotation) \d+|labels of [0-9a-f]{24}"  # a hashed id
)


class LeftOutList:
    """Counts what is left out and lists it with the reason; over ``limit`` damaged items raise.

    With hashed ids, files are listed under hashes too, because their names may be patients'.
    """

    def __init__(self, out: Path, ids: Ids, limit: int) -> None:
        self.counts: Counter[str] = Counter()
        self.not_there: list[str] = []  # the first files that are listed but missing
        self.first = ""  # the first damaged item
        self.path = out / WRITTEN[-1]
        # Damaged items so far: a row of a table of images and reports is listed once.
        self._said = set[tuple[str, str]]()
        self._ids, self._limit = ids, limit
        self._writer = RowWriter(self.path, dict.fromkeys(("item", "kind", "reason", "of"), "text"))

    def __enter__(self) -> "LeftOutList":
        self._writer.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        # Written whatever happens: after too many damaged files the user needs the list.
        self._writer.__exit__(None, None, None)
        if not self.counts:
            self.path.unlink(missing_ok=True)

    def _shown(self, item: str) -> str:
        if not self._ids.hashed or _ROW.fullmatch(item):
            return item
        return f"file {self._ids.of('file', item)}"

    def add(self, entry: LeftOut, of: Of = "image") -> None:
        item, reason = self._shown(entry.where), entry.why
        if (said := (item.removeprefix("reports "), reason)) in self._said:
            return
        if entry.damaged:
            self._said.add(said)
            self.first = self.first or f"{item}: {reason}"
        else:
            why = entry.why or (self._shown(entry.other) if entry.other else "")
            reason = f"{entry.what}: {why}" if why else entry.what
        kind = "damaged" if entry.damaged else "left out"
        self.counts[entry.what] += 1
        if entry.what == NOT_THERE and len(self.not_there) < 3 and entry.other:
            self.not_there.append(self._shown(entry.other))
        self._writer.write({"item": item, "kind": kind, "reason": reason, "of": of})
        if self.counts[DAMAGED] > self._limit:
            raise DataError(
                f"{self.counts[DAMAGED]} bad items, more than --max-rejected {self._limit}; the "
                f"last: {item}: {entry.why} (all of them: {self.path})"
            )
