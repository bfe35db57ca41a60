"""Trainings in separate processes: their memory ends with them, and each has its own threads."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cxrtext.errors import InputError, WorkError

CHILD = "from cxrtext_cli.commands.fit import child; child()"
Process = subprocess.Popen[str]
STOPPED = 130  # exit code of a process that was interrupted


class Running:
    """Running processes; any left when the work ends early are told to stop."""

    def __init__(self) -> None:
        self._all: list[Process] = []

    def start(
        self, folder: Path, name: str, threads: int, log: Path | None, *, resume: bool = False
    ) -> Process:
        """Start a stage of a project; its output goes to ``log`` or here."""
        words = [str(os.getpid()), str(folder), name, *(["resume"] if resume else [])]
        with (log or Path(os.devnull)).open("wb") as output:
            process = subprocess.Popen(  # noqa: S603 - our own interpreter and code
                [sys.executable, "-P", "-c", CHILD, *words],
                env={
                    **os.environ,
                    "OMP_NUM_THREADS": str(threads),
                    "MKL_NUM_THREADS": str(threads),
                },
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=output if log else None,
                text=True,
                # Ctrl-C in a terminal reaches only us; we tell the others.
                start_new_session=True,
            )
        self._all.append(process)
        return process

    def finish(self, process: Process, name: str, log: Path | None) -> str:
        """Wait for a stage and return what it made; if it fails, raise what it wrote."""
        made, _ = process.communicate()
        code = process.returncode
        self._all.remove(process)
        if code == STOPPED:
            raise KeyboardInterrupt
        if code > 0:
            last = log.read_text(errors="replace").splitlines()[-1:] if log else []
            why = made or "".join(last).removeprefix("error: ") or f"{name}: failed, see above"
            raise (InputError if code == InputError.exit_code else WorkError)(why)
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
