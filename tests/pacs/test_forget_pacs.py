"""Forgetting somebody whose images came by every way: no byte stays, and the rest goes on."""

from datetime import date
from pathlib import Path

import pytest

from cxrtext.datasets.admission.ids import Ids, read_key
from cxrtext.errors import HeldError
from cxrtext.index.store.catalogue import CATALOGUE, Catalogue
from cxrtext.pacs.inbox.database import FILE
from cxrtext.pacs.inbox.deletions import deletion
from cxrtext.pacs.inbox.intake import WorkerSettings
from cxrtext.pacs.inbox.queue import Inbox
from cxrtext.pacs.inbox.status import read_status
from cxrtext.pacs.inbox.worker import Worker
from cxrtext.pacs.results.folder import ResultsFolder
from cxrtext.pacs.results.making import make_results
from cxrtext.pacs.retrieval.follow_state import FollowState
from cxrtext.service import load_service
from cxrtext.service.forget import stores
from cxrtext.service.forget.forget import forget
from cxrtext.service.forget.subject import Subject
from tests.conftest import draw
from tests.pacs.orthanc import Known, Orthanc, follow_into
from tests.pacs.result_sources import write_source
from tests.pacs.studies import PLANTED, assert_nowhere, compare_next, instance, study, uid
from tests.pacs.test_worker import oru

TODAY = date.today()
PATIENT = f"{PLANTED}-HIS:{PLANTED}000001"


def test_after_follow_inbox_and_results_no_byte_stays_and_following_goes_on(
    orthanc: Orthanc, known: Known, checkpoint: Path, index_copy: Path, tmp_path: Path
) -> None:
    inbox, kept = tmp_path / "inbox", tmp_path / "kept"
    peer = known(orthanc.peer(on_deletion="forget", follow={"from": TODAY.isoformat()}))
    name = "VERGISSMEINNICHT"
    for number in (1, 2):
        more = {"PatientName": name} if number == 1 else {}
        orthanc.store(study(number, ("PA", "lateral"), day=TODAY, **more))

    def turn() -> str:
        compare_next(inbox / f"follow-{peer.name}.sqlite")
        return str(follow_into(inbox, peer))

    def work() -> None:
        settings = WorkerSettings(index_copy, kept, readers=1, peers={"archive": peer})
        with Inbox(inbox, reserve=0) as box, Worker(box, settings) as worker:
            worker.drain()

    assert turn().startswith("2 new")
    work()
    folder = ResultsFolder(tmp_path / "results")
    service = load_service(checkpoint)
    for image in kept.rglob("*.dcm"):
        folder.note_sent(
            [one.instance for one in make_results(service, image, "Effusion.", folder).results],
            "archive",
        )
    with Inbox(inbox, reserve=0) as box:
        box.put("RIS", oru(1, name), "message")
        box.put("RIS", oru(1, name).replace(b"OBR|", b"OBX|"), "message")  # cannot be read
        box.put("archive", deletion(uid(1, 2, 1)), "deletion")
        box.put("archive", instance(1, 3, "AP", PatientName=name))
    (inbox / "bad").mkdir()
    (inbox / "bad" / "1.hl7").write_bytes(oru(1, name).replace(b"OBR|", b"ORB|"))
    (inbox / "bad" / "2.hl7").write_bytes(oru(2, "Of another.").replace(b"OBR|", b"ORB|"))
    orthanc.delete(uid(1))

    folders = [inbox, kept, index_copy, tmp_path / "results"]
    done = forget(folders, patient=PATIENT, wait_s=5)
    assert [place for place in done.places if not place.done and place.what != "elsewhere"] == []
    assert_nowhere((name, f"{PLANTED}000001", "A000001", f"{uid(1)}.", f"{uid(1)}\0"), *folders)
    assert (inbox / "bad" / "2.hl7").is_file()

    orthanc.store(study(3, day=TODAY))
    orthanc.delete(uid(2))
    assert turn().startswith("1 new, 0 corrected, 1 gone"), "what is known of others stays known"
    work()
    with Catalogue(index_copy / CATALOGUE) as catalogue:
        assert catalogue.image(uid(3, 1, 1)) is not None
        assert catalogue.image(uid(2, 1, 1)) is None


