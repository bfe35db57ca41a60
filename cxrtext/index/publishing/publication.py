"""What lies where an index is published, in a folder or an object store.

::

    current                       which publication is the newest; the last that is written
    publications/DIGEST.json      which files it has, each as a list of pieces by their SHA-256
    objects/ab/abcd…              the pieces, named by their SHA-256
    publishing/TOKEN.json         a publisher at work; one that was killed leaves it behind

Files are cut into pieces of equal size.  Vectors are only ever appended to, so that all pieces of a
grown file but its last are there already.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import Any

from cxrtext.errors import DataError, NotFoundError
from cxrtext.files import seal_of, sealed, unsealed
from cxrtext.files.digests import check_inside
from cxrtext.files.storage import Storage
from cxrtext.index.store.replica import POINTER, PUBLICATIONS, PUBLISHED_FORMAT, Publication

OBJECTS, PUBLISHING = "objects", "publishing"
FORMAT, VERSION = "cxrtext publication", 1
PIECE_BYTES = 8 * 2**20

UPLOADS = "uploads"
"""What the first folder of uploads is called in a publication; further ones are ``uploads-2`` …"""

KILLED = timedelta(days=1)
"""After so long a publisher that is still noted was killed."""

BEFORE = datetime.min.replace(tzinfo=UTC)
AGAIN = "publish again into an empty place, or restore it from a copy"


@dataclass(frozen=True, slots=True)
class File:
    size: int  # bytes
    pieces: tuple[str, ...]  # digests of its parts, each but the last of PIECE_BYTES

    def parts(self) -> Iterator[tuple[str, int, int]]:
        for number, digest in enumerate(self.pieces):
            offset = number * PIECE_BYTES
            yield digest, offset, min(PIECE_BYTES, self.size - offset)


@dataclass(frozen=True, slots=True)
class Manifest:
    fingerprint: str  # of the model
    images: int
    sentences: int
    uploads: int  # files of images that were added over HTTP
    files: dict[str, File]  # by name, such as "index/catalogue.sqlite"

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files.values())

    @property
    def objects(self) -> dict[str, int]:
        parts = (part for file in self.files.values() for part in file.parts())
        return {digest: size for digest, _, size in parts}

    def as_json(self) -> dict[str, Any]:
        """As it is written; its digest is the publication's."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "fingerprint": self.fingerprint,
            "images": self.images,
            "sentences": self.sentences,
            "uploads": self.uploads,
            "piece_bytes": PIECE_BYTES,
            "files": {
                name: {"bytes": file.size, "pieces": list(file.pieces)}
                for name, file in sorted(self.files.items())
            },
        }

    @property
    def digest(self) -> str:
        return seal_of(self.as_json())


def object_name(digest: str) -> str:
    return f"{OBJECTS}/{digest[:2]}/{digest}"


def manifest_name(digest: str) -> str:
    return f"{PUBLICATIONS}/{digest}.json"


def encoded(value: dict[str, Any]) -> bytes:
    return (json.dumps(sealed(value), indent=1, ensure_ascii=False) + "\n").encode()


def write_manifest(storage: Storage, manifest: Manifest, taken: datetime) -> None:
    noted = {"published": in_words(taken), "content": manifest.as_json()}
    storage.commit(manifest_name(manifest.digest), encoded(noted))


def read_manifest(storage: Storage, digest: str) -> tuple[Manifest, datetime]:
    """What a publication holds, and when it was taken (DataError, NotFoundError)."""
    name = manifest_name(digest)
    noted = _read(storage, name)
    if noted is None:
        raise NotFoundError(f"{storage.address}: {name} is missing; {AGAIN}")
    try:
        return parse_manifest(noted, digest), datetime.fromisoformat(noted["published"])
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{storage.address}: {name}: {error}; {AGAIN}") from None


