"""Kills an embed job at random moments: a worker, the driver, a whole node, during a rename.

    python tests/jobs/kill_job.py CHECKPOINT MANIFEST FOLDER --kills 20 [--shard 32] [--workers 2]

The shards, and the index made of them, must be those of a job that nobody killed, byte for byte.
Ends with 0 and a line that counts the kills.
"""

import argparse
import hashlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

KINDS = ("worker", "driver", "node", "rename")
CODE = """
import sys
from pathlib import Path
from cxrtext.jobs import EmbedOptions, embed_job
*paths, shard, workers = sys.argv[1:]
if __name__ == "__main__":
    embed_job(*map(Path, paths), EmbedOptions(shard=int(shard), workers=int(workers)))
"""
LATEST_S = 4.0  # after the first worker has started


def digests(folder: Path, pattern: str) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.glob(pattern))
        if not path.name.startswith(".")
    }


def rows_of(index: Path) -> dict[str, list[Any]]:
    """The tables of a catalogue."""
    with closing(sqlite3.connect(index / "catalogue.sqlite")) as base:
        names = base.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return {
            name: sorted(base.execute(f"SELECT * FROM {name}").fetchall(), key=repr)  # noqa: S608
            for (name,) in names
        }


def children(parent: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError, IndexError):
            status = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(status[1]) == parent and b"spawn_main" in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return sorted(found)


def is_writing(shards: Path) -> bool:
    with suppress(FileNotFoundError), os.scandir(shards) as entries:
        return any(entry.name.startswith(".") for entry in entries)
    return False


def until_writing(driver: subprocess.Popen[str], shards: Path) -> None:
    while driver.poll() is None and not is_writing(shards):
        time.sleep(0.0002)


@contextmanager
def started(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    """A driver, killed at the end with all of its processes, as by a node that loses power."""
    with subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as driver:
        try:
            yield driver
        finally:
            with suppress(ProcessLookupError):
                os.killpg(driver.pid, signal.SIGKILL)


def ends_well(driver: subprocess.Popen[str]) -> None:
    _, errors = driver.communicate(timeout=300)
    assert driver.returncode == 0, errors


def kill_once(command: list[str], shards: Path, kind: str, chance: random.Random) -> bool:
    """Start a driver and kill something of it; False where it ended before."""
    with started(command) as driver:
        while driver.poll() is None and not children(driver.pid):
            time.sleep(0.01)
        if kind == "rename":
            until_writing(driver, shards)
        else:
            end = time.monotonic() + chance.uniform(0, LATEST_S)
            while driver.poll() is None and time.monotonic() < end:
                time.sleep(0.01)
        if driver.poll() is not None:
            ends_well(driver)
            return False
        if kind == "worker":
            workers = children(driver.pid)
            if not workers:
                return False
            os.kill(chance.choice(workers), signal.SIGKILL)
            ends_well(driver)
        elif kind == "driver":
            driver.kill()
            driver.wait()
        return True


def drop_some(shards: Path, chance: random.Random) -> None:
    """Leave work for the next kill: remove half of the shards."""
    files = sorted(path for path in shards.iterdir() if not path.name.startswith("."))
    for path in chance.sample(files, len(files) // 2):
        path.unlink()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("manifest", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--shard", type=int, default=32)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    return run(options)


def run(options: argparse.Namespace) -> int:
    """Kill, and compare with what nobody killed."""
    chance = random.Random(options.seed)  # noqa: S311

    def embed(job: str) -> list[str]:
        what = [options.manifest, options.checkpoint, options.folder / job]
        what += [options.folder / f"{job}-index", options.shard, options.workers]
        return [sys.executable, "-c", CODE, *map(str, what)]

    quiet = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(embed("whole"), **quiet)  # type: ignore[call-overload]
    shards, killed = options.folder / "killed" / "shards", Counter[str]()
    while killed.total() < options.kills:
        kind = KINDS[killed.total() % len(KINDS)]
        if kill_once(embed("killed"), shards, kind, chance):
            killed[kind] += 1
            print(f"kill {killed.total()}: {kind}, {len(digests(shards, '*'))} shards", flush=True)  # noqa: T201
        if len(digests(shards, "*")) == len(digests(options.folder / "whole" / "shards", "*")):
            drop_some(shards, chance)
    with started(embed("killed")) as driver:
        while driver.poll() is None and not (options.folder / "killed-index").exists():
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 1))
    subprocess.run(embed("killed"), **quiet)  # type: ignore[call-overload]
    one, other = options.folder / "whole", options.folder / "killed"
    assert digests(other / "shards", "*") == digests(one / "shards", "*")
    indexes = [options.folder / f"{job}-index" for job in ("whole", "killed")]
    assert digests(indexes[1], "*.vectors") == digests(indexes[0], "*.vectors")
    assert rows_of(indexes[1]) == rows_of(indexes[0])
    count = len(digests(one / "shards", "*"))
    line = f"{killed.total()} kills, {dict(killed)}, and one while it indexed"
    print(f"{line}: {count} shards and the index are equal to those of an unbroken run")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
