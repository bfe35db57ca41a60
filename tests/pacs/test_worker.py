"""From the inbox into an index: once each, by the rules of import, corrected by what comes."""

import json
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from cxrtext.datasets.admission.decide import OTHER_MODALITY, OTHER_PART, RAW, SECONDARY
from cxrtext.datasets.admission.ids import Ids
from cxrtext.datasets.importing.resolving import EQUAL, TWO_PATIENTS, WHOSE
from cxrtext.errors import ImageError, InputError
from cxrtext.index import make_index, rewrite
from cxrtext.index.store.catalogue import CATALOGUE, Catalogue
from cxrtext.index.store.writer import writing
from cxrtext.pacs.identity import MANUFACTURER, series_description
from cxrtext.pacs.inbox import desk
from cxrtext.pacs.inbox.deletions import NOT_HERE, deletion
from cxrtext.pacs.inbox.intake import OWN, WorkerSettings
from cxrtext.pacs.inbox.queue import Inbox, What
from cxrtext.pacs.inbox.reports import ANOTHERS, TWO_STUDIES
from cxrtext.pacs.inbox.status import read_status
from cxrtext.pacs.inbox.worker import DAMAGED, ENDED_IT, LOST, Worker
from cxrtext.pacs.peers import Peer
from cxrtext.service import load_service
from cxrtext.service.forget.forget import forget
from tests.conftest import flip
from tests.images.conftest import make_dicom
from tests.pacs.orthanc import absent
from tests.pacs.studies import PLANTED, accept_all, archive, assert_nowhere, instance, study, uid
from tests.pacs.test_hl7_listen import merge

Take = Callable[..., list[tuple[str, str]]]


@pytest.fixture
def index(index_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(index_folder, tmp_path / "index"))


