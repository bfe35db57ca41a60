"""The commands of a PACS: what they print, refuse and keep to themselves, and their exit codes."""

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from unittest.mock import Mock

import pytest
from typer.testing import CliRunner, Result

from cxrtext.errors import CheckpointError
from cxrtext.pacs.results.folder import ResultsFolder
from cxrtext_cli.main import app
from tests.cli.conftest import Refused, cxrtext, refused
from tests.conftest import draw
from tests.pacs.orthanc import Orthanc, dimse_entry, free_port
from tests.pacs.result_sources import write_source
from tests.pacs.studies import PLANTED, archive, study

__all__ = ["refused"]  # a fixture
Peers = Callable[..., Path]
DAYS = ["--from", "2024-03-01", "--to", "2024-03-05"]


@pytest.fixture
def run(orthanc: Orthanc, peers: Peers) -> Callable[..., Result]:
    wrong = {**orthanc.peer()["dimse"], "aet": "WRONG"}
    path = peers(orthanc.peer(), orthanc.peer("wrong", dicomweb=None, dimse=wrong))

    def command(*given: str) -> Result:
        done = CliRunner().invoke(app, [*given, "--peers", str(path)])
        assert PLANTED not in done.output
        return done

    return command


def test_peers_check(run: Callable[..., Result]) -> None:
    done = run("peers", "check", "archive")
    assert (done.exit_code, "FAILED" in done.output) == (0, False)
    done = run("peers", "check", "wrong")
    assert done.exit_code == 1
    assert done.output.rstrip().endswith(
        "AET    FAILED  is not called 'WRONG' (association rejected); correct dimse.aet"
    )
    steps = json.loads(run("peers", "check", "wrong", "--json").output)
    assert [step["ok"] for step in steps] == [True, True, False]


def test_pull(run: Callable[..., Result], orthanc: Orthanc, tmp_path: Path) -> None:
    orthanc.store(archive(8))
    out = str(tmp_path / "out")
    done = run("pull", "archive", *DAYS, "--out", out, "--dry-run")
    assert done.exit_code == 0
    assert done.output.splitlines()[-1].endswith("found 14 = 7 to fetch + 7 left out + 0 failed")
    done = run("pull", "archive", *DAYS, "--out", out)
    assert "found 14 = 7 fetched + 7 left out + 0 failed" in done.output
    assert f"next: cxrtext import {out}/images --out DATA" in done.output
    found = json.loads(run("pull", "archive", *DAYS, "--out", out, "--json").stdout)
    assert (found["fetched"], found["images"]) == (7, f"{out}/images")


