"""The gateway's commands: what they print, refuse and keep to themselves, and their exit codes."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cxrtext.errors import ConfigError
from cxrtext.pacs.inbox.queue import Inbox
from cxrtext.pacs.results.folder import ResultsFolder
from cxrtext_cli.main import app
from tests.cli.conftest import Refused, cxrtext, refused
from tests.conftest import draw
from tests.pacs.orthanc import Orthanc, absent
from tests.pacs.result_sources import write_source
from tests.pacs.studies import PLANTED, archive

__all__ = ["refused"]  # a fixture
Peers = Callable[..., Path]


@pytest.fixture
def file(orthanc: Orthanc, peers: Peers) -> Path:
    follow = {"from": "2024-03-01"}
    return peers(orthanc.peer(follow=follow), absent("wrong"), hl7={"port": 0}, status={"port": 0})


@pytest.fixture
def run(file: Path) -> Callable[..., Result]:
    def command(*given: str) -> Result:
        done = CliRunner().invoke(app, ["gateway", *given[:1], str(file), *given[1:]])
        assert PLANTED not in done.output
        return done

    return command


def test_check(run: Callable[..., Result]) -> None:
    done = run("check", "archive")
    assert (done.exit_code, "FAILED" in done.output) == (0, False)
    done = run("check")
    assert done.exit_code == 1
    said = " ".join(done.output.split())
    assert said.endswith("FAILED cannot be reached; is it running, and is its address right?")
    steps = json.loads(run("check", "wrong", "--json").output)
    assert [step["ok"] for step in steps] == [False]
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
    assert decide("accept", str(numbers[0])).output == "1 wait again\n"
    assert decide("drop", "--all").output == "2 dropped\n"
    assert json.loads(decide("list", "--json").output) == []
    for words, says in (((), "give the names"), (("7",), "7: neither held nor failed")):
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
    assert back.stdout == "results taken back: 2\narchive: 1 notes sent\n"
    listed = cxrtext(*results, "list", file, "--json")
    assert [row["kind"] for row in json.loads(listed.stdout)] == ["sc", "sr", "reject"]
    assert len(orthanc.instances()) == 3
    everything = (made, again, back, listed)
    said = caplog.text + "".join(one.stdout + one.stderr for one in everything)
    assert not any(name in said for name in ("CANARY", "王小东", "thorax"))


def test_where_results_cannot_be_sent_none_are_made(
    refused: Refused, index_folder: Path, image: Path, tmp_path: Path, peers: Peers
) -> None:
    file = peers(absent(), project=str(index_folder))
    given = ["gateway", "results", "make", file, image, "--sentence", "x", "--send"]
    assert "there is no peer 'other'; there is archive" in refused(*given, "other")
    assert "set write: true at this peer" in refused(*given, "archive")
    assert "holds no results" in refused("gateway", "results", "list", file)
    ResultsFolder(tmp_path / "gateway/results")
    assert "name what to take back" in refused("gateway", "results", "revoke", file)
    assert "there is no such result" in refused("gateway", "results", "revoke", file, "--all")