def parse_manifest(noted: dict[str, Any], digest: str) -> Manifest:
    """A manifest as it was written (KeyError, TypeError or ValueError of another's form)."""
    content = noted["content"]
    if content["format"] != FORMAT or content["version"] > VERSION:
        raise ValueError("written by a newer version of cxrtext; update cxrtext")
    if seal_of(content) != digest or content["piece_bytes"] != PIECE_BYTES:
        raise ValueError("is not what its name says")
    files = {
        name: File(int(file["bytes"]), tuple(file["pieces"]))
        for name, file in content["files"].items()
    }
    for name, file in files.items():
        check_inside(name)
        if len(file.pieces) != -(-file.size // PIECE_BYTES):
            raise ValueError(f"{name} has pieces of another size")
    images, sentences, uploads = (int(content[n]) for n in ("images", "sentences", "uploads"))
    return Manifest(str(content["fingerprint"]), images, sentences, uploads, files)


def write_pointer(storage: Storage, digest: str, taken: datetime) -> None:
    noted = {"format": PUBLISHED_FORMAT, "publication": digest, "published": in_words(taken)}
    storage.commit(POINTER, encoded(noted))


def read_pointer(storage: Storage) -> Publication | None:
    """The newest publication; None where nothing was published yet (DataError of a damaged one)."""
    noted = _read(storage, POINTER)
    if noted is None:
        return None
    if noted.get("format") != PUBLISHED_FORMAT:
        raise DataError(
            f"{storage.address}: is no place where an index is published; name another one"
        )
    return Publication(noted["publication"], noted["published"])


def publishers(storage: Storage) -> dict[str, datetime]:
    """When each publisher began that is at work, or was killed at it, by the name of its note.

    One that is known to be gone, as its process was of this machine, began before all days.
    """
    found = {}
    for name in storage.names(f"{PUBLISHING}/"):
        noted = _read(storage, name)
        if noted is not None:
            gone = _is_gone(noted.get("process"))
            found[name] = BEFORE if gone else datetime.fromisoformat(noted["begun"])
    return found


def process_mark(number: int | str = "self") -> list[str | int] | None:
    """What a process of this machine is known by: machine, user, number, and when it began."""
    try:
        stat = Path(f"/proc/{number}/stat").read_text(encoding="utf-8", errors="replace")
        machine = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        names = Path("/proc/self/ns/pid").readlink()
    except OSError:
        return None
    began = int(stat.rpartition(")")[2].split()[19])
    return [f"{machine} {names}", os.getuid(), int(stat.split()[0]), began]


def _is_gone(mark: Any) -> bool:
    own = process_mark()
    if own is None or not isinstance(mark, list) or mark[:2] != own[:2]:
        return False  # of elsewhere, or not to be seen from here
    return process_mark(mark[2]) != mark


def _read(storage: Storage, name: str) -> dict[str, Any] | None:
    try:
        data = storage.read(name)
    except NotFoundError:
        return None
    try:
        return unsealed(data)
    except ValueError as error:
        raise DataError(f"{storage.address}: {name}: {error}; {AGAIN}") from None


def read_piece(storage: Storage, digest: str) -> bytes:
    """A piece, compared with its digest (DataError, NotFoundError)."""
    name = object_name(digest)
    data = storage.read(name)
    if digest_of(data) != digest:
        raise DataError(
            f"{storage.address}: {name}: is not what its name says: it is damaged; remove it and "
            "publish the index again"
        )
    return data


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def now() -> datetime:
    return datetime.fromisoformat(in_words(datetime.now(UTC)))


def in_words(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds")


def collect(storage: Storage, keep: int, grace_s: float, own: str) -> tuple[int, bool]:
    """Remove publications neither among the newest nor replaced a moment ago, and pieces of none.

    Nothing is removed while another publisher is at work, who may rely on pieces that no
    publication names yet, or where a publication is damaged (DataError).  Gives how many went, and
    whether all did that are to.

    Args:
        keep: How many publications stay, that which is pulled among them.
        grace_s: How long one stays after it was replaced, for those who are pulling it.
        own: Name of the note that this publisher is at work.
    """
    if _others_work(storage, own):
        return 0, False
    current = read_pointer(storage)
    newest = None if current is None else current.digest
    names = {PurePosixPath(name).stem for name in storage.names(f"{PUBLICATIONS}/")}
    # A store may list late what was written just now.
    names |= set() if newest is None else {newest}
    found = [(digest, *read_manifest(storage, digest)) for digest in names]
    # That which is pulled, then the newest; by the clock alone one ahead would be it forever.
    found.sort(key=lambda one: (one[0] == newest, one[2]), reverse=True)
    digests = [digest for digest, *_ in found]
    out_of_date = now() - timedelta(seconds=grace_s)
    gone = [
        digest
        for place, digest in enumerate(digests)
        if place >= max(1, keep) and min(time for *_, time in found[:place]) <= out_of_date
    ]
    for digest in gone:
        storage.remove(manifest_name(digest))
    named = {
        object_name(piece)
        for digest, manifest, _ in found
        if digest not in gone
        for piece in manifest.objects
    }
    for name in [name for name in storage.names(f"{OBJECTS}/") if name not in named]:
        # One that begins while pieces are removed has seen them, and counts on those that are left.
        if _others_work(storage, own):
            return len(gone), False
        storage.remove(name)
    return len(gone), True


def _others_work(storage: Storage, own: str) -> bool:
    """Whether another publisher is at work; notes of those that were killed are removed."""
    begun = publishers(storage)
    for name, time in begun.items():
        if now() - time > KILLED:
            storage.remove(name)
    return any(name != own and now() - time <= KILLED for name, time in begun.items())
