"""Minutes of mixed load on the real server, with its memory watched.

    python benchmarks/serving/soak.py CHECKPOINT INDEX [--minutes 30] [--clients 4] [--rate 20]

Uploads (small and large, all different), indexed images, grounding, search and wrong requests go
over the loopback at a bounded rate.  Every ten seconds the memory (RSS) of the server and of its
decoding processes is noted.  Prints a table and the slope by least squares over what follows the
warm-up, a fifth of the time; ends with 1 where memory grew by more than a tenth after it, or where
an answer was neither right nor an orderly refusal.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import numpy as np
from load import QUESTIONS, Body, ask, form, requests_of
from serve import draw_pictures, serving_process

PAUSE = 10.0
MIX = (*QUESTIONS, "classify-small", "search", "wrong")
EXPECTED = {"wrong": {404, 422}}
MOST_GROWTH = 0.10

Sample = tuple[float, float, float, int]
"""Seconds, MiB of the server, MiB of its children, children."""


def _resident(pid: int) -> float:
    """MiB in memory of a process; 0 where it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def _children(pid: int) -> list[int]:
    try:
        threads = Path(f"/proc/{pid}/task").iterdir()
        children = " ".join((thread / "children").read_text() for thread in threads)
    except OSError:
        return []
    return [int(child) for child in children.split()]


def _wrong() -> Iterator[Body]:
    """Requests that have to be refused."""
    yield from cycle(
        [
            form("/v1/classify", {}, [b"no image"]),
            form("/v1/classify", {"image_id": "../../etc/passwd"}),
            form("/v1/search", {"query": "."}),
            form("/v1/ground", {"image_id": "none", "sentence": "Effusion."}),
        ]
    )


async def _watch(pid: int, until: float, samples: list[Sample]) -> None:
    begun = time.monotonic()
    while (now := time.monotonic()) < until:
        children = _children(pid)
        sample = (now - begun, _resident(pid), sum(map(_resident, children)), len(children))
        samples.append(sample)
        print("| {:.0f} | {:.0f} | {:.0f} | {} |".format(*sample), flush=True)
        await asyncio.sleep(min(PAUSE, max(0.0, until - now)))


async def _call(
    address: tuple[str, int],
    bodies: dict[str, Iterator[Body]],
    turn: Iterator[str],
    pace: float,
    until: float,
    seen: Counter[tuple[str, int]],
) -> None:
    while time.monotonic() < until:
        reader, writer = await asyncio.open_connection(*address, limit=2**20)
        for _ in range(50):  # then another connection
            question, begun = next(turn), time.monotonic()
            if begun >= until:
                break
            status, _ = await ask(reader, writer, next(bodies[question]))
            seen[question, status] += 1
            await asyncio.sleep(max(0.0, pace - (time.monotonic() - begun)))
        writer.close()


async def _soak(
    address: str, pid: int, places: tuple[Path, Path], given: argparse.Namespace
) -> tuple[list[Sample], Counter[tuple[str, int]]]:
    host, _, port = address.partition(":")
    bodies = {
        name: requests_of(name, *places, start=1000 * number)
        for number, name in enumerate(QUESTIONS)
    } | {"wrong": _wrong()}
    samples: list[Sample] = []
    seen: Counter[tuple[str, int]] = Counter()
    until, turn = time.monotonic() + 60 * given.minutes, cycle(MIX)
    pace = given.clients / given.rate
    callers = [
        _call((host, int(port)), bodies, turn, pace, until, seen) for _ in range(given.clients)
    ]
    await asyncio.gather(_watch(pid, until, samples), *callers)
    return samples, seen


def judge(samples: list[Sample], seen: Counter[tuple[str, int]]) -> int:
    """Print what was found; 1 where memory grew or an answer was wrong."""
    print("\n| question | status | answers |\n|---|---|---|")
    wrong = 0
    for (question, status), count in sorted(seen.items()):
        print(f"| {question} | {status} | {count} |")
        wrong += count * (status not in EXPECTED.get(question, {200}) | {503})
    table = np.array([sample[:3] for sample in samples])
    kept = table[table[:, 0] >= table[-1, 0] / 5]
    growth = []
    for column, name in ((1, "server"), (2, "children")):
        slope = np.polyfit(kept[:, 0], kept[:, column], 1)[0] if len(kept) > 1 else 0.0
        half = max(1, len(kept) // 4)
        first, last = kept[:half, column].mean(), kept[-half:, column].mean()
        growth.append(last / first - 1 if first else 0.0)
        print(
            f"\n{name}: {60 * slope:+.2f} MiB a minute; {first:.0f} MiB after the warm-up, "
            f"{last:.0f} MiB at the end ({growth[-1]:+.1%})"
        )
    print(f"\n{sum(seen.values())} answers, {wrong} of them wrong")
    return int(wrong > 0 or max(growth) > MOST_GROWTH)


def main() -> int:
    """Run as the module's docstring says."""
    parser = argparse.ArgumentParser(description="See the top of the file.")
    parser.add_argument("model", type=Path)
    parser.add_argument("index", type=Path)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--rate", type=float, default=20, help="requests a second, all together")
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as made,
        serving_process(given.model, given.index, []) as (process, address),
    ):
        draw_pictures(Path(made))
        print("| seconds | server MiB | children MiB | children |\n|---|---|---|---|", flush=True)
        places = Path(made), given.index
        samples, seen = asyncio.run(_soak(address, process.pid, places, given))
        process.terminate()
        try:
            ended = process.wait(60)
        except subprocess.TimeoutExpired:
            ended = -1
    print(f"\nthe server ended with {ended}")
    return judge(samples, seen) or int(ended != 0)


if __name__ == "__main__":
    sys.exit(main())
