"""The gateway's commands: what they print, refuse and keep to themselves, and their exit codes."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest.mock import Mock

import pytest
from pydicom import dcmread
from typer.testing import CliRunner, Result

from cxrtext.errors import CheckpointError, ConfigError
from cxrtext.pacs.inbox.queue import Inbox
from cxrtext.pacs.peers import Peer
from cxrtext.pacs.results.folder import Kept, ResultsFolder
from cxrtext.pacs.results.making import make_results
from cxrtext.pacs.results.rejection import revoke
from cxrtext.pacs.results.rules import answer_until
from cxrtext.pacs.results.sending import Delivery
from cxrtext.service import Service
from cxrtext_cli.main import app
from tests.cli.conftest import Refused, cxrtext, refused
from tests.conftest import draw
from tests.pacs.orthanc import Orthanc, dimse_entry
from tests.pacs.result_sources import write_source
from tests.pacs.studies import PLANTED, archive

__all__ = ["refused"]  # a fixture
Peers = Callable[..., Path]


@pytest.fixture
def file(orthanc: Orthanc, peers: Peers) -> Path:
    follow = {"from": "2024-03-01"}
    wrong = {**orthanc.peer()["dimse"], "aet": "WRONG"}
    return peers(
        orthanc.peer(follow=follow), orthanc.peer("wrong", dicomweb=None, dimse=wrong),
        {"name": "ris", "addresses": ["10.0.0.7"]}, dicom={"port": 0}, status={"port": 0},
    )  # fmt: skip


@pytest.fixture
def run(file: Path) -> Callable[..., Result]:
    def command(*given: str) -> Result:
        done = CliRunner().invoke(app, ["gateway", *given[:1], str(file), *given[1:]])
        assert PLANTED not in done.output
        return done

    return command


def test_check(run: Callable[..., Result], tmp_path: Path) -> None:
    done = run("check", "archive")
    assert (done.exit_code, "FAILED" in done.output) == (0, False)
    done = run("check")
    assert done.exit_code == 1
    said = " ".join(done.output.split())
    assert f"state good {tmp_path / 'gateway'}" in said
    assert said.endswith(
        "AET FAILED is not called 'WRONG' (association rejected); correct dimse.aet"
    )
    steps = json.loads(run("check", "wrong", "--json").output)
    assert [step["ok"] for step in steps] == [True, True, False]
    with pytest.raises(ConfigError, match="there is no peer 'none'"):
        raise run("check", "none").exception or AssertionError


def test_run_once_and_status(run: Callable[..., Result], orthanc: Orthanc) -> None:
    orthanc.store(archive(8))
    done = run("run", "--once")
    assert done.exit_code == 0
    assert "archive: 7 new, 0 corrected, 0 gone, 7 left out, 0 failed" in done.output
    assert "7 received; 7 wait, the first for" in done.output
    found = json.loads(run("status", "--json").stdout)
    assert (found["received"], found["waiting"], found["healthy"]) == (7, {"object": 7}, False)


def test_held(run: Callable[..., Result], tmp_path: Path) -> None:
    with Inbox(tmp_path / "gateway/inbox", reserve=0) as inbox:
        numbers = [inbox.put("archive", b"x", held="for a reason") for _ in range(3)]

    def decide(*words: str) -> Result:
        file = str(tmp_path / "gateway.yaml")
        return CliRunner().invoke(app, ["gateway", "held", words[0], file, *words[1:]])

    assert "for a reason" in decide("list").output
    assert decide("accept", str(numbers[0])).output == "1 entries wait again\n"
    assert decide("drop", "--all").output == "2 entries dropped\n"
    assert json.loads(decide("list", "--json").output) == []
    for words, says in (((), "give the numbers"), (("7",), "7: neither held nor failed")):
        assert says in str(decide("accept", *words).exception)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    return write_source(tmp_path / "a.dcm", "jpeg-2000", pixels=draw("effusion", 3) / 255)


def test_results_are_made_sent_listed_and_taken_back_without_a_name(
    index_folder: Path,
    image: Path,
    tmp_path: Path,
    orthanc: Orthanc,
    peers: Peers,
    caplog: pytest.LogCaptureFixture,
) -> None:
    file = peers(orthanc.peer(write=True), project=str(index_folder), device="cpu")
    picture = tmp_path / "b.png"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n")
    results = ["gateway", "results"]
    asked = ["--sentence", "Left pleural effusion."]
    made = cxrtext(*results, "make", file, image, *asked, "--send", "archive")
    assert made.returncode == 0, made.stderr
    assert "2 results: 2 new, 0 there before" in made.stdout
    assert "archive: 2 sent, 0 there before" in made.stdout
    again = cxrtext(*results, "make", file, image, picture, *asked, "--json", code=1)
    assert json.loads(again.stdout)["new"] == 0
    assert f"{picture}: is no DICOM file; results join the study" in again.stderr
    sent = cxrtext(*results, "send", file, "archive")
    assert "archive: 0 sent, 2 there before" in sent.stdout
    study = "1.2.826.0.1.99.4.1"
    assert f" {study} " in cxrtext(*results, "list", file).stdout
    back = cxrtext(*results, "revoke", file, "--study", study)
    assert back.stdout == "results taken back: 2\narchive: 1 notes sent, 0 there before\n"
    listed = cxrtext(*results, "list", file, "--json")
    assert [row["kind"] for row in json.loads(listed.stdout)] == ["sc", "sr", "reject"]
    assert len(orthanc.instances()) == 3
    everything = (made, again, back, listed)
    said = caplog.text + "".join(one.stdout + one.stderr for one in everything)
    assert not any(name in said for name in ("CANARY", "王小东", "thorax"))


def test_where_results_cannot_be_sent_none_are_made(
    refused: Refused, index_folder: Path, image: Path, tmp_path: Path, peers: Peers
) -> None:
    file = peers(dimse_entry(), project=str(index_folder))
    given = ["gateway", "results", "make", file, image, "--sentence", "x", "--send"]
    assert "there is no peer 'other'; there is archive" in refused(*given, "other")
    assert "set write: true at this peer" in refused(*given, "archive")
    assert "holds no results" in refused("gateway", "results", "list", file)
    ResultsFolder(tmp_path / "gateway/results")
    assert "name what to take back" in refused("gateway", "results", "revoke", file)
    assert "there is no such result" in refused("gateway", "results", "revoke", file, "--all")


def test_a_peer_is_told_only_of_results_that_were_sent_to_it(
    service: Service, tmp_path: Path, results: ResultsFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: dict[str, list[str]] = {}

    def send(folder: ResultsFolder, notes: Sequence[Kept], peer: Peer) -> Delivery:
        told[peer.name] = [dcmread(folder.path / one.file).PatientID for one in notes]
        return Delivery(len(notes), 0)

    peers = {
        name: Peer.model_validate(dimse_entry(name, write=True)) for name in ("north", "south")
    }
    images = [write_source(tmp_path / f"{n}.dcm", "cr", number=n) for n in (1, 2, 3)]
    for path in images:
        make_results(service, path, "Left pleural effusion.", results)
    first, second, _ = dict.fromkeys(one.study for one in results.all())
    results.note_sent([one.instance for one in results.all(study=first)], "north")
    results.note_sent([one.instance for one in results.all(study=second)], "south")
    monkeypatch.setattr("cxrtext.pacs.results.rejection.send_results", send)
    with pytest.raises(ConfigError, match="south: has results to take back, and is not in the"):
        revoke(results, results.all(), {"north": peers["north"]})
    some = results.all()
    assert {name: done.sent for name, done in revoke(results, some, peers).items()} == {
        "north": 1, "south": 1,
    }  # fmt: skip
    assert told == {"north": ["CANARY-1"], "south": ["CANARY-2"]}
    assert all(one.revoked for one in results.all() if one.kind != "reject")
    assert len(results.all()) == 6 + 2
    revoke(results, some, peers)  # as after a kill: what was not delivered is sent again
    assert told == {"north": ["CANARY-1"], "south": ["CANARY-2"]}
    assert len(results.all()) == 6 + 2


def test_an_index_that_another_model_builds_anew_is_waited_for(
    service: Service, results: ResultsFolder, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    turned = Mock(side_effect=[CheckpointError("model: is not there yet"), None, None])
    monkeypatch.setattr("cxrtext.pacs.results.rules.turned", turned)
    monkeypatch.setattr("time.sleep", lambda _: None)
    ended = Mock(side_effect=[False, False, True])
    answer_until(service, [], results, say=said.append, ended=ended)
    assert "model: is not there yet; trying again in 4 s" in said
    assert turned.call_count == 2, "it looked again"