@pytest.fixture
def take(
    inbox: Inbox, index: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> Iterator[Take]:
    """Puts things into the inbox, takes them into the index; gives outcome and reason of each."""
    workers: list[Worker] = []

    def run(
        *given: bytes, what: What = "object", source: str = "PACS", **settings: Any
    ) -> list[tuple[str, str]]:
        if settings and workers:
            workers.pop().__exit__()
        if not workers:
            made = WorkerSettings(index, tmp_path / "archive", readers=1, **settings)
            workers.append(Worker(inbox, made))
        numbers = [inbox.put(source, data, what) for data in given]
        workers[0].drain()
        return outcomes(inbox, numbers)

    yield run
    for worker in workers:
        worker.__exit__()
    said = capfd.readouterr()
    assert PLANTED not in said.out + said.err


def outcomes(inbox: Inbox, numbers: list[int]) -> list[tuple[str, str]]:
    with inbox.database.reading() as database:
        rows = database.execute("SELECT entry, outcome, reason FROM entries").fetchall()
    found = {number: (outcome, reason) for number, outcome, reason in rows}
    assert PLANTED not in repr(found)
    return [found[number] for number in numbers]


def indexed(index: Path) -> dict[str, dict[str, Any]]:
    """Study, patient, metadata and labels of the images that came through the inbox."""
    with Catalogue(index / CATALOGUE) as catalogue:
        rows = catalogue.database.execute(
            "SELECT image, study_id, patient_id, split, metadata, number, path, file FROM images "
            "JOIN roots USING (root) WHERE file IS NOT NULL"
        ).fetchall()
        model = catalogue.meta()["model"]
        return {
            image: {
                "study": study_id, "patient": patient, "split": split, **json.loads(metadata),
                "labels": catalogue.labels([number], model)[number], "file": Path(root) / file,
            }
            for image, study_id, patient, split, metadata, number, root, file in rows
        }  # fmt: skip


def report_of(index: Path, study: int | str) -> list[str]:
    with Catalogue(index / CATALOGUE) as catalogue:
        name = uid(study) if isinstance(study, int) else study
        return [text for _, text in catalogue.report(name)]


def addendum() -> bytes:
    """A message with an addendum to the report that the index has of its study "s00"."""
    message = (
        oru(1, "Old rib fracture.").decode().replace("A000001", "s00").replace("59776-5", "ADT")
    )
    return message.replace(f"{PLANTED}000001^^^{PLANTED}-HIS", "p00").encode()


def forgetting(name: str = "PACS") -> dict[str, Peer]:
    """Peers, one of which takes what it deletes out of the index, too."""
    return {name: Peer.model_validate(absent(name, on_deletion="forget"))}


def oru(study: int, text: str, status: str = "F", time: str = "20240301120000") -> bytes:
    lines = (
        f"MSH|^~\\&|RIS|{PLANTED}|CXR|RESEARCH|{time}||ORU^R01|M{study}{status}|P|2.5.1",
        f"PID|1||{PLANTED}{study:06d}^^^{PLANTED}-HIS||{PLANTED}^Ana",
        f"OBR|1||A{study:06d}^{PLANTED} RIS|36643-5^XR|||{time}{'|' * 15}{time}|||{status}",
        f"OBX|1|TX|59776-5^Findings||{text}||||||{status}",
    )
    return "\r".join(lines).encode()


def test_each_object_enters_once_by_the_rules_of_import_with_labels_and_where_it_came_from(
    take: Take, index: Path, inbox: Inbox
) -> None:
    objects = archive(8)
    done = Counter(take(*objects))
    outcome = Counter(one for one, _ in done.elements())
    assert outcome == {"added": 7, "left out": 7}
    reasons = Counter(reason.partition(":")[0] for one, reason in done.elements() if one != "added")
    assert reasons == {"lateral view": 3, OTHER_PART: 1, OTHER_MODALITY: 1, SECONDARY: 1, RAW: 1}
    found = indexed(index)
    assert len(found) == 7
    one = found[uid(1, 1, 1)]
    assert (one["study"], one["patient"]) == (uid(1), f"{PLANTED}-HIS:{PLANTED}000001")
    assert (one["source"], one["view"], one["split"]) == ("PACS", "PA", "test")
    assert sum(name.startswith("label.") for name in one["labels"]) == 5
    assert one["file"].read_bytes()[128:132] == b"DICM"
    again = take(*objects)
    assert Counter(one for one, _ in again) == {"again": 7, "left out": 7}
    assert indexed(index) == found
    assert not list((inbox.folder / "objects").iterdir())


def test_a_corrected_object_takes_the_place_of_the_one_before_and_an_older_one_does_not(
    take: Take, index: Path
) -> None:
    changed: dict[str, Any] = {"PatientID": "RIGHT", "AccessionNumber": "B1"}
    assert take(instance(1)) == [("added", "looks like: other")]
    before = indexed(index)
    assert take(instance(1, **changed)) == [("replaced", "looks like: other")]
    (after,) = indexed(index).values()
    assert after["patient"] == f"{PLANTED}-HIS:RIGHT"
    assert not before[uid(1, 1, 1)]["file"].exists()
    assert after["file"].exists()
    # Other pixels under the same UID replace, too.
    ((outcome, _),) = take(instance(1, BurnedInAnnotation="NO", stored=10, **changed))
    assert outcome == "replaced"
    assert len(indexed(index)) == 1
    assert take(instance(1, BurnedInAnnotation="NO", stored=10, **changed))[0][0] == "again"


def test_equal_pixels_enter_once_and_another_patients_wait(
    take: Take, index: Path, inbox: Inbox
) -> None:
    same: dict[str, Any] = {"SOPInstanceUID": "1.2.3.4"}
    twice = [("added", "looks like: other"), ("left out", EQUAL)]
    assert take(instance(1), instance(1, **same)) == twice
    other = instance(1, StudyInstanceUID="1.2.3", PatientID="X", **same)
    assert take(other) == [("held", WHOSE)]
    assert take(other) == [("again", WHOSE)], "one that is sent again is held once"
    assert len(inbox.held()) == 1
    assert len(indexed(index)) == 1
    # A study under two patients: the second one waits until the first was corrected.
    second = instance(1, 2, "AP", PatientID="RIGHT")
    assert take(second) == [("held", TWO_PATIENTS)]
    assert take(instance(1, PatientID="RIGHT"))[0][0] == "replaced"
    assert {one["patient"] for one in indexed(index).values()} == {f"{PLANTED}-HIS:RIGHT"}
    assert len(indexed(index)) == 2


def test_pixels_that_the_index_has_from_an_import_do_not_enter_again(
    take: Take, index: Path, data_folder: Path
) -> None:
    pixels = np.asarray(Image.open(data_folder / "images/s00.png"))
    values: dict[str, Any] = {
        "SOPInstanceUID": "1.2.3", "StudyInstanceUID": "1.2", "Modality": "CR",
        "ViewPosition": "PA", "SOPClassUID": "1.2.840.10008.5.1.4.1.1.1", "PatientID": "p00",
        "WindowCenter": 128, "WindowWidth": 256,
    }  # fmt: skip
    assert take(make_dicom(pixels, stored=8, **values)) == [("held", EQUAL)]
    assert indexed(index) == {}


def test_own_results_damaged_objects_and_what_ended_the_process_do_not_enter(
    take: Take, inbox: Inbox
) -> None:
    own = instance(
        1, kind="capture", Manufacturer=MANUFACTURER, SeriesDescription=series_description("sc")
    )
    whole = instance(2)
    found = take(own, b"garbage", whole[: len(whole) // 2])
    assert found[0] == ("left out", OWN)
    assert [outcome for outcome, _ in found[1:]] == ["failed"] * 2
    assert all(reason for _, reason in found)
    assert len(list((inbox.folder / "objects").iterdir())) == 2
    number = inbox.put("PACS", whole)
    for _ in range(3):
        inbox.begin(inbox.waiting(1))
    assert take(instance(3))[0][0] == "added"
    assert outcomes(inbox, [number]) == [("failed", ENDED_IT)]
    assert accept_all(inbox) == 3
    take()
    assert outcomes(inbox, [number])[0][0] == "added"


def test_what_the_disk_damaged_is_not_taken_in_nor_shown(
    take: Take, inbox: Inbox, index: Path, tmp_path: Path
) -> None:
    number = inbox.put("PACS", instance(1))
    flip(inbox.waiting(1)[0].path)
    assert take(instance(2))[0][0] == "added"
    assert outcomes(inbox, [number]) == [("failed", DAMAGED)]
    service = load_service(None, index)
    (name,) = indexed(index)
    assert service.shown(name).shape
    (kept,) = (tmp_path / "archive").iterdir()
    flip(kept)
    with pytest.raises(ImageError, match="is damaged; put it back from a backup"):
        service.shown(name)


def test_reports_before_and_after_their_images_corrected_and_withdrawn(
    take: Take, index: Path
) -> None:
    assert take(oru(1, "Heart is large."), what="message") == [("report", "")]
    assert take(instance(1))[0][0] == "added"
    assert report_of(index, 1) == ["Heart is large."]
    assert take(oru(1, "Heart is large."), what="message")[0][0] == "again"
    later = oru(1, "Heart is normal.", "C", "20240302")
    assert take(later, oru(1, "Heart may be large.", "P", "20240303"), what="message")
    assert report_of(index, 1) == ["Heart is normal."]
    # The study moves to another accession number; the report is no longer its own.
    take(instance(1, AccessionNumber="OTHER"))
    assert report_of(index, 1) == []
    take(instance(1))
    assert report_of(index, 1) == ["Heart is normal."]
    take(oru(1, "", "X", "20240304"), what="message")
    assert report_of(index, 1) == []
    assert take(b"MSH|^~\\&|A\rOBR|1", b"MSH|^~\\&|||||||ADT^A01|1|P|2.5\rPID|1", what="message")[
        1
    ] == ("left out", "a message of another kind than a report")


def test_an_addendum_stands_behind_what_the_index_had_of_the_study(take: Take, index: Path) -> None:
    assert take(addendum(), what="message") == [("report", "")]
    assert report_of(index, "s00") == ["Old rib fracture.", "The lungs are clear."]


def test_a_deletion_is_noted_or_forgets_what_came_from_that_source(take: Take, index: Path) -> None:
    take(*study(1), *study(2), source="one")
    gone = deletion(uid(1, 1, 1))
    assert take(gone, what="deletion", source="two") == [("noted", NOT_HERE)]
    assert take(gone, what="deletion", source="one") == [("noted", "")]
    assert len(indexed(index)) == 2
    assert take(instance(1), source="one")[0][0] == "again"
    policies = forgetting("one")
    found = take(gone, b"{]", what="deletion", source="one", peers=policies)
    assert found == [("forgotten", ""), ("failed", "names no object")]
    (image,) = indexed(index)
    assert image == uid(2, 1, 1)
    assert uid(1).encode() not in (index / CATALOGUE).read_bytes()
    assert take(instance(1), source="one", peers=policies)[0][0] == "added"


def test_with_hashed_ids_nothing_of_a_header_is_kept(
    take: Take, index: Path, inbox: Inbox, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"ids": Ids(bytes(range(32)))}
    take(instance(1), **settings)
    take(oru(1, "Heart is large."), what="message", **settings)
    ((_, one),) = indexed(index).items()
    assert one["file"].suffix == ".png"
    assert report_of(index, one["study"]) == ["Heart is large."]
    inbox.close()
    with closing(sqlite3.connect(inbox.folder / "inbox.sqlite")) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert_nowhere((PLANTED, uid(1)), inbox.folder, index, tmp_path / "archive")


def test_forgetting_a_patient_empties_the_inbox_and_the_archive_of_them(
    index: Path, tmp_path: Path
) -> None:
    folder, archive_folder = tmp_path / "inbox", tmp_path / "archive"
    settings = WorkerSettings(index, archive_folder, readers=1)
    with Inbox(folder, reserve=0) as inbox:
        for number in (1, 2):
            inbox.put("RIS", oru(number, f"Heart of {number} is large."), "message")
            inbox.put("PACS", instance(number))
        with Worker(inbox, settings) as worker:
            worker.drain()
            with inbox.database.transaction() as database:
                database.execute("INSERT INTO pictures VALUES (?, '')", (f"3 {uid(1, 1, 1)}",))
                patient = f"{PLANTED}-HIS:{PLANTED}000001"
                database.execute("INSERT INTO merges VALUES ('HIS:7', ?, 0)", (patient,))
        his = f"{PLANTED}000001^^^{PLANTED}-HIS"
        inbox.put("HIS", merge(f"{PLANTED}000009^^^{PLANTED}-HIS", his), "message")
        inbox.put("PACS", instance(1, 2, "AP"))  # waits, and so do reports
        inbox.put("RIS", oru(1, "Heart of 1 later."), "message")
        inbox.put("RIS", oru(1, "Heart of 1 elsewhere.").replace(b"A000001", b"B1"), "message")
        inbox.put("RIS", oru(2, "Heart of 2 is large."), "message")
    forget([folder, index, archive_folder], patient=f"{PLANTED}-HIS:{PLANTED}000001", wait_s=5)
    assert_nowhere((uid(1, 1, 1), f"{PLANTED}000001", "Heart of 1"), folder, index, archive_folder)
    with Inbox(folder, reserve=0) as inbox:
        (other,) = inbox.waiting(9)
        lost = inbox.put("PACS", instance(3))
        inbox.waiting(9)[1].path.unlink()
        with Worker(inbox, settings) as worker:
            worker.drain()
        found = outcomes(inbox, [lost, other.number])
        assert found == [("left out", LOST), ("again", "nothing in it is new")]
    assert set(indexed(index)) == {uid(2, 1, 1)}
    assert report_of(index, 2) == ["Heart of 2 is large."]


def test_an_index_begins_with_nothing(checkpoint: Path, tmp_path: Path) -> None:
    index = tmp_path / "index"
    assert make_index(checkpoint, index).images == 0
    service = load_service(None, index)
    assert service.search(service.make_query(["Heart is large."])).hits == []
    with Inbox(tmp_path / "inbox", reserve=0) as inbox:
        with Worker(inbox, WorkerSettings(index, tmp_path / "archive", readers=1)) as worker:
            numbers = [inbox.put("RIS", oru(1, "Heart is large."), "message")]
            numbers += [inbox.put("PACS", instance(number)) for number in (1, 2)]
            worker.drain()
            numbers += [inbox.put("PACS", instance(3)), inbox.put("PACS", instance(1))]
            worker.drain()
        found = [outcome for outcome, _ in outcomes(inbox, numbers)]
    assert found == ["report", "added", "added", "added", "again"]
    assert report_of(index, 1) == ["Heart is large."]
    rewrite(index, rebuild=True)
    service = load_service(None, index)
    hits = service.search(service.make_query(["Heart is large."])).hits
    assert {hit.image.image for hit in hits} == {uid(number, 1, 1) for number in (1, 2, 3)}


# --- which study a report is of ---


def held(inbox: Inbox) -> list[tuple[str, tuple[str, ...]]]:
    return [(one.why, one.studies) for one in desk.list_held(inbox) if one.what == "report"]


def test_a_number_that_an_import_took_for_the_id_of_a_study_hides_no_study_of_the_pacs(
    take: Take, index: Path, inbox: Inbox
) -> None:
    with writing(index) as catalogue, catalogue.transaction(write=True) as database:
        for number in range(1, 4):  # a project that was imported by accession number
            names = f"A{number:06d}", f"someone{number}", f"s{number:02d}"
            database.execute(
                "UPDATE images SET study_id = ?, patient_id = ? WHERE study_id = ?", names
            )
    take(*(instance(number) for number in range(1, 4)))
    take(*(oru(number, f"Nodule {number}.") for number in range(1, 4)), what="message")
    for number in range(1, 4):
        assert report_of(index, number) == [f"Nodule {number}."]
    assert held(inbox) == []


def test_a_report_that_matches_two_studies_is_held_and_joined_by_somebody(
    take: Take, index: Path, inbox: Inbox
) -> None:
    same: dict[str, Any] = {"AccessionNumber": "A000001", "PatientID": f"{PLANTED}000001"}
    take(instance(1), instance(2, **same))
    assert take(oru(1, "Heart is large."), what="message") == [("report", "")]
    assert held(inbox) == [(TWO_STUDIES, (uid(1), uid(2)))]
    assert read_status(inbox.folder).undecided == 1
    (one,) = desk.list_held(inbox)
    with pytest.raises(InputError, match="matches several studies; join it to one"):
        desk.decide(inbox, one, "accept")
    desk.decide(inbox, one, "join", uid(2))
    take()
    assert (report_of(index, 1), report_of(index, 2)) == ([], ["Heart is large."])
    assert held(inbox) == []
    # A message that names the study, too, is of that one.
    named = oru(1, "Heart is normal.", "C", "20240302")
    take(named + f"\rZDS|{uid(1)}^RIS^Application^DICOM".encode(), what="message")
    assert report_of(index, 1) == ["Heart is normal."]
    with pytest.raises(InputError, match=f"{one.name}: neither held nor failed"):
        desk.decide(inbox, one, "join", uid(1))


def test_a_report_of_another_patient_is_held_by_name_to_accept_or_drop(
    take: Take, index: Path, inbox: Inbox
) -> None:
    take(instance(1), instance(2))
    verbs: tuple[desk.Verdict, ...] = ("accept", "drop")
    for number, verb in enumerate(verbs, 1):
        wrong = oru(number, f"Nodule {number}.").replace(f"{number:06d}^^^".encode(), b"9^^^")
        take(wrong, what="message")
        (one,) = desk.list_held(inbox)
        assert (one.why, one.studies, one.accession) == (
            ANOTHERS, (uid(number),), f"A{number:06d}",
        )  # fmt: skip
        assert one.patient == f"{PLANTED}-HIS:{PLANTED}9"
        desk.decide(inbox, one, verb)
        take()
        assert held(inbox) == []
    assert (report_of(index, 1), report_of(index, 2)) == (["Nodule 1."], [])


@pytest.mark.parametrize("film", ["", f"{PLANTED}-HIS"])
def test_a_merge_reaches_films_that_name_an_issuer_otherwise_than_the_message(
    take: Take, index: Path, inbox: Inbox, film: str
) -> None:
    message = "" if film else f"{PLANTED}-HIS"
    old, new = (f"{PLANTED}{number:06d}" for number in (1, 2))
    named = oru(1, "Nodule 1.").replace(
        f"{old}^^^{PLANTED}-HIS".encode(), f"{old}^^^{message}".encode()
    )
    take(instance(1, IssuerOfPatientID=film), instance(2, IssuerOfPatientID=film))
    take(named, what="message")
    sent = merge(f"{old}^^^{message}", f"{new}^^^{message}")
    assert take(sent, what="message") == [("merged", "")]
    whose = f"{film}:{new}" if film else new
    assert {said["patient"] for said in indexed(index).values()} == {whose}
    assert report_of(index, 1) == ["Nodule 1."]
    assert take(instance(1, 2, "AP", IssuerOfPatientID=film))[0][0] == "added"
    assert {said["patient"] for said in indexed(index).values()} == {whose}
    assert held(inbox) == []


def test_patients_who_are_merged_keep_images_and_reports_under_the_id_that_goes_on(
    take: Take, index: Path, inbox: Inbox
) -> None:
    def name(number: int) -> str:
        return f"{PLANTED}{number:06d}^^^{PLANTED}-HIS"

    _, two, three = (f"{PLANTED}-HIS:{PLANTED}{number:06d}" for number in (1, 2, 3))
    take(instance(1), instance(2))
    take(oru(1, "Nodule 1."), what="message")
    assert take(merge(name(1), name(2)), what="message") == [("merged", "")]
    assert {image: said["patient"] for image, said in indexed(index).items()} == {
        uid(1, 1, 1): two, uid(2, 1, 1): two,
    }  # fmt: skip
    # A correction under the new id arrives, as does what still comes under the old one.
    new = oru(1, "Nodule is gone.", "C", "20240302").replace(
        f"||{PLANTED}000001^".encode(), f"||{PLANTED}000002^".encode()
    )
    take(new, what="message")
    assert report_of(index, 1) == ["Nodule is gone."]
    take(oru(1, "Nodule is there.", "C", "20240303"), what="message")
    assert report_of(index, 1) == ["Nodule is there."]
    assert take(instance(1, 2, "AP"))[0][0] == "added"
    assert take(merge(name(2), name(3), "A18"), what="message") == [("merged", "")]
    assert take(instance(1, 3, "AP"))[0][0] == "added"
    assert {said["patient"] for said in indexed(index).values()} == {three}
    assert held(inbox) == []
