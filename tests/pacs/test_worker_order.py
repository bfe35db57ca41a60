"""What comes late, twice, or not in order: the newest counts, and no image is lost by it."""

from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from cxrtext.datasets.admission.ids import NO_UID, Ids
from cxrtext.datasets.importing.resolving import ANOTHERS, CORRECTED, EQUAL, TWO_PATIENTS, WHOSE
from cxrtext.errors import InputError, WorkError
from cxrtext.index import reembed
from cxrtext.index.store.catalogue import CATALOGUE, Catalogue
from cxrtext.index.store.check import check_index
from cxrtext.models import ImageTextModel, load_model
from cxrtext.models.checkpoint import save_checkpoint
from cxrtext.pacs.inbox.deletions import NOT_HERE, deletion
from cxrtext.pacs.inbox.intake import BURNT_IN, WorkerSettings
from cxrtext.pacs.inbox.queue import Inbox
from cxrtext.pacs.inbox.reports import ReportJoiner
from cxrtext.pacs.inbox.status import read_status
from cxrtext.pacs.inbox.worker import Worker
from tests.pacs.studies import PLANTED, accept_all, instance, uid
from tests.pacs.test_worker import (
    Take,
    addendum,
    forgetting,
    index,
    indexed,
    oru,
    outcomes,
    report_of,
    take,
)

__all__ = ["index", "take"]  # fixtures

FINAL = addendum().replace(b"ADT", b"59776-5")
"""A message with a report of the study "s00" of the index."""


def test_a_held_object_does_not_take_the_place_of_its_own_correction(
    take: Take, index: Path, inbox: Inbox
) -> None:
    take(instance(1))
    wrong = inbox.put("PACS", instance(1, 2, "AP", PatientID="WRONG"))
    take()
    assert outcomes(inbox, [wrong]) == [("held", TWO_PATIENTS)]
    assert take(instance(1, 2, "AP"))[0][0] == "added"
    assert outcomes(inbox, [wrong]) == [("left out", CORRECTED)]
    patients = {one["patient"] for one in indexed(index).values()}
    assert patients == {f"{PLANTED}-HIS:{PLANTED}000001"}


@pytest.mark.parametrize("named", [b"", b"1.2.x ", b"1." * 32 + b"1\0"])
def test_an_object_without_a_uid_names_no_image(
    take: Take, index: Path, inbox: Inbox, named: bytes
) -> None:
    head, element, rest = instance(1).partition(b"\x08\0\x18\0UI")
    said = rest[2 + rest[0] :]
    object_ = head + element + len(named).to_bytes(2, "little") + named + said
    assert take(object_) == [("held", NO_UID)]
    assert indexed(index) == {}
    (one,) = inbox.held()
    with pytest.raises(InputError, match="nothing could name it; drop it"):
        inbox.accept(one.number)
    inbox.drop(one.number)
    assert inbox.held() == []


def test_an_object_does_not_take_the_place_of_another_patients_picture_of_its_uid(
    take: Take, index: Path, inbox: Inbox
) -> None:
    one: dict[str, Any] = {"SOPInstanceUID": uid(1, 1, 1)}
    take(instance(1))
    before = indexed(index)
    strange = inbox.put("PACS", instance(2, **one))
    assert take(instance(1, 2, PatientID="X", StudyInstanceUID="1.2.3", **one)) == [
        ("held", ANOTHERS)
    ]
    assert take(instance(1, PatientID="X"), source="OTHER") == [("held", WHOSE)]
    assert outcomes(inbox, [strange]) == [("held", ANOTHERS)]
    assert indexed(index) == before
    # What is in the index by another way has no less right to its place.
    with inbox.database.transaction() as database:
        database.execute("DELETE FROM objects")
    assert take(instance(2, **one)) == [("again", ANOTHERS)]
    assert indexed(index) == before


def test_an_image_that_was_corrected_under_a_new_uid_outlives_the_old_one(
    take: Take, index: Path
) -> None:
    take(instance(1), peers=forgetting())
    assert take(instance(1, SOPInstanceUID="1.2.3.4")) == [("held", EQUAL)]
    gone = deletion(uid(1, 1, 1))
    assert take(gone, what="deletion") == [("forgotten", "")]
    assert set(indexed(index)) == {"1.2.3.4"}


def test_what_its_source_deleted_does_not_come_out_of_being_held(
    take: Take, index: Path, inbox: Inbox
) -> None:
    same = instance(1, PatientID="X", SOPInstanceUID="1.2.3.4", StudyInstanceUID="1.2.3")
    take(instance(1), peers=forgetting())
    number, other = inbox.put("PACS", same), inbox.put("ELSE", same)
    take()
    assert outcomes(inbox, [number, other]) == [("held", WHOSE)] * 2
    assert take(deletion("1.2.3.4"), what="deletion") == [("forgotten", "")]
    assert outcomes(inbox, [number, other]) == [
        ("left out", "deleted at its source"),
        ("held", WHOSE),
    ]
    assert len(list((inbox.folder / "objects").iterdir())) == 1
    assert set(indexed(index)) == {uid(1, 1, 1)}


