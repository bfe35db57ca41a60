"""The gateway's commands: what they print, refuse and keep to themselves, and their exit codes."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cxrtext.errors import ConfigError
from cxrtext.pacs.gateway.file import read_gateway
from cxrtext.pacs.results.folder import ResultsFolder
from cxrtext.pacs.results.making import make_results
from cxrtext.pacs.results.rules import rule_name
from cxrtext.service import Service
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


@pytest.fixture
def image(tmp_path: Path) -> Path:
    return write_source(tmp_path / "a.dcm", "jpeg-2000", pixels=draw("effusion", 3) / 255)


def test_results_are_approved_sent_and_taken_back_without_a_name(
    index_folder: Path,
    service: Service,
    image: Path,
    tmp_path: Path,
    orthanc: Orthanc,
    peers: Peers,
    caplog: pytest.LogCaptureFixture,
) -> None:
    entry = orthanc.peer(write=True, results={"sentences": ["Left pleural effusion."]})
    file = peers(entry, project=str(index_folder), device="cpu")
    results = ["gateway", "results"]
    rule = read_gateway(file).peer("archive")
    asked = cxrtext(*results, "approve", file, "archive")
    kept = ResultsFolder(tmp_path / "gateway/results")
    assert "Left pleural effusion.: 0 of 0 images" in asked.stdout
    assert not kept.is_approved(rule_name(rule, service))
    assert "its rule may send" in cxrtext(*results, "approve", file, "archive", "--yes").stdout
    assert kept.is_approved(rule_name(rule, service))
    make_results(service, image, "Left pleural effusion.", kept)
    sent = cxrtext(*results, "send", file, "archive")
    assert "archive: 2 sent, 0 there before" in sent.stdout
    again = cxrtext(*results, "send", file, "archive")
    assert "archive: 0 sent, 2 there before" in again.stdout
    study = "1.2.826.0.1.99.4.1"
    back = cxrtext(*results, "revoke", file, "--study", study)
    assert back.stdout == "results taken back: 2\narchive: 1 notes sent\n"
    assert [one.kind for one in kept.all()] == ["sc", "sr", "reject"]
    assert len(orthanc.instances()) == 3
    everything = (asked, sent, back)
    said = caplog.text + "".join(one.stdout + one.stderr for one in everything)
    assert not any(name in said for name in ("CANARY", "王小东", "thorax"))


def test_where_results_cannot_be_sent_it_says_why(
    refused: Refused, index_folder: Path, tmp_path: Path, peers: Peers
) -> None:
    file = peers(absent(), project=str(index_folder))
    assert "has no rule for results" in refused("gateway", "results", "approve", file, "archive")
    assert "holds no results" in refused("gateway", "results", "revoke", file, "--all")
    ResultsFolder(tmp_path / "gateway/results")
    given = ["gateway", "results", "send", file]
    assert "there is no peer 'other'; there is archive" in refused(*given, "other")
    assert "set write: true at this peer" in refused(*given, "archive")
    assert "name what to take back" in refused("gateway", "results", "revoke", file)
    assert "no result in the state matches" in refused(
        "gateway", "results", "revoke", file, "--all"
    )
