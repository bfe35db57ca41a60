"""Deletions that a source reports: note them, or forget the same images here.

A source can withdraw only what it sent.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from cxrtext.datasets.admission.ids import IDS, object_ids
from cxrtext.errors import ImageError
from cxrtext.images.dicom.described import described
from cxrtext.images.dicom.file import read_wanted
from cxrtext.index.entry import Imported
from cxrtext.index.maintain import forget_images
from cxrtext.pacs.inbox.intake import WorkerSettings
from cxrtext.pacs.inbox.queue import WRITE_WAIT_S, Entry, Finishing, Inbox
from cxrtext.service import Service

NOT_HERE = "no such image came before it"
DELETED = "deleted at its source"
NO_DELETION = "names no object"


def deletion(instance: str) -> bytes:
    """What `Inbox.put` takes for the deletion of an object, by its UID."""
    return json.dumps({"instance": instance}).encode()


def take_deletions(
    inbox: Inbox,
    service: Service,
    settings: WorkerSettings,
    entries: Sequence[Entry],
    imported: Imported,
) -> None:
    """Forget or only note what was deleted, as ``on_deletion`` of each source says."""
    asked = {entry.number: _read(entry) for entry in entries}
    here: dict[int, str] = {}
    for entry in entries:
        uid = settings.ids.of("instance", asked[entry.number])
        called = imported.called(service.archive.catalogue, uid) if uid else ""
        here[entry.number] = called if called and _came_before(inbox, entry, called) else ""
    forgetting = [entry for entry in entries if settings.forgets(entry.source)]
    if gone := [here[entry.number] for entry in forgetting if here[entry.number]]:
        forget_images(service.archive.folder, gone, wait_s=WRITE_WAIT_S)
    waiting = _waiting(inbox, forgetting, asked)
    with inbox.finishing() as finishing:
        for entry in entries:
            instance, held = here[entry.number], waiting[entry.number]
            if not asked[entry.number]:
                finishing.fail(entry, NO_DELETION)
                continue
            for object_entry in held:
                finishing.done(object_entry, "left out", DELETED)
            if not (instance or held):
                finishing.done(entry, "noted", NOT_HERE)
            elif entry in forgetting:
                if instance:
                    _forget(finishing, instance)
                finishing.done(entry, "forgotten")
            else:
                finishing.done(entry, "noted")


def _forget(finishing: Finishing, instance: str) -> None:
    """Drop the row of an object, and the reports of its study if it was the study's last."""
    database = finishing.database
    (study,) = database.execute(
        "SELECT study FROM objects WHERE instance = ?", (instance,)
    ).fetchone() or ("",)
    database.execute("DELETE FROM objects WHERE instance = ?", (instance,))
    finishing.release(study)
    if not database.execute("SELECT 1 FROM objects WHERE study = ?", (study,)).fetchone():
        database.execute("DELETE FROM reports WHERE joined = ?", (study,))


def _read(entry: Entry) -> str:
    """The UID that a deletion names, or "" if the entry cannot be read."""
    with suppress(ValueError, AttributeError, OSError):
        return str(json.loads(entry.path.read_bytes()).get("instance", ""))
    return ""


def _came_before(inbox: Inbox, entry: Entry, instance: str) -> bool:
    """Whether the deletion's source sent the object, and not again after the deletion."""
    with inbox.database.reading() as database:
        row = database.execute(
            "SELECT 1 FROM objects WHERE source = ? AND entry < ? AND instance = ?",
            (entry.source, entry.number, instance),
        ).fetchone()
    return row is not None


def _waiting(
    inbox: Inbox, entries: Iterable[Entry], asked: Mapping[int, str]
) -> Mapping[int, list[Entry]]:
    """By deletion, the held or failed objects that it names: none of them may enter later."""
    named: dict[int, list[Entry]] = defaultdict(list)
    numbers = {(one.source, asked[one.number]): one.number for one in entries if asked[one.number]}
    sources = {source for source, _ in numbers}
    for held in inbox.held():
        if held.what == "object" and held.source in sources:
            with suppress(ImageError, OSError):
                uid = object_ids(described(read_wanted(held.path, IDS), IDS)).instance
                number = numbers.get((held.source, uid), 0)
                if held.number < number:  # later ones were sent after the deletion
                    named[number].append(held)
    return named
