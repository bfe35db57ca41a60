"""Removing publications that nobody pulls any more, and the pieces that no publication names."""

from datetime import datetime, timedelta
from pathlib import PurePosixPath

from cxrtext.files.storage import Storage
from cxrtext.index.publishing.publication import (
    OBJECTS,
    Manifest,
    manifest_name,
    now,
    object_name,
    publishers,
    read_manifest,
    read_pointer,
)
from cxrtext.index.store.replica import PUBLICATIONS

KILLED = timedelta(days=1)
"""After so long a publisher that is still noted was killed."""


def collect(storage: Storage, keep: int, grace_s: float, own: str) -> tuple[int, bool]:
    """Remove what is neither among the newest nor was replaced a moment ago.

    Nothing is removed while another publisher is at work, who may rely on pieces that no
    publication names yet.

    Args:
        keep: How many publications stay, that which is pulled among them.
        grace_s: How long one stays after it was replaced, for those who are pulling it.
        own: Name of the note that this publisher is at work.

    Returns:
        How many publications were removed, and whether all was that is to be.

    Raises:
        DataError: A publication is damaged; then nothing is removed.
    """
    if _others_work(storage, own):
        return 0, False
    current = read_pointer(storage)
    found = _publications(storage, None if current is None else current.digest)
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
    unnamed = [name for name in storage.names(f"{OBJECTS}/") if name not in named]
    for name in unnamed:
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


def _publications(storage: Storage, current: str | None) -> list[tuple[str, Manifest, datetime]]:
    """Digest, content and time of each publication: that which is pulled, then the newest first."""
    digests = {PurePosixPath(name).stem for name in storage.names(f"{PUBLICATIONS}/")}
    # A store may list late what was written just now.
    digests |= set() if current is None else {current}
    found = [(digest, *read_manifest(storage, digest)) for digest in digests]
    # By the clock alone one of a clock that was ahead would be the newest forever.
    return sorted(found, key=lambda one: (one[0] == current, one[2]), reverse=True)
