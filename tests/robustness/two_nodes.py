"""Two "nodes" of this machine that train by torchrun, and what their losses are beside others'.

A node is a ``torchrun`` with one process, in a process group of its own.  Sums in another order
differ in their last bits, which training amplifies.  Dropout is drawn by each process: give a
language model without it, and ``training.save_every`` low.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.pacs.orthanc import free_port

LIMIT_S = 1200


class Nodes:
    def __init__(self, config: Path, out: Path, overrides: Sequence[str] = ()) -> None:
        self.out, self.log = out, out.with_suffix(".log")
        self._training = ["-m", "cxrtext.training", str(config), "--resume", "--set", f"out={out}"]
        self._training += [part for value in overrides for part in ("--set", value)]

    def start(self, *options: str) -> "subprocess.Popen[bytes]":
        """Start one node, with the options of its torchrun; without any, a plain process."""
        run = [sys.executable]
        if options:
            run += ["-m", "torch.distributed.run", "--nproc-per-node", "1", *options]
        # torchrun 2.13 else lets a node that joins later wait for an address that is never sent.
        own = {"OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [*run, *self._training],
                env={**os.environ, **own},
                start_new_session=True,
                stdout=log,
                stderr=log,
            )

    def steps(self) -> int:
        return len(losses(self.out))

    def wait_for(self, step: int, process: "subprocess.Popen[bytes]") -> bool:
        """Wait until a step is logged; False where the process ends first."""
        end = time.monotonic() + LIMIT_S
        while self.steps() < step:
            if process.poll() is not None:
                return False
            assert time.monotonic() < end, f"{self.out}: step {step} did not come; see {self.log}"
            time.sleep(0.1)
        return True

    def end(self, *processes: "subprocess.Popen[bytes]") -> None:
        found = [process.wait(LIMIT_S) for process in processes]
        assert not any(found), f"{self.out}: ended with {found}; see {self.log}"


def losses(out: Path) -> dict[int, float]:
    path, found = out / "metrics.jsonl", {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        try:
            values = json.loads(line)
        except ValueError:
            continue  # being written
        if values["kind"] == "train":
            found[int(values["step"])] = float(values["loss"])
    return found


def static(nodes: Nodes) -> None:
    """Two nodes that know each other's place."""
    where = ["--nnodes", "2", "--master-addr", "127.0.0.1", "--master-port", str(free_port())]
    nodes.end(*[nodes.start(*where, "--node-rank", str(rank)) for rank in range(2)])


def elastic(nodes: Nodes, total: int, kills: int) -> None:
    """Two nodes, of which the second is killed and comes back a while after the first went on."""
    where = [
        "--nnodes", "1:2", "--max-restarts", str(2 * kills + 2), "--rdzv-backend", "c10d",
        "--rdzv-id", "two-nodes", "--rdzv-endpoint", f"127.0.0.1:{free_port()}",
        "--rdzv-conf", "last_call_timeout=5",
    ]  # fmt: skip
    chance = random.Random(0)
    first = nodes.start(*where)
    time.sleep(3)  # it keeps the rendezvous
    second = nodes.start(*where)
    for number in range(kills):
        at = round(total * (number + chance.uniform(0.3, 0.7)) / (kills + 0.5))
        if not nodes.wait_for(at, first):
            break
        # Processes that a torchrun started have sessions of their own.
        workers = subprocess.run(["pgrep", "-P", str(second.pid)], capture_output=True, text=True)
        os.killpg(second.pid, signal.SIGKILL)
        for child in workers.stdout.split():
            os.kill(int(child), signal.SIGKILL)
        second.wait()
        nodes.wait_for(min(total, nodes.steps() + 5), first)
        if first.poll() is None:
            second = nodes.start(*where)
    nodes.end(first)
    second.wait(LIMIT_S)
