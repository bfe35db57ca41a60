import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cxrtext.datasets.checking.processes import Lost, answers


def behave(task: str) -> str:
    """Answers, raises, dies or hangs, as it is told."""
    if task == "die":
        os.kill(os.getpid(), signal.SIGSEGV)
    if task == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if task == "hang":
        time.sleep(600)
    if task == "raise":
        raise ValueError("a patient's name")
    return task.upper()


def test_only_the_task_that_kills_its_process_is_lost() -> None:
    tasks = ["a", "die", "b", "killed", "c", "hang", "raise", "d", "e"]
    found = dict(answers(behave, tasks, 2, seconds=1.5))
    assert set(found) == set(tasks)
    for task in "abcde":
        assert found[task] == task.upper()
    reasons = {task: answer.reason for task, answer in found.items() if isinstance(answer, Lost)}
    assert reasons == {
        "die": "the process that read it died (SIGSEGV)",
        "killed": "the process that read it died (killed, perhaps for want of memory)",
        "hang": "took longer than 2 s to read",
        "raise": "cannot be read (ValueError)",
    }


def test_last_task_dies() -> None:
    assert isinstance(dict(answers(behave, ["die"], 3))["die"], Lost)
    assert list(answers(behave, [], 3)) == []


def _children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in listed.read_text().split()] if listed.exists() else []


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks at processes in /proc")
def test_processes_end_when_the_parent_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import time\n"
        "from cxrtext.datasets.checking.processes import answers\n"
        "if __name__ == '__main__':\n"
        "    for task, _ in answers(time.sleep, [0, 0, 600, 600], 2):\n"
        "        print(task, flush=True)\n"
    )
    parent = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"0\n"
    children = [child for child in _children(parent.pid) if b"spawn_main" in _command(child)]
    assert children
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 10
    while any(b"spawn_main" in _command(child) for child in children):
        assert time.monotonic() < deadline
        time.sleep(0.05)