def test_a_report_finds_a_study_that_comes_later_however_its_number_is_written(
    take: Take, index: Path
) -> None:
    message = oru(1, "Heart is large.").replace(b"A000001", b"a000001")
    assert take(message, what="message") == [("report", "")]
    take(instance(1))
    assert report_of(index, 1) == ["Heart is large."]


def test_what_the_index_said_of_a_study_is_kept_though_the_worker_ends_at_that_moment(
    take: Take, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, pytest.raises(WorkError, match="killed"):
        patch.setattr(ReportJoiner, "_keep_what_was_there", Mock(side_effect=WorkError("killed")))
        take(addendum(), what="message")
    take()
    assert report_of(index, "s00") == ["Old rib fracture.", "The lungs are clear."]


def test_what_was_accepted_enters_whatever_speaks_against_it(
    take: Take, index: Path, inbox: Inbox
) -> None:
    take(instance(1), burnt_in=lambda pixels: "a name" if pixels.shape == (32, 32) else "")
    one: dict[str, Any] = {"SOPInstanceUID": uid(1, 1, 1)}
    given = {
        ANOTHERS: instance(2, StudyInstanceUID=uid(7), **one),
        EQUAL: instance(1, SOPInstanceUID="1.2.3.4", StudyInstanceUID="1.2.3"),
        TWO_PATIENTS: instance(1, 2, PatientID="X"),
        f"{BURNT_IN}: a name": instance(3, size=32),
    }
    assert take(*given.values()) == [("held", why) for why in given]
    held = inbox.held()
    assert [one.reason for one in held] == list(given)
    with pytest.raises(InputError, match="99: neither held nor failed"):
        inbox.drop(99)
    assert accept_all(inbox) == 4
    take()
    ended = [outcome for outcome, _ in outcomes(inbox, [one.number for one in held])]
    assert ended == ["replaced", "added", "added", "added"]
    assert indexed(index)[uid(1, 1, 1)]["study"] == uid(7)
    found = read_status(inbox.folder)
    assert found.received == sum(found.outcomes.values()) + found.held + found.failed == 5


def test_a_new_worker_goes_on_where_the_index_was_rebuilt_by_another_model(
    inbox: Inbox, index: Path, tmp_path: Path
) -> None:
    settings = WorkerSettings(index, tmp_path / "archive", readers=1)
    with Worker(inbox, settings) as one:
        before = one.service.model
        torch.manual_seed(4)
        other = ImageTextModel(replace(before.spec, dimension=24), before.tokenizer)
        save_checkpoint(tmp_path / "new", other, {})
        reembed(index, tmp_path / "new")
        numbers = [inbox.put("PACS", instance(1)), inbox.put("RIS", FINAL, "message")]
        with pytest.raises(WorkError, match="has a new model"):
            one.run(Event())
    with Worker(inbox, settings) as one:
        one.drain()
        assert one.service.model.fingerprint == load_model(tmp_path / "new").fingerprint
    assert [outcome[0] for outcome in outcomes(inbox, numbers)] == ["added", "report"]
    with Catalogue(index / CATALOGUE) as catalogue:
        assert check_index(index, catalogue) == []


def test_deletions_that_are_held_are_followed_when_accepted_but_for_what_came_anew(
    take: Take, index: Path, inbox: Inbox
) -> None:
    take(instance(1), instance(2), peers=forgetting())
    gone = [deletion(uid(number, 1, 1)) for number in (1, 2)]
    held = [inbox.put("PACS", one, "deletion", held="too many") for one in gone]
    assert take(instance(2))[0][0] == "again"
    assert set(indexed(index)) == {uid(1, 1, 1), uid(2, 1, 1)}
    for one in held:
        inbox.accept(one)
    take()
    assert outcomes(inbox, held) == [("forgotten", ""), ("noted", NOT_HERE)]
    assert set(indexed(index)) == {uid(2, 1, 1)}


def test_anothers_picture_stays_held_when_the_image_of_its_uid_is_corrected(
    take: Take, index: Path, inbox: Inbox
) -> None:
    one: dict[str, Any] = {"SOPInstanceUID": uid(1, 1, 1)}
    take(instance(1))
    number = inbox.put("PACS", instance(2, StudyInstanceUID=uid(1), **one))
    take(instance(1, PatientSex="M"), columns=("sex",))
    assert outcomes(inbox, [number]) == [("held", ANOTHERS)]
    assert [entry.number for entry in inbox.held()] == [number]
    inbox.accept(number)
    take()
    assert outcomes(inbox, [number])[0][0] == "replaced"


def test_beside_hashed_ids_no_number_and_no_great_age_is_kept(take: Take, index: Path) -> None:
    ids = Ids(bytes(range(32)))
    take(instance(1, PatientAge="097Y"), ids=ids, columns=("age", "accession"))
    (kept,) = indexed(index).values()
    assert (kept["age"], kept["accession"]) == ("90", ids.of("accession", "A000001"))
