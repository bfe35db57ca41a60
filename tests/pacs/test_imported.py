"""Images that were imported where they waited: corrections and deletions reach them, too."""

import csv
from pathlib import Path

import pytest

from cxrtext.datasets.admission.ids import Ids, read_key
from cxrtext.datasets.importing import ImportOptions, import_folder
from cxrtext.index import build_index
from cxrtext.index.entry import Imported
from cxrtext.index.store.catalogue import CATALOGUE, Catalogue, IndexedImage
from cxrtext.pacs.inbox.deletions import deletion
from cxrtext.pacs.inbox.intake import WorkerSettings
from cxrtext.pacs.inbox.queue import Inbox
from cxrtext.pacs.inbox.worker import Worker
from tests.pacs.studies import PLANTED, instance, study, uid
from tests.pacs.test_worker import forgetting, oru, outcomes

KEY = "a key of thirty-two characters. "


def images(index: Path) -> dict[str, IndexedImage]:
    """The images of the index that an import brought, by what they are called."""
    with Catalogue(index / CATALOGUE) as catalogue:
        found = map(catalogue.image, catalogue.known_images())
        return {one.image: one for one in found if one is not None}


@pytest.mark.parametrize("hashed", [False, True])
def test_what_waits_is_imported_then_known_and_corrected_and_deleted(
    hashed: bool, inbox: Inbox, checkpoint: Path, tmp_path: Path
) -> None:
    key = tmp_path / "key"
    key.write_text(KEY)
    ids = Ids(read_key(key) if hashed else None)
    for number in (1, 2, 3):
        for one in study(number):
            inbox.put("PACS", one)
    inbox.put("RIS", oru(1, "Small nodule."), "message")
    inbox.put("PACS", deletion("1.2.3.4"), "deletion")
    data, index, objects = tmp_path / "data", tmp_path / "index", inbox.folder / "objects"
    options = ImportOptions(reports=objects, hash_key=key if hashed else None)
    done = import_folder(objects, data, options)
    assert (done.images, done.reports) == (3, 1)
    with (data / "manifest.csv").open() as file:
        rows = {row["instance"]: row["image"] for row in csv.DictReader(file)}
    assert rows.keys() == {ids.of("instance", uid(n, 1, 1)) for n in (1, 2, 3)}
    build_index(data / "manifest.csv", checkpoint, index)
    before = images(index)

    settings = WorkerSettings(
        index, tmp_path / "kept", readers=1, peers=forgetting(),
        ids=ids,
    )  # fmt: skip
    with Worker(inbox, settings) as worker:
        worker.drain()
        found = [outcome for outcome, _ in outcomes(inbox, list(range(1, 9)))]
        assert found == ["again", "left out"] * 3 + ["report", "noted"]
        assert images(index) == before, "nothing was embedded again"
        merged = instance(2, 1, PatientID=f"{PLANTED}777777")
        numbers = [
            inbox.put("PACS", merged),
            inbox.put("PACS", deletion(uid(3, 1, 1)), "deletion"),
            inbox.put("PACS", instance(1, 1)),
        ]
        worker.drain()
    assert [outcome for outcome, _ in outcomes(inbox, numbers)] == [
        "replaced", "forgotten", "again",
    ]  # fmt: skip
    after = images(index)
    two, three = (rows[ids.of("instance", uid(n, 1, 1))] for n in (2, 3))
    assert after.keys() == before.keys() - {three}
    merged_into = ids.of("patient", f"{PLANTED}-HIS:{PLANTED}777777")
    assert after[two].patient_id == merged_into
    assert after[two].split == before[two].split
    assert after[two].metadata["instance"] == ids.of("instance", uid(2, 1, 1))


def test_an_uploaded_image_cannot_pass_for_an_imported_one(index_copy: Path) -> None:
    with Catalogue(index_copy / CATALOGUE, write=True) as catalogue:
        names = sorted(catalogue.known_images())[:2]
        with catalogue.transaction(write=True) as database:
            for name, key in zip(names, (None, "a key"), strict=True):
                database.execute(
                    "UPDATE images SET metadata = ?, added_by = ? WHERE image = ?",
                    (f'{{"instance": "1.2.{names.index(name)}"}}', key, name),
                )
        imported = Imported()
        assert imported.called(catalogue, "1.2.0") == names[0]
        assert imported.called(catalogue, "1.2.1") == "1.2.1"
