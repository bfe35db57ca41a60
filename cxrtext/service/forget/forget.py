"""Forget somebody: from finding out who they are to the signed line that says it was done.

What is known about them is kept in its own file until all is done.  So a stopped run can continue
even if the tables that said who they are no longer do.
"""

import getpass
import gzip
import hashlib
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from cxrtext.datasets.admission.ids import IDS, Ids, object_ids, read_key
from cxrtext.errors import DataError, ImageError
from cxrtext.files import only_one, open_regular, remove_file, sha256
from cxrtext.files.signed_log import append_signed, key_of, mark_of
from cxrtext.images.dicom.described import described
from cxrtext.images.dicom.file import read_wanted
from cxrtext.index.maintain import forget_images, traces
from cxrtext.index.store.catalogue import CATALOGUE, Catalogue
from cxrtext.index.store.writer import NEXT
from cxrtext.pausing import StageProgress
from cxrtext.service.forget import stores, tables
from cxrtext.service.forget.places import KnownFiles, find_places, is_manifest, sweep_below
from cxrtext.service.forget.subject import STUDY_COLUMNS, Subject

Kind = Literal["patient", "study"]

LOG = "forgotten.jsonl"
"""The log of what was forgotten, in the first folder unless another file is named."""

SCAN_BYTES = 16 * 2**20
ROUNDS = 5  # of following ids from table to table; two are usual

MODEL = (
    "a model's weights, reference images and verdicts keep what they learned: train again without "
    "these images, or run 'cxrtext calibrate --keep-reference' for the last two"
)
BACKUP = "a backup is not changed: remove it, and make a new one"
JOB = "shards are not changed: remove the folder once its index or table is made, or start it again"
NAMED = "names them, and is of a kind that is not changed: remove it, or make it again"
OUTSIDE = "is outside the given folders: name its folder, too"
AUDIT = "an audit log says on purpose who saw what: follow your own rules for such logs"
OTHERS = (
    "the index has studies with these ids under another patient: if this is the same person, "
    "forget them by --study"
)
UNREADABLE = "cannot be searched for their ids: repair it and run the command again, or remove it"
ELSEWHERE = (
    "copies elsewhere: the hospital's own files, other machines, exports, printed pages, and "
    "whatever was sent to a peer"
)


@dataclass(frozen=True, slots=True)
class Place:
    what: str  # kind of place, such as "manifest" or "index"
    path: str
    entries: int  # rows, files, images
    done: bool  # whether nothing about them is left there
    why: str = ""  # why something stays, and what to do about it


@dataclass(slots=True)
class Forgotten:
    dry_run: bool
    places: list[Place] = field(default_factory=list)
    studies: int = 0
    images: int = 0
    log: str = ""  # the file with the signed line

    @property
    def left(self) -> list[Place]:
        """The places that still hold something."""
        return [place for place in self.places if place.why]


