"""Programs in processes of their own that start without waiting for torch and transformers.

Importing them costs each process seconds of a processor.  So one process imports them, with nothing
of cxrtext, and is forked for each program, which imports all that is ours anew and ends as any
program does.  ``python warm.py SOCKET`` is that process.
"""

import gc
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Self

HEAVY = (
    "torch",
    "transformers.models.bert.modeling_bert",
    "faiss",
    "fastapi",
    "matplotlib.figure",
    "prometheus_client",
    "pyarrow",
    "typer",
    "uvicorn",
)
REQUEST = 2**20


class Program:
    """A started program, with as much of :class:`subprocess.Popen` as tests use."""

    def __init__(self, warm: "Warm", pid: int, out: int, err: int) -> None:
        self.pid = pid
        self.stdout = open(out, encoding="utf-8")  # noqa: SIM115
        self.stderr = open(err, encoding="utf-8")  # noqa: SIM115
        self._warm = warm

    @property
    def returncode(self) -> int | None:
        """What it ended with, where that has been waited for."""
        return self._warm.ended.get(self.pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()
        self.stdout.close()
        self.stderr.close()

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        return self._warm.end_of(self.pid, timeout)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Read what it says until it ends (TimeoutError)."""
        with ThreadPoolExecutor(2) as readers:
            said = [readers.submit(stream.read) for stream in (self.stdout, self.stderr)]
            try:
                out, err = (one.result(timeout) for one in said)
            except TimeoutError:
                self.kill()
                raise
        self.wait(timeout)
        self.stdout.close()
        self.stderr.close()
        return out, err


class Warm:
    """The process that programs are forks of."""

    def __init__(self) -> None:
        self.ended: dict[int, int] = {}
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )

    def start(
        self, arguments: Sequence[str | Path], env: Mapping[str, str] | None = None
    ) -> Program:
        """Start what ``python ARGUMENTS`` is, of ``-m MODULE``, ``-c CODE`` or a file."""
        (out, to_out), (err, to_err) = os.pipe(), os.pipe()
        environment = dict(os.environ if env is None else env)
        asked = json.dumps([[str(one) for one in arguments], environment, str(Path.cwd())])
        socket.send_fds(self._line, [asked.encode()], [to_out, to_err])
        os.close(to_out)
        os.close(to_err)
        while "started" not in (told := self._told(600)):
            pass
        return Program(self, told["started"], out, err)

    def end_of(self, pid: int, timeout: float | None) -> int:
        """Wait until a program has ended (TimeoutError)."""
        while pid not in self.ended:
            self._told(timeout)
        return self.ended[pid]

    def _told(self, timeout: float | None) -> dict[str, Any]:
        self._line.settimeout(timeout)
        told: dict[str, Any] = json.loads(self._line.recv(REQUEST))
        if "ended" in told:
            self.ended[told["ended"]] = told["code"]
        return told

    def close(self) -> None:
        """End it, and every program that it is still running."""
        self._line.close()
        self._process.wait(600)


def tell(line: socket.socket, **told: int) -> None:
    with suppress(BrokenPipeError):
        line.send(json.dumps(told).encode())


def forked(line: socket.socket) -> list[str]:
    """Fork for each program that is asked for; returns in the forks, each with its arguments."""
    running: set[int] = set()

    def reap(*_: object) -> None:
        for pid in tuple(running):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                running.discard(pid)
                tell(line, ended=pid, code=os.waitstatus_to_exitcode(status))

    signal.signal(signal.SIGCHLD, reap)
    while True:
        asked, fds, _, _ = socket.recv_fds(line, REQUEST, 2)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        if not asked:
            for pid in running:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            os._exit(0)
        if (pid := os.fork()) == 0:
            break
        running.add(pid)
        tell(line, started=pid)
        for fd in fds:
            os.close(fd)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
    line.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
    arguments, environment, folder = json.loads(asked)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for fd, standard in zip(fds, (1, 2), strict=True):
        os.dup2(fd, standard)
        os.close(fd)
    # Those of the process itself remember whether what it was started with could seek.
    sys.stdout, sys.stderr = (
        open(standard, "w", encoding="utf-8", errors=errors, buffering=line, closefd=False)  # noqa: SIM115
        for standard, errors, line in ((1, "strict", -1), (2, "backslashreplace", 1))
    )
    given: list[str] = arguments
    return given


def run(arguments: list[str]) -> None:
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    elif arguments[0] == "-c":
        sys.argv = ["-c", *arguments[2:]]
        exec(arguments[1], {"__name__": "__main__"})  # noqa: S102 - a test's own
    else:
        sys.argv = arguments
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    for module in HEAVY:
        import_module(module)
    assert "cxrtext" not in sys.modules
    gc.freeze()
    # As with -m and -c, but after PYTHONPATH: a mutant of the source comes before the repository.
    sys.path[0:1] = []
    sys.path.append("")
    run(forked(socket.socket(fileno=int(sys.argv[1]))))
