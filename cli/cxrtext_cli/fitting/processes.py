"""Commands as processes of their own: their memory ends with them, and each has its threads."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer

from cxrtext.errors import WorkError
from cxrtext_cli.options import say

CHILD = (
    "import sys, threading; from cxrtext.images.sandbox_worker import end_with; "
    "threading.Thread(target=end_with, args=[int(sys.argv.pop(1))], daemon=True).start(); "
    "from cxrtext_cli import start; start()"
)
"""Runs a command in a process that ends with the one that started it."""
Process = subprocess.Popen[bytes]


class Running:
    """Processes under way; those that are left when the work ends early are told to stop."""

    def __init__(self) -> None:
        self._all: list[Process] = []

    def start(self, words: Sequence[str], threads: int, out: Path, log: Path | None) -> Process:
        """Start ``cxrtext WORDS``: its results go to ``out``, what it says to ``log`` or here."""
        with out.open("wb") as results, (log or Path(os.devnull)).open("wb") as said:
            process = subprocess.Popen(  # noqa: S603 - our own interpreter and command
                [sys.executable, "-P", "-c", CHILD, str(os.getpid()), *words],
                env={
                    **os.environ,
                    "OMP_NUM_THREADS": str(threads),
                    "MKL_NUM_THREADS": str(threads),
                    "CXRTEXT_STAGE": "1",  # it does not say how to go on: we do
                },
                stdin=subprocess.DEVNULL,
                stdout=results,
                stderr=said if log else None,
                # Ctrl-C in a terminal reaches us alone; we tell the others.
                start_new_session=True,
            )
        self._all.append(process)
        return process

    def finish(self, process: Process, name: str, log: Path | None) -> None:
        """Wait for a command; where it fails this one does, too, with what it said."""
        code = process.wait()
        self._all.remove(process)
        if code > 0:
            if log:
                say("\n".join(log.read_text(errors="replace").splitlines()[-1:]))
            raise typer.Exit(code)
        if code < 0:
            raise WorkError(f"{name}: ended by signal {-code}; run the same command again to go on")


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
            process.wait()
