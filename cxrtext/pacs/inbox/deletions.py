"""What a source says that it deleted: noted, or the same images forgotten here.

A source can withdraw only what came from it.
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

NOT_HERE = "nothing of it is here that came before"
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
    """Do what deletions ask for: by the policy of the peer that each is of, or note it alone."""
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
            for one in held:
                finishing.done(one, "left out", DELETED)
            if not (instance or held):
                finishing.done(entry, "noted", NOT_HERE)
            elif entry in forgetting:
                if instance:
                    _forget(finishing, instance)
                finishing.done(entry, "forgotten")
            else:
                finishing.done(entry, "noted")


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


def _read(entry: Entry) -> str:
    """The UID that a deletion names; "" where it cannot be read."""
    with suppress(ValueError, AttributeError, OSError):
        return str(json.loads(entry.path.read_bytes()).get("instance", ""))
    return ""


def _came_before(inbox: Inbox, entry: Entry, instance: str) -> bool:
    """Whether an object came from the source of a deletion, and not anew while that was held."""
    with inbox.database.reading() as database:
        found = database.execute(
            "SELECT 1 FROM objects WHERE source = ? AND entry < ? AND instance = ?",
            (entry.source, entry.number, instance),
        ).fetchone()
    return found is not None


def _waiting(
    inbox: Inbox, entries: Iterable[Entry], asked: Mapping[int, str]
) -> Mapping[int, list[Entry]]:
    """The objects that each deletion names and that are held, or failed: none may enter later."""
    found: dict[int, list[Entry]] = defaultdict(list)
    numbers = {(one.source, asked[one.number]): one.number for one in entries if asked[one.number]}
    sources = {source for source, _ in numbers}
    for one in inbox.held():
        if one.what == "object" and one.source in sources:
            with suppress(ImageError, OSError):
                uid = object_ids(described(read_wanted(one.path, IDS), IDS)).instance
                number = numbers.get((one.source, uid), 0)
                if one.number < number:  # a later one came anew
                    found[number].append(one)
    return found
