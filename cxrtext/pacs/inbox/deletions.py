"""What a source says that it deleted: noted, or the same images forgotten here.

A source can withdraw only what came from it.
"""

import json
import time
from collections.abc import Mapping, Sequence
from typing import Literal

from cxrtext.datasets.admission.ids import Ids
from cxrtext.index.maintain import forget_images
from cxrtext.pacs.inbox.inbox import Entry, Inbox
from cxrtext.service import Service

OnDeletion = Literal["note", "forget"]
NOT_HERE = "nothing of it is here"
NO_DELETION = "names no study and no object"
WRITE_WAIT_S = 600.0


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
) -> list[str]:
    """Do what deletions at sources ask for; gives the ids of images that were forgotten.

    Args:
        policies: What is done, by source; "note" of others.

    Raises:
        CxrTextError: The index cannot be written; nothing is noted.
    """
    named = {entry.number: _named(inbox, entry, ids) for entry in entries}
    gone = [
        instance
        for entry in entries
        if policies.get(entry.source) == "forget"
        for instance in named[entry.number] or ()
    ]
    if gone:
        forget_images(service.index.folder, gone, wait_s=WRITE_WAIT_S)
    now = time.time()
    with inbox.finishing() as finishing:
        database = finishing.database
        for entry in entries:
            instances = named[entry.number]
            if instances is None:
                finishing.fail(entry, NO_DELETION)
                continue
            forgets = policies.get(entry.source) == "forget"
            for instance in instances if not forgets else ():
                database.execute(
                    "UPDATE objects SET deleted = ? WHERE instance = ?", (now, instance)
                )
            for instance in instances if forgets else ():
                (study,) = database.execute(
                    "SELECT study FROM objects WHERE instance = ?", (instance,)
                ).fetchone() or ("",)
                database.execute("DELETE FROM objects WHERE instance = ?", (instance,))
                finishing.release(study)
                if not database.execute(
                    "SELECT 1 FROM objects WHERE study = ?", (study,)
                ).fetchone():
                    database.execute("DELETE FROM reports WHERE joined = ?", (study,))
            outcome = "forgotten" if forgets and instances else "noted"
            finishing.done(entry, outcome, "" if instances else NOT_HERE)
    return gone


def _named(inbox: Inbox, entry: Entry, ids: Ids) -> list[str] | None:
    """The objects of a source that a deletion names; None where it is none."""
    try:
        value = json.loads(entry.path.read_bytes())
        study, instance = str(value.get("study", "")), str(value.get("instance", ""))
    except (ValueError, AttributeError, OSError):
        return None
    with inbox.database.reading() as database:
        rows = database.execute(
            "SELECT instance FROM objects WHERE source = ? AND (instance = ? OR study = ?)",
            (entry.source, ids.of("instance", instance), ids.of("study", study)),
        ).fetchall()
    return [found for (found,) in rows]
