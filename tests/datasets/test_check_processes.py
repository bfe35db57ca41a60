"""Check-data's work in processes: what is lost, and that reports travel whole."""

import os
import signal
import time
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest

from cxrtext.datasets.checking import reports
from cxrtext.datasets.checking.problems import Problems
from cxrtext.images.sandbox import ProcessLost, answers
from cxrtext.records import Study


def behave(task: str, _: bytes) -> tuple[str, bytes]:
    """Answers, raises, dies or hangs, as it is told."""
    if task == "die":
        os.kill(os.getpid(), signal.SIGSEGV)
    if task == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if task == "hang":
        time.sleep(600)
    if task == "raise":
        raise ValueError("a patient's name")
    return task.upper(), b""


def test_only_the_task_that_kills_its_process_is_lost() -> None:
    tasks = ["a", "die", "b", "killed", "c", "hang", "raise", "d", "e"]
    found = list(answers(behave, tasks, 2, seconds=6))
    assert [task for task, _ in found] == tasks
    lost = {t: answer.line("read") for t, answer in found if isinstance(answer, ProcessLost)}
    assert lost == {
        "die": "made its reader process end (SIGSEGV); copy or export the file again",
        "killed": "made its reader process end (SIGKILL); copy or export the file again",
        "hang": "was not read within 6 s; copy or export the file again, or allow more time",
        "raise": "cannot be read; copy or export the file again",
    }
    given: dict[str, Any] = {
        task: answer[0] for task, answer in found if not isinstance(answer, ProcessLost)
    }
    assert given == {task: task.upper() for task in "abcde"}


def test_last_task_dies() -> None:
    ((_, answer),) = answers(behave, ["die"], 3)
    assert isinstance(answer, ProcessLost)
    assert list(answers(behave, [], 3)) == []


def test_reports_are_described_alike_in_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = cycle(["No effusion. Heart normal.", "FINDINGS: Clear lungs. IMPRESSION: Normal.", ""])
    path = tmp_path / "reports.csv"
    rows = [f's{i},"{text} é"' for i, text in enumerate(islice(texts, 200))]
    path.write_text("study_id,report\n" + "\n".join(rows) + "\n", encoding="utf-8")
    here = reports.check_reports(path, Problems(), 2, _silent)
    monkeypatch.setattr(reports, "FEW", 0)
    there = reports.check_reports(path, Problems(), 2, _silent)
    assert here is not None
    assert len(here.studies) == 200
    assert here == there


def test_a_group_that_is_lost_is_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    studies = [Study(f"s{i}", "Clear lungs.", row=i) for i in range(3)]

    def one_dies(_work: Any, tasks: Any, _workers: int) -> Any:
        for task in tasks:
            bad = any(study["row"] == 1 for study in task)
            answer = reports.describe_work(task, b"")
            yield task, ProcessLost("hung", "was not {}") if bad else answer

    monkeypatch.setattr(reports, "FEW", 0)
    monkeypatch.setattr(reports, "answers", one_dies)
    found = list(reports._described(iter([studies]), 2))
    assert found[1] == "row 1: was not read"
    assert [one[0].study for one in (found[0], found[2]) if isinstance(one, list)] == ["s0", "s2"]


def _silent(_done: int, _total: int) -> None:
    """Shows nothing."""
