"""Check-data's work in processes: what is lost, and that reports travel whole."""

import os
import signal
import time
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest

from cxrtext.datasets.checking import report_texts
from cxrtext.datasets.checking.problems import Problems
from cxrtext.datasets.checking.processes import Lost, answers
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
    found = list(answers(behave, tasks, 2, seconds=1.5))
    assert [task for task, _ in found] == tasks
    lost = {task: answer.reason for task, answer in found if isinstance(answer, Lost)}
    assert lost == {
        "die": "made its reader process end (SIGSEGV)",
        "killed": "made its reader process end (SIGKILL)",
        "hang": "was not read within 1.5 s",
        "raise": "cannot be read",
    }
    given: dict[str, Any] = {
        task: answer[0] for task, answer in found if not isinstance(answer, Lost)
    }
    assert given == {task: task.upper() for task in "abcde"}


def test_last_task_dies() -> None:
    ((_, answer),) = answers(behave, ["die"], 3)
    assert isinstance(answer, Lost)
    assert list(answers(behave, [], 3)) == []


def test_reports_are_described_alike_in_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = cycle(["No effusion. Heart normal.", "FINDINGS: Clear lungs. IMPRESSION: Normal.", ""])
    path = tmp_path / "reports.csv"
    rows = [f's{i},"{text} é"' for i, text in enumerate(islice(texts, 200))]
    path.write_text("study_id,report\n" + "\n".join(rows) + "\n", encoding="utf-8")
    here = report_texts.check_reports(path, Problems(), 2, _silent)
    monkeypatch.setattr(report_texts, "FEW", 0)
    there = report_texts.check_reports(path, Problems(), 2, _silent)
    assert here is not None
    assert len(here.studies) == 200
    assert here == there


def test_a_group_that_is_lost_is_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    studies = [Study(f"s{i}", "Clear lungs.", row=i) for i in range(3)]

    def one_dies(_work: Any, tasks: Any, _workers: int) -> Any:
        for task in tasks:
            bad = any(study["row"] == 1 for study in task)
            answer = report_texts.describe_work(task, b"")
            yield task, Lost("was not read", "look") if bad else answer

    monkeypatch.setattr(report_texts, "FEW", 0)
    monkeypatch.setattr(report_texts, "answers", one_dies)
    found = list(report_texts._described(iter([studies]), 2))
    assert found[1] == Lost("row 1: was not read", "look")
    assert [one[0].study for one in (found[0], found[2]) if isinstance(one, list)] == ["s0", "s2"]


def _silent(_done: int, _total: int) -> None:
    """Shows nothing."""