def forget(
    folders: list[Path],
    *,
    patient: str | None = None,
    study: str | None = None,
    dry_run: bool = False,
    hash_key: Path | None = None,
    log: Path | None = None,
    key: Path | None = None,
    wait_s: float = 60.0,
    progress: StageProgress | None = None,
) -> Forgotten:
    """Remove a patient or a study from every place below some folders that keeps them.

    Images, rows of tables, whole caches, and images of indexes with their vectors, sentences and
    uploads are removed, so that no byte of them stays in a file.  Files of kinds that cannot be
    changed are named.  It may be stopped at any time and run again, and servers may run.

    Args:
        folders: All that may hold something: data folders, runs, caches, indexes, folders of
            uploads; backups and models in them are named.
        patient: The id of a patient, as in manifests and indexes.
        dry_run: Whether to change nothing, and say what would be done.
        hash_key: The key file of an import that replaced ids by hashes; the id is then the
            hospital's, and is searched for unhashed, too.
        log: The file for the signed line; by default ``forgotten.jsonl`` in the first folder.
        key: The file of the signing key, made if it is missing; by default beside the log, with
            the ending ``.key``.
    """
    if (patient is None) == (study is None) or not (patient or study):
        raise DataError("name either a patient or a study")
    kind: Kind = "patient" if study is None else "study"
    name = str(patient if study is None else study)
    for folder in folders:
        if not folder.is_dir():
            raise DataError(f"{folder}: no such folder")
    tell = progress or (lambda _stage, _done, _total: None)
    log = log or folders[0] / LOG
    key = key or log.with_suffix(".key")
    plan = folders[0] / f".forget-{hashlib.sha256(f'{kind} {name}'.encode()).hexdigest()[:16]}"
    if not dry_run:
        sweep_below(folders)
    places = find_places(folders, lambda count: tell("looking for files", count, count + 1))
    ids = Ids(None if hash_key is None else read_key(hash_key))
    subject = Subject(ids=ids)
    work = _Work(places, subject, tell, wait_s, {log.resolve(), key.resolve(), plan.resolve()})
    known = subject.patients if kind == "patient" else subject.studies
    known.update({name, ids.of(kind, name)})
    with ExitStack() as stack:
        if not dry_run:
            stack.enter_context(only_one(plan))
        resumed = plan.is_file()
        subject.load(plan)
        work.learn()
        before = work.look()
        result = Forgotten(dry_run, [], len(subject.studies), len(subject.images))
        if not before and not resumed:
            raise DataError(
                f"no {kind} with this id is known below {', '.join(map(str, folders))}; give the "
                "id as in the manifest, and every folder that may hold something"
            )
        before += work.caches()
        if dry_run:
            result.places = [*before, *work.elsewhere()]
            return result
        secret = key_of(key)
        subject.save(plan)
        work.remove()
        now = [*work.look(), *work.caches()]
        result.places = [*_after(before, now), *work.elsewhere()]
        _sign(log, secret, kind, name, result)
        remove_file(plan)
    return result


def _after(before: list[Place], now: list[Place]) -> list[Place]:
    """The places found before, each with whether something is left there now."""
    left = {(place.what, place.path): place for place in now}
    places = []
    for place in before:
        still = left.pop((place.what, place.path), None)
        if still is None:
            places.append(Place(place.what, place.path, place.entries, True))
        else:
            why = still.why or "could not be removed; run the command again"
            places.append(Place(place.what, place.path, still.entries, False, why))
    return [*places, *left.values()]


def _sign(log: Path, secret: bytes, kind: Kind, name: str, result: Forgotten) -> None:
    removed = Counter[str]()
    for place in result.places:
        if place.done:
            removed[place.what] += place.entries
    append_signed(
        log,
        secret,
        event="forgotten",
        kind=kind,
        subject=mark_of(secret, kind, name),
        by=getpass.getuser(),
        removed=removed,
        left=sorted({place.what for place in result.left}),
    )
    result.log = str(log)


