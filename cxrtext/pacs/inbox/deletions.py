"""What a source says that it deleted: noted, or the same images forgotten here.

A source can withdraw only what came from it.
"""

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Literal, NamedTuple

from cxrtext.datasets.admission.ids import IDS, Ids, object_ids
from cxrtext.errors import ImageError
from cxrtext.images.dicom.described import described
from cxrtext.images.dicom.file import read_wanted
from cxrtext.index.entry import Imported
from cxrtext.index.maintain import forget_images
from cxrtext.pacs.inbox.queue import WRITE_WAIT_S, Entry, Finishing, Inbox
from cxrtext.service import Service

OnDeletion = Literal["note", "forget"]
NOT_HERE = "nothing of it is here that came before"
DELETED = "deleted at its source"
NO_DELETION = "names no study and no object"


class _Named(NamedTuple):
    """What a deletion names, by UIDs; one of the two is empty."""

    study: str
    instance: str


def deletion(*, study: str = "", instance: str = "") -> bytes:
    """What `Inbox.put` takes for a deletion: of a study, or of one object, by its UID."""
    if bool(study) == bool(instance):
        raise ValueError("name either a study or an object")
    return json.dumps({"study": study} if study else {"instance": instance}).encode()


def take_deletions(
    inbox: Inbox,
    service: Service,
    ids: Ids,
    entries: Sequence[Entry],
    policies: Mapping[str, OnDeletion],
    imported: Imported,
) -> list[str]:
    """Do what deletions ask for by each source's policy, or "note"; gives the ids forgotten."""
    asked = {entry.number: _read(entry) for entry in entries}

    def called(instance: str) -> str:
        return imported.called(service.index.catalogue, ids.of("instance", instance))

    named = {
        entry.number: None if said is None else _indexed(inbox, entry, said, ids, called)
        for entry, said in zip(entries, asked.values(), strict=True)
    }
    followed = [entry for entry in entries if policies.get(entry.source) == "forget"]
    gone = [instance for entry in followed for instance in named[entry.number] or ()]
    if gone:
        forget_images(service.index.folder, gone, wait_s=WRITE_WAIT_S)
    waiting = _waiting(inbox, followed, asked)
    now = time.time()
    with inbox.finishing() as finishing:
        for entry in entries:
            instances = named[entry.number]
            if instances is None:
                finishing.fail(entry, NO_DELETION)
                continue
            if entry.number not in waiting:  # its source is not followed
                finishing.database.executemany(
                    "UPDATE objects SET deleted = ? WHERE instance = ?",
                    [(now, instance) for instance in instances],
                )
                finishing.done(entry, "noted", "" if instances else NOT_HERE)
                continue
            held = waiting[entry.number]
            for one in held:
                finishing.done(one, "left out", DELETED)
            for instance in instances:
                _forget(finishing, instance)
            if instances or held:
                finishing.done(entry, "forgotten")
            else:
                finishing.done(entry, "noted", NOT_HERE)
    return gone


def _forget(finishing: Finishing, instance: str) -> None:
    """Know no more of an object, nor of the reports of its study where it was the last of it."""
    database = finishing.database
    (study,) = database.execute(
        "SELECT study FROM objects WHERE instance = ?", (instance,)
    ).fetchone() or ("",)
    database.execute("DELETE FROM objects WHERE instance = ?", (instance,))
    finishing.release(study)
    if not database.execute("SELECT 1 FROM objects WHERE study = ?", (study,)).fetchone():
        database.execute("DELETE FROM reports WHERE joined = ?", (study,))


def _read(entry: Entry) -> _Named | None:
    try:
        value = json.loads(entry.path.read_bytes())
        return _Named(str(value.get("study", "")), str(value.get("instance", "")))
    except (ValueError, AttributeError, OSError):
        return None


def _indexed(
    inbox: Inbox, entry: Entry, said: _Named, ids: Ids, called: Callable[[str], str]
) -> list[str]:
    """What a deletion names of its source; not what came anew while it was held."""
    with inbox.database.reading() as database:
        rows = database.execute(
            "SELECT instance FROM objects WHERE source = ? AND entry < ? "
            "AND (instance = ? OR study = ?)",
            (entry.source, entry.number, called(said.instance), ids.of("study", said.study)),
        ).fetchall()
    return [found for (found,) in rows]


def _waiting(
    inbox: Inbox, entries: Iterable[Entry], asked: Mapping[int, _Named | None]
) -> dict[int, list[Entry]]:
    """The objects that each deletion names and that are held, or failed: none may enter later."""
    found: dict[int, list[Entry]] = {entry.number: [] for entry in entries}
    by_source: dict[str, dict[_Named, int]] = {}
    for entry in entries:
        if (said := asked[entry.number]) is not None:
            by_source.setdefault(entry.source, {})[said] = entry.number
    for source, numbers in by_source.items():
        for one in inbox.held():
            if (one.what, one.source) != ("object", source):
                continue
            with suppress(ImageError, OSError):
                own = object_ids(described(read_wanted(one.path, IDS), IDS))
                names = _Named(own.study, ""), _Named("", own.instance)
                number = next((numbers[name] for name in names if name in numbers), None)
                if number is not None and one.number < number:  # a later one came anew
                    found[number].append(one)
    return found
