"""The same images as one index, as several in one process, and as services behind a front.

    python benchmarks/search/shards.py CHECKPOINT INDEX --images 40000 --shards 4 --work DIR

Made-up images are the regions of an index, resampled with noise (as search.py has them);
a study goes to its shard by the hash that index jobs use.  Times of fast and exact searches by
sentences that differ, one at a time: `Archive` in this process over one folder and over all;
`cxrtext serve` over one folder; `cxrtext serve --shards` over as many services.  Then one shard is
killed (SIGKILL) under the load of several clients, and started again: every answer is compared with
that of an archive of just the shards that it says it rests on.  All of it shares one machine.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import torch
from PIL import Image
from search import made_up, resampled

from cxrtext.evaluation import CHEX5_PROMPTS
from cxrtext.index import Archive, Query, open_index
from cxrtext.index.build import start_index
from cxrtext.index.changes import add_images
from cxrtext.index.features.scoring import packed_rows
from cxrtext.index.shards import shard_name, shard_of
from cxrtext.index.store.snapshot import take_snapshot
from cxrtext.index.store.vectors import rows_of
from cxrtext.index.store.writer import writing
from cxrtext.index.tuning import refresh_structure
from cxrtext.models import ImageTextModel, load_model
from cxrtext.models.regions import unpack
from cxrtext.service import Service

COMMAND = (sys.executable, "-c", "from cxrtext_cli.main import main; main()", "serve")
K = 10


def build(work: Path, checkpoint: Path, index: Path, images: int, shards: int) -> list[Path]:
    """An index of all images, and those of its shards; kept where they are there."""
    folders = [work / "whole", *(work / shard_name(number, shards) for number in range(shards))]
    if all((folder / "index.json").exists() for folder in folders):
        return folders
    model = load_model(checkpoint)
    with open_index(index, model) as known:
        (snapshot,) = known.snapshots()
        pool = unpack(rows_of(snapshot.arrays["regions"], snapshot.live)).float()
        texts = snapshot.texts
    with ExitStack() as stack:
        opened = [stack.enter_context(writing(folder, create=True)) for folder in folders]
        for catalogue in opened:
            start_index(catalogue, model, checkpoint, list(texts), CHEX5_PROMPTS, "float16")
        languages = [
            take_snapshot(folder, catalogue).language
            for folder, catalogue in zip(folders, opened, strict=True)
        ]
        start = 0
        for batch in resampled(pool, images, pool.shape[1], 0.3):
            rows, _ = packed_rows(model, batch, languages[0], "float16")
            new = [made_up(start + i) for i in range(len(batch))]
            start += len(batch)
            owner = np.array([1 + shard_of(image.study_id, shards) for image in new])
            for which, (folder, catalogue) in enumerate(zip(folders, opened, strict=True)):
                mine = np.flatnonzero(owner == which) if which else np.arange(len(new))
                if len(mine):
                    some = {name: values[mine] for name, values in rows.items()}
                    add_images(folder, catalogue, [new[i] for i in mine], some)
        queries = ["The lungs are clear.", "Left pleural effusion.", "Right pneumothorax."]
        for folder, catalogue in zip(folders, opened, strict=True):
            refresh_structure(folder, catalogue, model, queries)
            (folder / "index.json").write_text("{}") if not (folder / "index.json").exists() else 0
    return folders


def sentences(count: int, first: int) -> list[str]:
    """Sentences that no other question has."""
    sides, sizes = ("left", "right"), ("small", "moderate", "large")
    kinds = ("pleural effusion", "pneumothorax", "consolidation", "lung nodule", "rib fracture")
    return [
        f"{sizes[i % 3].title()} {sides[i % 2]} {kinds[i % 5]} of {first + i} mm."
        for i in range(count)
    ]


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


class Server:
    """A service of its own process, on a port that it keeps."""

    def __init__(self, *options: str) -> None:
        self.port = free_port()
        self._options = options
        self.start()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it; see :meth:`wait`."""
        self.process = subprocess.Popen(
            [*COMMAND, "--port", str(self.port), "--rate-limit", "0", *self._options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "OMP_WAIT_POLICY": "PASSIVE"},
        )

    def wait(self) -> None:
        """Wait until it is ready."""
        end = time.monotonic() + 180
        while time.monotonic() < end:
            try:
                if httpx2.get(f"{self.url}/readyz").status_code == 200:
                    return
            except httpx2.HTTPError:
                pass
            time.sleep(0.1)
        raise SystemExit("a server did not start")

    def kill(self) -> None:
        """End it at once."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@contextmanager
def servers(*options: Sequence[str]) -> Iterator[list[Server]]:
    """Some services, all ready."""
    made = [Server(*one) for one in options]
    try:
        for one in made:
            one.wait()
        yield made
    finally:
        for one in made:
            one.process.terminate()
        for one in made:
            one.process.wait(60)


def timed(ask: Callable[[str], Any], sentence: str) -> tuple[float, Any]:
    """Milliseconds, and what was found."""
    begun = time.perf_counter()
    found = ask(sentence)
    return 1000 * (time.perf_counter() - begun), found


def in_process(archive: Archive, model: ImageTextModel, mode: str) -> Callable[[str], list[str]]:
    """Asks an archive of this process."""

    def ask(sentence: str) -> list[str]:
        query = Query(model.embed_sentences([sentence]))
        return [hit.image.image for hit in archive.search(query, K, mode=mode).hits]  # type: ignore[arg-type]

    return ask


def over_http(client: httpx2.Client, mode: str) -> Callable[[str], list[str]]:
    """Asks a server."""

    def ask(sentence: str) -> list[str]:
        form = {"query": sentence, "k": str(K), "mode": mode}
        said = client.post("/v1/search", data=form).raise_for_status().json()
        return [hit["image_id"] for hit in said["images"]]

    return ask


def compare(folders: list[Path], checkpoint: Path, count: int) -> None:
    """Print the table of times; each sentence is asked of all in turn, lest the load differ."""
    model = load_model(checkpoint)
    options = ["--model", str(checkpoint)]
    shards = len(folders) - 1
    asks: dict[str, Callable[[str], Callable[[str], list[str]]]] = {}
    with ExitStack() as stack:
        for name, some in (
            ("one folder, in process", folders[:1]),
            (f"{shards} folders, in process", folders[1:]),
        ):
            archive = stack.enter_context(open_index(some, model))
            asks[name] = partial(in_process, archive, model)
        (one,) = stack.enter_context(servers([*options, "--index", str(folders[0])]))
        _, lists = stack.enter_context(services(folders[1:], options))
        (front,) = stack.enter_context(servers([*options, "--shards", str(lists)]))
        for name, server in (("one service", one), (f"{shards} services and a front", front)):
            client = stack.enter_context(httpx2.Client(base_url=server.url, timeout=120))
            asks[name] = partial(over_http, client)
        took: dict[tuple[str, str], list[float]] = {}
        found: dict[tuple[str, str], list[Any]] = {}
        for mode, number in (("fast", count), ("exact", max(10, count // 3))):
            for at, sentence in enumerate(sentences(number + 3, 100)):
                for name, make in asks.items():
                    milliseconds, answer = timed(make(mode), sentence)
                    if at >= 3:  # the first ones take memory and read the disk
                        took.setdefault((name, mode), []).append(milliseconds)
                        found.setdefault((name, mode), []).append(answer)
    print(
        "| | fast p50 | p99 | exact p50 | p99 | same answers as | |\n|---|---|---|---|---|---|---|"
    )
    names = list(asks)
    for name in names:
        times = " | ".join(
            f"{np.percentile(took[name, mode], q):.1f}"
            for mode in ("fast", "exact")
            for q in (50, 99)
        )
        # Candidates of a fast search are looked for in each folder by itself.
        other = names[1] if name == names[3] else names[0]
        same = [
            100 * np.mean([a == b for a, b in zip(found[name, m], found[other, m], strict=True)])
            for m in ("fast", "exact")
        ]
        print(f"| {name} | {times} | {other} | {same[0]:.0f} % fast, {same[1]:.0f} % exact |")
    embedding(model)


def embedding(model: ImageTextModel) -> None:
    """Print what the front does once, which each shard would do otherwise."""
    service = Service(model)
    try:
        file = BytesIO()
        pixels = np.random.default_rng(0).integers(0, 255, (2500, 2000)).astype(np.uint8)
        Image.fromarray(pixels).save(file, "PNG", compress_level=1)
        data = file.getvalue()
        texts, images = [], []
        for sentence in sentences(12, 9000):
            texts.append(timed(lambda one: model.embed_sentences([one]), sentence)[0])
            images.append(
                timed(lambda _: service.embed(service._readers.read_bytes(data, "it")), "")[0]
            )
    finally:
        service.close()
    print(
        f"\nembedding: a sentence {np.median(texts):.1f} ms, an upload of 2500 x 2000 pixels "
        f"{np.median(images):.0f} ms"
    )


@contextmanager
def services(folders: list[Path], options: list[str]) -> Iterator[tuple[list[Server], Path]]:
    """A service a folder, and the file that lists them."""
    commands = [[*options, "--index", str(folder)] for folder in folders]
    with servers(*commands) as made, tempfile.TemporaryDirectory() as work:
        path = Path(work) / "shards.yaml"
        entries = [
            {"name": f"shard-{number:02d}", "urls": [one.url]} for number, one in enumerate(made)
        ]
        path.write_text(json.dumps({"shards": entries, "probe_s": 1.0, "deadline_s": 20.0}))
        yield made, path


def kill_one(folders: list[Path], checkpoint: Path, seconds: float, clients: int) -> None:
    """Kill a shard under load, start it again, and check every answer."""
    model = load_model(checkpoint)
    asked = sentences(24, 500)
    names = [f"shard-{number:02d}" for number in range(len(folders) - 1)]
    expected: dict[tuple[str, ...], dict[str, list[str]]] = {}
    for missing in ((), (names[1],)):
        some = [f for name, f in zip(names, folders[1:], strict=True) if name not in missing]
        with open_index(some, model) as archive:
            ask = in_process(archive, model, "exact")
            expected[missing] = {sentence: ask(sentence) for sentence in asked}
    log: list[tuple[float, str, int]] = []
    stop = threading.Event()
    options = ["--model", str(checkpoint)]
    with ExitStack() as stack:
        made, lists = stack.enter_context(services(folders[1:], options))
        (front,) = stack.enter_context(servers([*options, "--shards", str(lists)]))
        begun = time.monotonic()

        def client(number: int) -> None:
            with httpx2.Client(base_url=front.url, timeout=120) as http:
                at = number
                while not stop.is_set():
                    sentence = asked[at % len(asked)]
                    at += 1
                    log.append((time.monotonic() - begun, *check(http, sentence)))

        def check(http: httpx2.Client, sentence: str) -> tuple[str, int]:
            form = {"query": sentence, "k": str(K), "mode": "exact"}
            try:
                answer = http.post("/v1/search", data=form)
            except httpx2.HTTPError:
                return "failed", 0
            if answer.status_code != 200:
                return f"failed {answer.status_code}", 0
            said = answer.json()
            gone = tuple(said["shards"]["missing"])
            found = [hit["image_id"] for hit in said["images"]]
            right = gone in expected and found == expected[gone][sentence]
            return ("right" if right else "wrong"), said["shards"]["answered"]

        threads = [threading.Thread(target=client, args=(n,)) for n in range(clients)]
        for thread in threads:
            thread.start()
        time.sleep(seconds)
        killed = time.monotonic() - begun
        made[1].kill()
        time.sleep(seconds)
        made[1].start()
        made[1].wait()
        there = time.monotonic() - begun
        time.sleep(seconds)
        stop.set()
        for thread in threads:
            thread.join()
    total = len(names)
    print(f"\nkilled at {killed:.1f} s, ready again at {there:.1f} s; {clients} clients")
    print("| answers | right | wrong | failed |\n|---|---|---|---|")
    for answered in (total, total - 1):
        right = sum(1 for _, what, n in log if what == "right" and n == answered)
        wrong = sum(1 for _, what, n in log if what == "wrong" and n == answered)
        print(f"| {answered} of {total} | {right} | {wrong} | |")
    failed = sum(1 for _, what, _ in log if what.startswith("failed"))
    print(f"| none | | | {failed} |")
    first = min((at for at, _, n in log if n == total - 1 and at > killed), default=float("nan"))
    back = min((at for at, _, n in log if n == total and at > there), default=float("nan"))
    last = max((at for at, _, n in log if n == total - 1), default=float("nan"))
    print(
        f"first partial answer {first - killed:.2f} s after the kill; first whole one "
        f"{back - there:.2f} s, last partial one {last - there:.2f} s after it was ready"
    )


def main() -> int:
    """Build, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("index", type=Path)
    parser.add_argument("--images", type=int, default=40_000)
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--work", type=Path, help="Folder that keeps the indexes.")
    given = parser.parse_args()
    torch.set_num_threads(1)  # as a server of a small model has it
    with tempfile.TemporaryDirectory() as temporary:
        work = given.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        folders = build(work, given.checkpoint, given.index, given.images, given.shards)
        compare(folders, given.checkpoint, given.questions)
        kill_one(folders, given.checkpoint, given.seconds, given.clients)
    return 0


if __name__ == "__main__":
    sys.exit(main())