class _Work:
    def __init__(
        self,
        places: KnownFiles,
        subject: Subject,
        tell: StageProgress,
        wait_s: float,
        own: set[Path],
    ) -> None:
        self._places, self._subject, self._own = places, subject, own
        self._tell, self._wait_s = tell, wait_s
        self._dicom: dict[Path, tuple[str, str]] = {}  # patient and study of headers
        self._unread: list[Path] = []  # pictures that no table lists, without a header to read
        self._damaged: list[Path] = []  # files of other kinds that cannot be read to their end

    # --- who they are ---

    def learn(self) -> None:
        """Follow ids through manifests, indexes and headers until nothing new is found."""
        places, subject = self._places, self._subject
        listed = self._listed()
        for number, path in enumerate(places.pictures):
            self._tell("reading headers", number + 1, len(places.pictures))
            if path.resolve() in listed:
                continue
            if said := _header_ids(path):
                self._dicom[path] = said
            else:
                self._unread.append(path)
        for _ in range(ROUNDS):
            before = subject.size
            for path in filter(_lists_studies, places.tables):
                self._learn_ids(path)
            for folder in places.indexes:
                if folder.name != NEXT:  # its images are named by numbers
                    self._learn_index(folder)
            received = {path.parent / stores.OBJECTS for _, path in places.stores}
            for path, (patient, study) in self._dicom.items():
                # The gateway adds the issuer to a patient id if the header names none.
                names = subject.patients | (subject.bare if path.parent in received else set())
                if patient in names or study in subject.studies:
                    subject.studies.update({study, subject.ids.of("study", study)} - {""})
                    subject.files.add(str(path))
            for store, path in places.stores:
                if store is stores.PEER:
                    stores.learn_peer(path, subject)
            if subject.size == before:
                break
        for file in sorted(subject.files):
            if Path(file).is_file():
                subject.digests.add(sha256(Path(file)))

    def _listed(self) -> set[Path]:
        return {
            (path.parent / str(row["image"])).resolve()
            for path in self._places.tables
            for row in tables.rows_of(path)
            if row.get("image") and row.get("study_id")
        }

    def _learn_ids(self, path: Path) -> None:
        subject = self._subject
        for row in tables.rows_of(path):
            if subject.has(row):
                subject.studies.update(str(row[c]) for c in STUDY_COLUMNS if row.get(c))
                if row.get("image"):
                    subject.images.add(str(row["image"]))
                    subject.files.add(str((path.parent / str(row["image"])).absolute()))

    def _learn_index(self, folder: Path) -> None:
        subject = self._subject
        with Catalogue(folder / CATALOGUE) as catalogue:
            for image, study, path in self._indexed(catalogue):
                subject.images.add(image)
                subject.studies.add(study)
                subject.files.add(path)

    def _indexed(self, catalogue: Catalogue) -> Iterator[tuple[str, str, str]]:
        subject = self._subject
        column = "patient_id" if subject.patients else "study_id"
        for value in sorted(subject.patients or subject.studies):
            for name, study, root, file in catalogue.database.execute(
                "SELECT image, study_id, path, file FROM images JOIN roots USING (root) "  # noqa: S608
                f"WHERE {column} = ?",
                (value,),
            ).fetchall():
                yield name, study, str(Path(root) / (file or name))

    def _under_others(self, catalogue: Catalogue) -> int:
        """Images of their studies that an index has under another patient."""
        if not self._subject.patients:
            return 0
        return sum(
            str(patient) not in self._subject.patients
            for study in self._subject.studies
            for (patient,) in catalogue.database.execute(
                "SELECT patient_id FROM images WHERE study_id = ?", (study,)
            ).fetchall()
        )

    # --- where they are ---

    def look(self) -> list[Place]:
        places, subject = self._places, self._subject
        places_left: list[Place] = []

        def add(what: str, path: Path, entries: int, why: str = "") -> None:
            if entries:
                places_left.append(Place(what, str(path), entries, False, why))

        for folder in places.indexes:
            with Catalogue(folder / CATALOGUE) as catalogue:
                entries = len({name for name, *_ in self._indexed(catalogue)})
                add("index", folder, entries)
                add("studies of another patient", folder, self._under_others(catalogue), OTHERS)
                if not entries:
                    add("vectors of deleted images", folder, traces(folder, catalogue))
        for store, path in places.stores:
            add(store.what, path, stores.count(store, path, subject))
        for path in self._files():
            add("image", path, 1, "" if places.inside(path) else OUTSIDE)
        for path in self._texts():
            add("report", path, 1)
        for path in [path for path in places.tables if path.is_file()]:
            what = "manifest" if is_manifest(path) else "table"
            add(what, path, tables.count(path, subject))
        for path, why in self._others():
            add("other file", path, 1, why)
        return places_left

    def caches(self) -> list[Place]:
        """The caches, one entry each: they are removed whole, whoever is in them."""
        return [
            Place(what, str(path), 1, False) for what, path in self._places.caches if path.exists()
        ]

    def _files(self) -> list[Path]:
        return [path for file in sorted(self._subject.files) if (path := Path(file)).is_file()]

    def _texts(self) -> list[Path]:
        return [p for p in self._places.texts if p.stem in self._subject.studies and p.is_file()]

    def _others(self) -> Iterator[tuple[Path, str]]:
        """Files of other kinds that name them, and why each stays."""
        needles = [needle.encode("utf-8", "surrogateescape") for needle in self._subject.needles()]
        gone = set(self._texts())
        self._damaged.clear()
        # Tables that name them outside the id columns only, such as in a path.
        tables_left = [
            path for path in self._places.tables if not tables.count(path, self._subject)
        ]
        others = (*self._places.others, *self._unread, *self._places.texts, *tables_left)
        paths = [path for path in others if path not in gone]
        for number, path in enumerate(paths):
            self._tell("searching other files", number + 1, len(paths))
            if path.resolve() in self._own or not path.is_file():
                continue
            if path.name.startswith("SHA256SUMS"):
                continue  # it loses the names of removed files anyway
            try:
                if _names_one(path, needles):
                    # The first line shows whether it is an audit log.
                    start = next(_content(path), b"").partition(b"\n")[0]
                    yield path, AUDIT if b'"request_id"' in start else NAMED
            except (OSError, EOFError, ValueError, zlib.error):
                self._damaged.append(path)

    def elsewhere(self) -> list[Place]:
        """Places that this command cannot change or look into."""
        places = self._places
        models = [path for path in places.models if (path / "model.safetensors").is_file()]
        whole = (
            ("backup", places.backups, BACKUP),
            ("archive job", places.jobs, JOB),
            ("model", models, MODEL),
            ("unreadable file", self._damaged, UNREADABLE),
        )
        places_left = [
            Place(what, str(path), 1, False, why) for what, some, why in whole for path in some
        ]
        return [*places_left, Place("elsewhere", "-", 0, False, ELSEWHERE)]

    # --- and out of them ---

    def remove(self) -> None:
        """Remove them everywhere, last from the tables that say who they are."""
        places, subject = self._places, self._subject
        for store, path in places.stores:
            if stores.count(store, path, subject):
                stores.forget(store, path, subject)
        for what, path in places.caches:
            stores.remove_cache(what, path)
        for number, folder in enumerate(places.indexes):
            self._tell("rewriting indexes", number, len(places.indexes))
            with Catalogue(folder / CATALOGUE) as catalogue:
                images = sorted({name for name, *_ in self._indexed(catalogue)})
                is_theirs = images or traces(folder, catalogue)
            if is_theirs:
                forget_images(folder, images, wait_s=self._wait_s)
        gone = [path for path in (*self._files(), *self._texts()) if places.inside(path)]
        # Before the files are removed: a missing file is not looked for.
        for folder in {path.parent for path in gone}:
            tables.relist(folder, {path: None for path in gone if path.parent == folder})
        for number, path in enumerate(gone):
            self._tell("removing files", number + 1, len(gone))
            remove_file(path)
        for path in sorted(places.tables, key=is_manifest):
            self._tell("rewriting tables", 0, 1)
            if tables.count(path, subject):
                tables.take_out(path, subject)


