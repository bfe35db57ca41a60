"""A cluster of Dask's on this machine, each part in a group of processes that can be killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.pacs.orthanc import free_port

ROOT = Path(__file__).parents[2]


class Parts:
    """A scheduler and nodes of one worker each."""

    def __init__(self, nodes: int = 2) -> None:
        self.port = free_port()
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.nodes: list[subprocess.Popen[bytes]] = []
        self.begin(nodes)

    def begin(self, nodes: int) -> None:
        """Start the scheduler, and nodes that join it."""
        self.scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", str(self.port))
        for _ in range(nodes):
            self.join()

    def mend(self, nodes: int = 2) -> None:
        """Start what was killed, or ended without its scheduler, again."""
        if self.scheduler.poll() is not None:
            self.close()
            self.nodes.clear()
            self.begin(nodes)
        self.nodes = [node for node in self.nodes if node.poll() is None]
        while len(self.nodes) < nodes:
            self.join()

    def _start(self, *command: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "dask", *command, "--no-dashboard"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
            start_new_session=True,
        )

    def join(self) -> subprocess.Popen[bytes]:
        options = ("--host", "127.0.0.1", "--nworkers", "1", "--nthreads", "1")
        self.nodes.append(self._start("worker", self.address, *options))
        return self.nodes[-1]

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """Kill a node, or the scheduler, with all of its processes."""
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process in self.nodes:
            self.nodes.remove(process)

    def close(self) -> None:
        for process in (*self.nodes, self.scheduler):
            if process.poll() is None:
                self.kill(process)
