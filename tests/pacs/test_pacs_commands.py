"""The commands of a PACS: what they print, and their exit codes."""

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cxrtext.errors import CxrTextError
from cxrtext_cli.main import app
from tests.pacs.orthanc import Orthanc
from tests.pacs.studies import PLANTED, archive, study

DAYS = ["--from", "2024-03-01", "--to", "2024-03-05"]


@pytest.fixture
def run(orthanc: Orthanc, peers: Callable[..., Path]) -> Callable[..., Result]:
    path = peers(orthanc.peer(), orthanc.peer("wrong", dicomweb=None, dimse=_wrong(orthanc)))

    def command(*given: str) -> Result:
        done = CliRunner().invoke(app, [*given, "--peers", str(path)])
        assert PLANTED not in done.output
        return done

    return command


def _wrong(orthanc: Orthanc) -> dict[str, object]:
    return {**orthanc.peer()["dimse"], "aet": "WRONG"}


def refusal(done: Result) -> str:
    assert isinstance(done.exception, CxrTextError)
    assert "\n" not in str(done.exception)
    return str(done.exception)


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
    assert "has no peer 'other'; it has archive, wrong" in refusal(run("peers", "check", "other"))


def test_pull(run: Callable[..., Result], orthanc: Orthanc, tmp_path: Path) -> None:
    for _, objects in archive(8):
        orthanc.store(objects)
    out = str(tmp_path / "out")
    done = run("pull", "archive", *DAYS, "--out", out, "--dry-run")
    assert done.exit_code == 0
    assert done.output.splitlines()[-1].endswith("found 14 = 7 to fetch + 7 left out + 0 failed")
    done = run("pull", "archive", *DAYS, "--out", out)
    assert "found 14 = 7 fetched + 7 left out + 0 failed" in done.output
    assert f"next: cxrtext import {out}/images --out DATA" in done.output
    found = json.loads(run("pull", "archive", *DAYS, "--out", out, "--json").stdout)
    assert (found["fetched"], found["images"]) == (7, f"{out}/images")
    assert "is not called 'WRONG'" in refusal(run("pull", "wrong", *DAYS, "--out", f"{out}2"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("A1\nA*\n", "number 2 is no accession number"),
        ("\n\n", "holds no accession number; give one a line"),
        ("A" * 17, "number 1 is no accession number"),
    ],
)
def test_a_wrong_file_of_accession_numbers(
    text: str, says: str, run: Callable[..., Result], tmp_path: Path
) -> None:
    path = tmp_path / "accessions.txt"
    path.write_text(text)
    given = ["--out", str(tmp_path / "out"), "--accessions", str(path)]
    assert says in refusal(run("pull", "archive", *DAYS, *given))


def test_wrong_options(run: Callable[..., Result], tmp_path: Path) -> None:
    out = ["--out", str(tmp_path / "out")]
    turned = ["--from", "2024-03-05", "--to", "2024-03-01"]
    assert "--from 2024-03-05 is after --to" in refusal(run("pull", "archive", *turned, *out))
    assert "give such as CR,DX" in refusal(run("pull", "archive", *DAYS, *out, "--modality", "*"))
    given = ["--inbox", str(tmp_path / "inbox"), "--at", "2 am"]
    assert "give a time such as 02:00" in refusal(run("follow", "archive", *given))


def test_follow(run: Callable[..., Result], orthanc: Orthanc, tmp_path: Path) -> None:
    orthanc.store(study(1, day=date.today()))
    done = run("follow", "archive", "--inbox", str(tmp_path / "inbox"), "--once")
    assert done.exit_code == 0
    last = done.output.splitlines()[-1]
    assert last == "archive: 1 new, 0 corrected, 0 gone, 1 left out, 0 failed"
