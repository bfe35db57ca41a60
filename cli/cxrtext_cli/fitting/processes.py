"""Trainings as processes of their own: their memory ends with them, and each has its threads."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from cxrtext.errors import WorkError
from cxrtext_cli.ending import ending
from cxrtext_cli.options import say

CHILD = "from cxrtext_cli.fitting.processes import child; child()"
Process = subprocess.Popen[str]


def child() -> None:
    """Do a stage of the project that is named; the process ends with the one that started it."""
    from cxrtext.images.sandbox_worker import end_with
    from cxrtext.memory import keep_memory

    parent, folder, name, *resume = sys.argv[1:]
    threading.Thread(target=end_with, args=[int(parent)], daemon=True).start()
    keep_memory()

    def work() -> None:
        from cxrtext.project.recipe import read_recipe
        from cxrtext_cli.fitting.stages import trainings

        stage = trainings(Path(folder), read_recipe(Path(folder)))[name]
        sys.stdout.write(stage.work(bool(resume)))

    ending(work, hint=False)


class Running:
    """Processes under way; those that are left when the work ends early are told to stop."""

    def __init__(self) -> None:
        self._all: list[Process] = []

    def start(
        self, folder: Path, name: str, threads: int, log: Path | None, *, resume: bool = False
    ) -> Process:
        """Start a stage of a project: what it says goes to ``log`` or here."""
        words = [str(os.getpid()), str(folder), name, *(["resume"] if resume else [])]
        with (log or Path(os.devnull)).open("wb") as said:
            process = subprocess.Popen(  # noqa: S603 - our own interpreter and code
                [sys.executable, "-P", "-c", CHILD, *words],
                env={
                    **os.environ,
                    "OMP_NUM_THREADS": str(threads),
                    "MKL_NUM_THREADS": str(threads),
                },
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=said if log else None,
                text=True,
                # Ctrl-C in a terminal reaches us alone; we tell the others.
                start_new_session=True,
            )
        self._all.append(process)
        return process

    def finish(self, process: Process, name: str, log: Path | None) -> str:
        """Wait for a stage, and give what it made; where it fails we do, with what it said."""
        made, _ = process.communicate()
        code = process.returncode
        self._all.remove(process)
        if code > 0:
            if log:
                say("\n".join(log.read_text(errors="replace").splitlines()[-1:]))
            raise typer.Exit(code)
        if code < 0:
            raise WorkError(f"{name}: ended by signal {-code}; run the same command again to go on")
        return made


@contextmanager
def running() -> Iterator[Running]:
    """Processes that do not outlive their block."""
    these = Running()
    try:
        yield these
    finally:
        for process in these._all:
            process.terminate()
        for process in these._all:
            process.communicate()