def _lists_studies(path: Path) -> bool:
    row = next(tables.rows_of(path), {})
    return "study_id" in row and bool({"image", "patient_id"} & set(row))


def _header_ids(path: Path) -> tuple[str, str] | None:
    if path.suffix.lower() not in (".dcm", ""):
        return None
    try:
        ids = object_ids(described(read_wanted(path, IDS), IDS))
    except (ImageError, OSError):
        return None
    return ids.patient, ids.study


def _names_one(path: Path, needles: list[bytes]) -> bool:
    """Whether a file holds one of these texts with no letter or digit beside it."""
    longest, text = max(map(len, needles), default=0) + 2, b" "
    for data in _content(path):
        text = text[-longest:] + data
        if any(_stands(text, needle) for needle in needles):
            return True
    return any(_stands(text + b" ", needle) for needle in needles)


def _content(path: Path) -> Iterator[bytes]:
    """A file's decompressed content in pieces, or the cells of a Parquet file by row group."""
    if path.suffix.lower() == ".parquet":
        for group in tables.row_groups(path):
            cells = (str(cell) for row in group.to_pylist() for cell in row.values())
            yield "\n".join([*cells, ""]).encode("utf-8", "surrogateescape")
        return
    with open_regular(path) as raw:
        handle = gzip.GzipFile(fileobj=raw) if path.suffix.lower() == ".gz" else raw
        while data := handle.read(SCAN_BYTES):
            yield data


def _stands(text: bytes, needle: bytes) -> bool:
    alone = rb"[^0-9A-Za-z]" + re.escape(needle) + rb"[^0-9A-Za-z]"
    return needle in text and re.search(alone, text) is not None