def test_what_is_held_or_failed_goes_with_its_patient_and_another_patients_is_looked_at_again(
    index_copy: Path, tmp_path: Path
) -> None:
    folder, kept = tmp_path / "inbox", tmp_path / "kept"
    settings = WorkerSettings(index_copy, kept, readers=1, issuer=f"{PLANTED}-HIS")
    with Inbox(folder, reserve=0) as box, Worker(box, settings) as worker:
        box.put("archive", instance(1))
        worker.drain()
        held = {
            "another's, under a UID of theirs": instance(2, SOPInstanceUID=uid(1, 1, 1)),
            "theirs, of a study that did not enter": instance(
                1, 2, SOPInstanceUID=uid(3, 1, 1), StudyInstanceUID=uid(9), IssuerOfPatientID=None
            ),
        }
        box.put("archive", instance(3))
        numbers = [box.put("archive", one) for one in held.values()]
        numbers.append(box.put("archive", instance(1, 3)[:-100]))
        worker.drain()
        assert [(one.number, one.state) for one in box.held()] == [
            *((number, "held") for number in numbers[:2]), (numbers[2], "failed")
        ]  # fmt: skip
    forget([folder, kept, index_copy], patient=PATIENT, wait_s=5)
    assert_nowhere((f"{PLANTED}000001", uid(9)), folder, kept, index_copy)
    with Inbox(folder, reserve=0) as box, Worker(box, settings) as worker:
        assert box.held() == []
        assert [entry.number for entry in box.waiting(9)] == numbers[:1]
        worker.drain()
    found = read_status(folder)
    assert found.outcomes == {("object", "added"): 3, ("object", "forgotten"): 2}
    assert found.received == 5


def test_a_refused_message_is_found_whatever_its_form(tmp_path: Path) -> None:
    folder = tmp_path / "inbox"
    with Inbox(folder, reserve=0):
        (folder / "bad").mkdir()
    message, other = (oru(n, "Größe.").replace(b"OBR|", b"ORB|") for n in (1, 2))
    forms = [
        message.replace(b"\r", b"\n"), message.replace(b"\r", b"\r\n  "),
        message.decode().encode("latin-1"), message.decode().replace("Größe", "心").encode("cp932"),
        message.replace(b"|", b"#").replace(b"^", b"!"), message.replace(b"^", b" ^"),
    ]  # fmt: skip
    name = f"Ä{PATIENT.partition(':')[2]}"
    spelled = message.decode().replace(f"||{name[1:]}", f"||{name}")
    forms += [spelled.encode(codec) for codec in ("utf-8", "latin-1", "iso8859-2")]
    for number, form in enumerate([*forms, other]):
        (folder / "bad" / f"{number}.hl7").write_bytes(form)
    subject = Subject(patients={PATIENT, PATIENT.replace(":", ":Ä")})
    assert stores.count(stores.INBOX, folder / FILE, subject) == len(forms)
    stores.forget(stores.INBOX, folder / FILE, subject)
    (left,) = (folder / "bad").iterdir()
    assert left.read_bytes() == other


def test_a_state_in_use_is_named_with_what_to_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "BUSY_SECONDS", 0.0)
    with FollowState(tmp_path / "follow-archive.sqlite") as state:
        state.know_study(uid(1), "20240301", "1")
        with pytest.raises(HeldError, match=r"archive.sqlite: is in use: stop 'cxrtext gateway"):
            forget([tmp_path], study=uid(1))


def test_results_are_forgotten_with_their_study_also_under_hashed_ids(
    checkpoint: Path, tmp_path: Path
) -> None:
    service, folder = load_service(checkpoint), ResultsFolder(tmp_path / "out" / "results")
    key = tmp_path / "key"
    key.write_text("a key of thirty-two characters. ")
    ids, studies = Ids(read_key(key)), []
    for number in (1, 2):
        path = write_source(
            tmp_path / f"{number}.dcm", "cr", number=number, pixels=draw("effusion", number) / 255
        )
        made = make_results(service, path, "Left pleural effusion.", folder, ids=ids).results
        folder.note_sent([one.instance for one in made], "archive")
        folder.note_answered("rule", made[0].source, "2026-11-23T06:00:00+00:00", "")
        studies.append(made[0].study_id)
        path.unlink()
    done = forget([tmp_path / "out"], study=studies[0])
    assert [(place.what, place.done) for place in done.places if place.what == "results"] == [
        ("results", True)
    ]
    left = folder.all()
    assert {one.study_id for one in left} == {studies[1]}
    assert len(list((tmp_path / "out" / "results" / "objects").iterdir())) == len(left) == 2
    image = ("1.2.826.0.1.99.1.1.1.1", "2026-11-23T06:00:00+00:00")
    assert not folder.answered("rule", [image])
    assert sum(folder.tally().values()) == 2
