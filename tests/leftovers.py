"""Ends what a test run started, and what that started, as soon as the run is gone.

Programs inherit a mark in their environment.  A process of its own waits for the end of the run,
also by SIGKILL, and then kills whatever bears the mark.  A fork of the run that starts no program
has no mark.
"""

import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

VARIABLE = "CXRTEXT_TEST_RUN"


def end_with_us() -> None:
    """Mark what this process starts from now on; a worker or a run inside a run has a mark."""
    if VARIABLE in os.environ or not hasattr(os, "pidfd_open"):
        return
    mark = f"{VARIABLE}={os.urandom(16).hex()}"
    watcher = subprocess.Popen(
        [sys.executable, "-P", "-S", "-E", __file__, str(os.getpid()), mark],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C and a kill of our group are not for it
    )
    watcher.returncode = 0  # nobody waits for it
    os.environ[VARIABLE] = mark.partition("=")[2]


def _marked(mark: bytes) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


if __name__ == "__main__":
    with suppress(ProcessLookupError):  # it is gone already
        select.select([os.pidfd_open(int(sys.argv[1]))], [], [])
    while pids := _marked(sys.argv[2].encode()):
        for pid in pids:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