PULL = "pull archive --from 2024-03-01 --to 2024-03-05 --out out"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("pull archive --from 2024-03-05 --to 2024-03-01 --out out", "2024-03-05 is after --to"),
        (f"{PULL} --modality *", "give such as CR,DX"),
        ("follow archive --inbox inbox --at 2am", "give a time such as 02:00"),
        (f"{PULL} --accessions wild", "number 2 is no accession number"),
        (f"{PULL} --accessions empty", "holds no accession number; give one a line"),
        (f"{PULL} --accessions long", "number 1 is no accession number"),
    ],
)
def test_wrong_options(
    words: str,
    says: str,
    refused: Refused,
    peers: Peers,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    peers(dimse_entry())
    for name, text in (("wild", "A1\nA*\n"), ("empty", "\n\n"), ("long", "A" * 17)):
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    assert says in refused(*words.split())


def test_follow(run: Callable[..., Result], orthanc: Orthanc, tmp_path: Path) -> None:
    orthanc.store(study(1, day=date.today()))
    done = run("follow", "archive", "--inbox", str(tmp_path / "inbox"), "--once")
    assert done.exit_code == 0
    last = done.output.splitlines()[-1]
    assert last == "archive: 1 new, 0 corrected, 0 gone, 1 left out, 0 failed"


@pytest.fixture
def image(tmp_path: Path) -> Path:
    return write_source(tmp_path / "a.dcm", "jpeg-2000", pixels=draw("effusion", 3) / 255)


def test_results_are_made_sent_listed_and_taken_back_without_a_name(
    checkpoint: Path,
    image: Path,
    tmp_path: Path,
    orthanc: Orthanc,
    peers: Peers,
    caplog: pytest.LogCaptureFixture,
) -> None:
    out, file = tmp_path / "out", peers(orthanc.peer(write=True))
    picture = tmp_path / "b.png"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n")
    asked = ["--sentence", "Left pleural effusion.", "--out", out, "--peers", file]
    made = cxrtext("results", checkpoint, image, *asked, "--send", "archive")
    assert made.returncode == 0, made.stderr
    assert "2 new, 0 there before" in made.stdout
    assert "archive: 2 sent, 0 there before" in made.stdout
    again = cxrtext("results", checkpoint, image, picture, *asked, "--json", code=1)
    assert json.loads(again.stdout)["new"] == 0
    assert f"{picture}: is no DICOM file; results join the study" in again.stderr
    assert "archive: 0 sent, 2 there before" in (
        cxrtext("results", "send", "archive", "--out", out, "--peers", file).stdout
    )
    study = "1.2.826.0.1.99.4.1"
    assert f" {study} " in cxrtext("results", "list", "--out", out).stdout
    back = cxrtext("results", "revoke", "--study", study, "--out", out, "--peers", file)
    assert "results taken back: 2" in back.stdout
    assert "archive: 1 notes sent" in back.stdout
    listed = cxrtext("results", "list", "--out", out, "--json")
    assert [row["kind"] for row in json.loads(listed.stdout)] == ["sc", "sr", "reject"]
    assert len(orthanc.instances()) == 3
    everything = (made, again, back, listed)
    said = caplog.text + "".join(one.stdout + one.stderr for one in everything)
    assert not any(name in said for name in ("CANARY", "王小东", "thorax"))


def test_where_results_cannot_be_sent_none_are_made(
    refused: Refused, checkpoint: Path, image: Path, tmp_path: Path, peers: Peers
) -> None:
    out, file = tmp_path / "out", peers(dimse_entry())
    given = ["results", checkpoint, image, "--sentence", "x", "--out", out, "--send"]
    assert "--peers FILE is wanted" in refused(*given, "archive")
    assert "has no peer 'other'; it has archive" in refused(*given, "other", "--peers", file)
    assert "set write: true at this peer" in refused(*given, "archive", "--peers", file)
    assert not out.exists()
    out.mkdir()
    assert "name what to take back" in refused("results", "revoke", "--out", out)


def test_an_index_that_another_model_builds_anew_is_waited_for(
    index_folder: Path, tmp_path: Path, peers: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    turned = Mock(side_effect=[CheckpointError("model: is not there yet"), KeyboardInterrupt()])
    monkeypatch.setattr("cxrtext.pacs.results.rules.turned", turned)
    rule = {"sentences": ["Pneumothorax"]}
    file = peers(dimse_entry(write=True, results=rule))
    done = cxrtext(
        "results", "answer", "--index", index_folder, "--out", tmp_path / "out", "--peers", file,
        "--every", "0.1", code=130,
    )  # fmt: skip
    assert "model: is not there yet; trying again in" in done.stderr
    assert turned.call_count == 2, "it looked again"


def test_a_peer_that_cannot_be_told_is_named_and_told_later(
    checkpoint: Path, image: Path, tmp_path: Path, peers: Peers, orthanc: Orthanc
) -> None:
    out, file = tmp_path / "out", peers(dimse_entry("archive", write=True))
    asked = ["--sentence", "Left pleural effusion.", "--out", out]
    assert cxrtext("results", checkpoint, image, *asked).returncode == 0
    folder = ResultsFolder(out)
    folder.note_sent([one.instance for one in folder.all()], "archive")
    back = ["results", "revoke", "--out", out]
    done = cxrtext(*back, "--all", "--peers", file, code=1)
    assert "results taken back: 2" in done.stdout
    assert "archive: cannot be reached" in done.stderr
    file = peers(orthanc.peer(write=True))
    later = cxrtext(*back, "--instance", "2.25.1", "--peers", file, code=2)
    assert "archive: 1 notes sent" in later.stdout
    assert f"{out}: has no such result; cxrtext results list" in later.stderr
    assert len(orthanc.instances()) == 1, "the note"
    sent = cxrtext("results", "send", "archive", "--out", out, "--peers", file)
    assert "archive: 0 sent, 0 there before" in sent.stdout


def test_a_server_may_be_told_of_an_inbox_that_is_not_there_yet(
    refused: Refused, checkpoint: Path, tmp_path: Path
) -> None:
    given = [checkpoint, "--inbox", tmp_path / "in", "--hash-ids", tmp_path / "key"]
    done = refused("serve", *given, "--port", str(free_port()))
    assert "the key file cannot be read" in done, "what is wrong comes later"
