"""Replicas behind nginx: one killed, publications turned to under load, and throughput.

    python benchmarks/serving/replicas.py DATA CHECKPOINT OTHER FOLDER [--seconds 15] [--clients 4]

DATA is a data folder, CHECKPOINT and OTHER are two models of it.  Makes three states of an index in
FOLDER: four fifths of the images; all of them; all of them by the other model.  Asks what each
answers, in this process.  Then the real thing on this machine: three servers, each on a replica of
its own, behind nginx with the configuration of ``docker/nginx``, and clients that ask without a
pause.  Every answer is compared with what the publication answers that it names.  Prints Markdown.
"""

import argparse
import asyncio
import csv
import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from load import SENTENCES, Body, ask_whole, form
from nginx import free_port, proxy
from serve import serving_process

FINDINGS = ("Pneumonia", "Atelectasis", "Edema", "Rib fracture", "Pacemaker", "Nodule")
SIDES = ("", "left ", "right ")
WHERE = ("", "age > 60", "sex = 'F' and view = 'PA'")
REPLICAS = 3
CLOSE = 2e-6
SETTLE = 3.0


def questions() -> list[dict[str, str]]:
    """What is asked, over and over."""
    said = [f"{s}." for s in SENTENCES]
    said += [f"{side}{finding}.".capitalize() for finding in FINDINGS for side in SIDES]
    return [
        {"query": sentence, "k": "10", **({"where": where} if where else {})}
        for sentence in said
        for where in WHERE
    ]


Answers = dict[int, dict[str, float]]
"""Scores by image, by the number of the question."""


