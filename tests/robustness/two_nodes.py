"""Train on two "nodes" of this machine by torchrun, kill them, and compare with one process.

    python tests/robustness/two_nodes.py CONFIG FOLDER [--kills 3]

A node is a ``torchrun`` with one process, in a process group of its own.  Runs of one
configuration, each into a folder of its own below FOLDER: one process; two nodes with a static
rendezvous; two nodes, stopped half-way, resumed by one process and then by two nodes again; and an
elastic one, whose second node is killed with -9 and started again a few times while the first goes
on.  Prints how far the losses of each are from those of the one process, and how far those of one
process with two threads are: sums in another order differ in their last bits, which training
amplifies.  Dropout is drawn by each process: give a language model without it, and
``training.save_every`` low.
"""

import argparse
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

LIMIT_S = 1200


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


class Nodes:
    """Nodes that train into one folder."""

    def __init__(self, config: Path, out: Path, overrides: Sequence[str] = ()) -> None:
        self.out, self.log = out, out.with_suffix(".log")
        self._training = ["-m", "cxrtext.training", str(config), "--resume", "--set", f"out={out}"]
        self._training += [part for value in overrides for part in ("--set", value)]
        # torchrun 2.13 else lets a node that joins later wait for an address that is never sent.
        own = {"OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
        self.environment = {**os.environ, **own}

    def start(self, *options: str) -> "subprocess.Popen[bytes]":
        """Start one node, with the options of its torchrun; without any, a plain process."""
        run = [sys.executable]
        if options:
            run += ["-m", "torch.distributed.run", "--nproc-per-node", "1", *options]
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [*run, *self._training],
                env=self.environment,
                start_new_session=True,
                stdout=log,
                stderr=log,
            )

    def static(self) -> "list[subprocess.Popen[bytes]]":
        """Two nodes that know each other's place."""
        where = ["--nnodes", "2", "--master-addr", "127.0.0.1", "--master-port", str(free_port())]
        return [self.start(*where, "--node-rank", str(rank)) for rank in range(2)]

    def steps(self) -> int:
        """Steps that the run has logged."""
        path = self.out / "metrics.jsonl"
        return len(losses(path)) if path.is_file() else 0

    def wait_for(self, step: int, process: "subprocess.Popen[bytes]") -> bool:
        """Wait until a step is logged; False where the process ends first."""
        end = time.monotonic() + LIMIT_S
        while self.steps() < step:
            if process.poll() is not None:
                return False
            if time.monotonic() > end:
                raise TimeoutError(f"{self.out}: step {step} did not come; see {self.log}")
            time.sleep(0.1)
        return True

    def end(self, *processes: "subprocess.Popen[bytes]", code: int = 0) -> None:
        """Wait for the end, and compare the exit codes."""
        found = [process.wait(LIMIT_S) for process in processes]
        if found != [code] * len(found):
            raise SystemExit(f"{self.out}: ended with {found}; see {self.log}")


def losses(path: Path) -> dict[int, float]:
    """The logged loss of each step."""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            values = json.loads(line)
        except ValueError:
            continue  # being written
        if values["kind"] == "train":
            found[int(values["step"])] = float(values["loss"])
    return found


def farthest(one: Path, other: Path) -> str:
    """How far two runs' losses are apart at most."""
    first, second = (losses(folder / "metrics.jsonl") for folder in (one, other))
    if first.keys() != second.keys():
        raise SystemExit(f"{one} has {len(first)} steps, {other} {len(second)}")
    apart = [abs(first[step] - second[step]) / first[step] for step in sorted(first)]
    mean = sum(apart) / len(apart)
    return f"{len(apart)} steps; losses differ by {mean:.1e} in the mean, {max(apart):.1e} at most"


def resized(nodes: Nodes, total: int) -> None:
    """Two nodes to a third, one process to two thirds, two nodes to the end."""
    for count, until in ((2, total // 3), (1, 2 * total // 3), (2, total)):
        run = nodes.static() if count == 2 else [nodes.start()]
        if until < total:
            nodes.wait_for(until, run[0])
            for process in run:
                os.killpg(process.pid, signal.SIGTERM)
            for process in run:
                process.wait(LIMIT_S)
        else:
            nodes.end(*run)


def elastic(nodes: Nodes, total: int, kills: int, chance: random.Random) -> str:
    """Two nodes, of which the second is killed and comes back a while after the first went on."""
    where = [
        "--nnodes", "1:2", "--max-restarts", str(2 * kills + 2), "--rdzv-backend", "c10d",
        "--rdzv-id", "two-nodes", "--rdzv-endpoint", f"127.0.0.1:{free_port()}",
        "--rdzv-conf", "last_call_timeout=5",
    ]  # fmt: skip
    first = nodes.start(*where)
    time.sleep(3)  # it keeps the rendezvous
    second = nodes.start(*where)
    said = []
    for number in range(kills):
        at = round(total * (number + chance.uniform(0.3, 0.7)) / (kills + 0.5))
        if not nodes.wait_for(at, first):
            break
        os.killpg(second.pid, signal.SIGKILL)
        for child in _workers_of(second.pid):
            os.kill(child, signal.SIGKILL)
        second.wait()
        said.append(str(nodes.steps()))
        nodes.wait_for(min(total, nodes.steps() + 5), first)
        if first.poll() is None:
            second = nodes.start(*where)
    nodes.end(first)
    second.wait(LIMIT_S)
    return "second node killed at steps " + ", ".join(said)


def _workers_of(parent: int) -> list[int]:
    """Processes that a torchrun started; they have sessions of their own."""
    found = subprocess.run(["pgrep", "-P", str(parent)], capture_output=True, text=True)
    return [int(pid) for pid in found.stdout.split()]


def main() -> None:
    """Run all, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=["threads", "static", "resized", "elastic"])
    parser.add_argument("--set", action="append", default=[], dest="overrides")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)

    def nodes(name: str) -> Nodes:
        return Nodes(options.config, options.folder / name, options.overrides)

    one = nodes("one")
    one.end(one.start())
    total = one.steps()
    for name in options.only:
        other, said = nodes(name), ""
        if name == "threads":
            other.environment["OMP_NUM_THREADS"] = "2"
            other.end(other.start())
        elif name == "static":
            other.end(*other.static())
        elif name == "resized":
            resized(other, total)
        else:
            chance = random.Random(options.seed)
            said = f", {elastic(other, total, options.kills, chance)}"
        print(f"{name}{said}: {farthest(one.out, other.out)}", flush=True)


if __name__ == "__main__":
    main()