def make_states(data: Path, model: Path, other: Path, folder: Path) -> list[Path]:
    """The states of the index, made where they are missing."""
    from cxrtext.index import build_index, reembed

    folder.mkdir(parents=True, exist_ok=True)
    states = [folder / name for name in ("some", "all", "other")]
    if states[-1].exists():
        return states
    with (data / "manifest.csv").open() as file:
        rows = list(csv.reader(file))
    manifest = folder / "manifest.csv"
    with manifest.open("w", newline="") as file:
        csv.writer(file).writerows(rows[: 1 + 4 * (len(rows) - 1) // 5])
    if not (folder / "images").exists():
        (folder / "images").symlink_to((data / "images").resolve())
    work = folder / "work"
    shutil.rmtree(work, ignore_errors=True)
    options: dict[str, Any] = {"reports": data / "reports.csv", "allow_outside": True}
    build_index(manifest, model, work, **options)
    shutil.copytree(work, states[0])
    with manifest.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    build_index(manifest, model, work, **options)
    shutil.copytree(work, states[1])
    reembed(work, other)
    work.rename(states[2])
    return states


def answers_of(index: Path) -> Answers:
    """What an index answers, without a server."""
    from cxrtext import load_service

    service = load_service(None, index)
    found: Answers = {}
    for number, asked in enumerate(questions()):
        query = service.make_query(asked["query"])
        hits = service.search(query, 10, where=asked.get("where")).hits
        found[number] = {hit.image.image: hit.score for hit in hits}
    service.close()
    return found


def same(one: dict[str, float], other: dict[str, float]) -> bool:
    """Whether two answers are the same, but for the last digit."""
    if one.keys() != other.keys():  # the tenth may be as good as the eleventh
        return sorted(one.values())[1:] == sorted(other.values())[1:] and (
            len(one.keys() - other.keys()) == 1
            and abs(min(one.values()) - min(other.values())) < CLOSE
        )
    return all(abs(score - other[name]) < CLOSE for name, score in one.items())


@dataclass
class Seen:
    """What the clients saw."""

    expected: dict[str, Answers] = field(default_factory=dict)  # by publication
    statuses: Counter[int] = field(default_factory=Counter)
    publications: Counter[str] = field(default_factory=Counter)
    wrong: int = 0
    broken: int = 0  # connections that ended without an answer
    latencies: list[float] = field(default_factory=list)
    first: dict[str, float] = field(default_factory=dict)  # when one answered first
    last: dict[str, float] = field(default_factory=dict)  # when one answered last

    def note(self, number: int, status: int, head: bytes, data: bytes, seconds: float) -> None:
        """Count an answer and compare it."""
        self.statuses[status] += 1
        self.latencies.append(seconds)
        if status != 200:
            return
        lines = head.decode("latin-1").lower().split("\r\n")
        digest = next(line[15:] for line in lines if line.startswith("x-publication: "))
        self.publications[digest] += 1
        self.first.setdefault(digest, time.monotonic())
        self.last[digest] = time.monotonic()
        scores = {one["image_id"]: one["score"] for one in json.loads(data)["images"]}
        self.wrong += not same(scores, self.expected[digest][number])

    @property
    def failed(self) -> int:
        """Questions without a right answer."""
        return self.broken + self.wrong + sum(self.statuses.values()) - self.statuses[200]


async def _client(
    address: tuple[str, int], bodies: list[Body], start: int, seen: Seen, stop: asyncio.Event
) -> None:
    number = start
    reader, writer = await asyncio.open_connection(*address, limit=2**20)
    while not stop.is_set():
        number = (number + 1) % len(bodies)
        begun = time.perf_counter()
        try:
            status, head, data = await ask_whole(reader, writer, bodies[number])
        except (OSError, asyncio.IncompleteReadError):
            seen.broken += 1
            reader, writer = await asyncio.open_connection(*address, limit=2**20)
            continue
        seen.note(number, status, head, data, time.perf_counter() - begun)
    writer.close()


async def under_load(address: str, clients: int, seen: Seen, work: Any) -> float:
    """Ask for as long as some work takes, which runs beside; gives its seconds."""
    host, _, port = address.partition(":")
    bodies = [form("/v1/search", asked) for asked in questions()]
    stop = asyncio.Event()
    step = len(bodies) // clients
    asking = [
        asyncio.create_task(_client((host, int(port)), bodies, n * step, seen, stop))
        for n in range(clients)
    ]
    begun = time.perf_counter()
    try:
        await asyncio.to_thread(work)
    finally:
        stop.set()
        await asyncio.gather(*asking)
    return time.perf_counter() - begun


def command(*words: object) -> dict[str, Any]:
    """Run a command of ``cxrtext`` that prints JSON."""
    start = [sys.executable, "-c", "from cxrtext_cli.main import main; main()"]
    done = subprocess.run(
        [*start, *map(str, words), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def peak_of(pid: int) -> float:
    """The most memory that a process has had, in MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1000 for line in lines if line.startswith("VmHWM"))


class Site:
    """Replicas, their servers, and nginx before them."""

    def __init__(self, target: Path, folder: Path, stack: ExitStack) -> None:
        self.target, self.folder, self._stack = target, folder, stack
        self.ports = [free_port() for _ in range(REPLICAS)]
        self.servers: dict[int, subprocess.Popen[str]] = {}

    def replica(self, number: int) -> Path:
        """The folder of a replica."""
        return self.folder / f"replica-{number}"

    def pull(self, number: int) -> dict[str, Any]:
        """Pull what is new."""
        return command("index", "pull", self.target, self.replica(number))

    def start(self, number: int) -> None:
        """Start a server, and wait until it answers."""
        extra = ["--port", str(self.ports[number])]
        process, _ = self._stack.enter_context(serving_process(None, self.replica(number), extra))
        self.servers[number] = process

    def kill(self, number: int) -> None:
        """End a server as a crash does."""
        self.servers[number].kill()
        self.servers[number].wait()


def row(name: str, seen: Seen, note: str) -> None:
    """Print a line of the table."""
    times = 1000 * np.array(seen.latencies or [float("nan")])
    print(
        f"| {name} | {sum(seen.statuses.values()) + seen.broken} | {seen.failed} | {seen.wrong} | "
        f"{np.percentile(times, 50):.0f} | {np.percentile(times, 99):.0f} | {times.max():.0f} | "
        f"{note} |",
        flush=True,
    )


def throughput(site: Site, expected: dict[str, Answers], given: argparse.Namespace) -> None:
    """Answers a second of one server by itself, and of one to three behind nginx."""
    print("| servers | clients | answers/s | p50 ms | p99 ms | failed |\n|---|---|---|---|---|---|")
    for count in (0, *range(1, REPLICAS + 1)):
        with ExitStack() as stack:
            address = f"127.0.0.1:{site.ports[0]}"
            if count:
                folder = site.folder / f"proxy-of-{count}"
                shutil.rmtree(folder, ignore_errors=True)
                address = stack.enter_context(proxy(folder, site.ports[:count], given.nginx))
            for clients in given.at_once:
                asyncio.run(under_load(address, clients, Seen(expected), lambda: time.sleep(2)))
                seen = Seen(expected)
                took = asyncio.run(
                    under_load(address, clients, seen, lambda: time.sleep(given.seconds))
                )
                times = 1000 * np.array(seen.latencies)
                name = f"{count} behind nginx" if count else "1, without nginx"
                print(
                    f"| {name} | {clients} | {seen.statuses[200] / took:.1f} | "
                    f"{np.percentile(times, 50):.0f} | {np.percentile(times, 99):.0f} | "
                    f"{seen.failed} |",
                    flush=True,
                )


def killed(site: Site, address: str, expected: dict[str, Answers], clients: int) -> Seen:
    """One server is killed under load, and started again."""
    seen = Seen(expected)

    def work() -> None:
        time.sleep(SETTLE)
        site.kill(1)
        time.sleep(2 * SETTLE)
        site.start(1)
        time.sleep(2 * SETTLE)

    asyncio.run(under_load(address, clients, seen, work))
    row("kill -9 of one of three, and its restart", seen, "")
    return seen


def turned(
    site: Site, address: str, index: Path, seen: Seen, clients: int, name: str
) -> tuple[str, dict[str, Any]]:
    """An index is published and pulled under load, and all servers turn to it."""
    made: dict[str, Any] = {}
    expected = answers_of(index)

    def work() -> None:
        time.sleep(SETTLE)
        made.update(command("index", "publish", index, site.target, "--keep", "2"))
        seen.expected[made["publication"]] = expected
        made["fetched"] = 0
        for number in range(REPLICAS):
            made["fetched"] += site.pull(number)["fetched"]
            time.sleep(1)
        made["pulled_at"] = time.monotonic()
        time.sleep(4 * SETTLE)

    asyncio.run(under_load(address, clients, seen, work))
    both = "; ".join(f"{count} by {digest[:8]}" for digest, count in seen.publications.items())
    old = [time for digest, time in seen.last.items() if digest != made["publication"]]
    after = max(old) - made["pulled_at"]
    note = (
        f"{both}; {made['sent'] / 1e6:.1f} of {made['size'] / 1e6:.1f} MB sent; last answer by the "
        f"old one {after:+.1f} s from the last pull"
    )
    row(name, seen, note)
    return made["publication"], made


def main() -> int:
    """Run as the module's docstring says."""
    parser = argparse.ArgumentParser(description="See the top of the file.")
    for name in ("data", "model", "other", "folder"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--at-once", type=int, nargs="*", default=[1, 8])
    parser.add_argument("--nginx", default=shutil.which("nginx") or "/usr/sbin/nginx")
    given = parser.parse_args()
    given.folder = given.folder.absolute()
    states = make_states(given.data, given.model, given.other, given.folder)
    target = given.folder / "published"
    for old in (target, *given.folder.glob("replica-*"), given.folder / "proxy"):
        shutil.rmtree(old, ignore_errors=True)
    failed = 0
    with ExitStack() as stack:
        site = Site(target, given.folder, stack)
        first = command("index", "publish", states[0], target)["publication"]
        expected = {first: answers_of(states[0])}
        for number in range(REPLICAS):
            site.pull(number)
            site.start(number)
        print(f"cores: {len(os.sched_getaffinity(0))}, questions: {len(questions())}\n")
        throughput(site, expected, given)
        print(
            "\n| under load | questions | failed | wrong | p50 ms | p99 ms | longest ms | |\n"
            "|---|---|---|---|---|---|---|---|"
        )
        address = stack.enter_context(proxy(given.folder / "proxy", site.ports, given.nginx))
        failed += killed(site, address, expected, given.clients).failed
        before = {number: peak_of(one.pid) for number, one in site.servers.items()}
        names = ("a publication with more images", "a publication of another model")
        for name, index in zip(names, states[1:], strict=True):
            seen = Seen(dict(expected))
            made, _ = turned(site, address, index, seen, given.clients, name)
            expected = {made: seen.expected[made]}
            failed += seen.failed
        print("\nmost memory of the servers, MB: before the turns and after both")
        for number, one in site.servers.items():
            held = site.pull(number)["held"]
            print(f"- {before[number]:.0f}, {peak_of(one.pid):.0f}; old publications held: {held}")
    print(f"\n{failed} questions failed or were answered wrongly")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
