"""The callers of serve.py: bodies, and a load generator.

    python benchmarks/serving/load.py HOST:PORT QUESTION CLIENTS SECONDS PICTURES INDEX

Runs in a process of its own, on bare asyncio streams (a tenth of a millisecond a request), and
prints one line of JSON: answers, seconds, latencies, statuses, and its own processor time, which on
one machine is taken from the server.
"""

import asyncio
import json
import random
import resource
import sqlite3
import struct
import sys
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

WARM_SECONDS = 2.0
BOUNDARY = "cxrtextbenchmark"
SENTENCES = (
    "Left pleural effusion",
    "The heart is enlarged",
    "Right upper lobe opacity",
    "No pneumothorax is seen",
    "The lungs are clear",
)
QUESTIONS = ("classify-large", "classify-small", "classify-id", "ground-id", "search", "search-id")

Body = list[bytes]
"""A request in parts, that a picture of some megabytes need not be copied."""


def marked(picture: bytes, number: int) -> Body:
    """A PNG with a note of its own before its end: the same pixels in another file."""
    note = b"tEXt" + b"Comment\0" + str(number).encode()
    chunk = struct.pack(">I", len(note) - 4) + note + struct.pack(">I", zlib.crc32(note))
    return [picture[:-12], chunk, picture[-12:]]


def sentence(number: int) -> str:
    """A sentence that was not asked before."""
    return f"{SENTENCES[number % len(SENTENCES)]} {number}."


def image_ids(index: Path) -> list[str]:
    """Names of the indexed images, in a random order that is always the same."""
    with sqlite3.connect(f"file:{index / 'catalogue.sqlite'}?mode=ro", uri=True) as database:
        names = [row[0] for row in database.execute("SELECT image FROM images ORDER BY number")]
    random.Random(0).shuffle(names)  # noqa: S311
    return names


def form(path: str, fields: dict[str, str], file: Body | None = None) -> Body:
    """A multipart request."""
    parts: Body = []
    for name, value in fields.items():
        head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'
        parts.append(f"{head}{value}\r\n".encode())
    if file is not None:
        disposition = 'form-data; name="image"; filename="image"'
        kind = "Content-Type: application/octet-stream"
        parts.append(
            f"--{BOUNDARY}\r\nContent-Disposition: {disposition}\r\n{kind}\r\n\r\n".encode()
        )
        parts += [*file, b"\r\n"]
    parts.append(f"--{BOUNDARY}--\r\n".encode())
    length = sum(len(part) for part in parts)
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n"
        f"Content-Type: multipart/form-data; boundary={BOUNDARY}\r\n\r\n"
    )
    return [head.encode(), *parts]


def requests_of(question: str, pictures: Path, index: Path, start: int) -> Iterator[Body]:
    """Requests without end, no two alike."""
    files = {name: (pictures / f"{name}.png").read_bytes() for name in ("small", "large")}
    ids = image_ids(index)
    number = start
    while True:
        number += 1
        name = ids[number % len(ids)]
        match question:
            case "classify-small" | "classify-large":
                picture = files[question.rpartition("-")[2]]
                yield form("/v1/classify", {}, marked(picture, number))
            case "classify-id":
                yield form("/v1/classify", {"image_id": name})
            case "ground-id":
                yield form("/v1/ground", {"image_id": name, "sentence": sentence(number)})
            case "search":
                yield form("/v1/search", {"query": sentence(number), "k": "10"})
            case "search-id":
                yield form("/v1/search", {"image_id": name, "k": "10"})
            case _:
                raise ValueError(question)


async def ask(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: Body
) -> tuple[int, int]:
    """Send a request and read its answer; gives the status and the size of the body."""
    writer.writelines(body)
    await writer.drain()
    head = await reader.readuntil(b"\r\n\r\n")
    status = int(head[9:12])
    at = head.lower().index(b"content-length:") + 15
    length = int(head[at : head.index(b"\r", at)])
    return status, len(await reader.readexactly(length))


async def caller(
    address: tuple[str, int], bodies: Iterator[Body], window: list[float], seen: dict[str, Any]
) -> None:
    """One client: a question after the other on one connection."""
    reader, writer = await asyncio.open_connection(*address, limit=2**20)
    try:
        while (begun := time.perf_counter()) < window[1]:
            status, _ = await ask(reader, writer, next(bodies))
            ended = time.perf_counter()
            if window[0] <= ended <= window[1]:  # however long ago it was asked
                seen["statuses"][status] += 1
                seen["latencies"].append(ended - begun)
    finally:
        writer.close()


async def load(
    address: tuple[str, int], question: str, clients: int, seconds: float, place: tuple[Path, Path]
) -> dict[str, Any]:
    """Ask for some seconds, after some more that are not counted."""
    seen: dict[str, Any] = {"statuses": Counter(), "latencies": []}
    bodies = requests_of(question, *place, start=time.time_ns() // 1_000_000 % 10**9)
    now = time.perf_counter()
    window = [now + WARM_SECONDS, now + WARM_SECONDS + seconds]
    before = resource.getrusage(resource.RUSAGE_SELF)
    await asyncio.gather(*(caller(address, bodies, window, seen) for _ in range(clients)))
    after = resource.getrusage(resource.RUSAGE_SELF)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {**seen, "seconds": seconds, "cpu": used / (seconds + WARM_SECONDS)}


def main() -> None:
    host, _, port = sys.argv[1].partition(":")
    found = asyncio.run(
        load(
            (host, int(port)),
            sys.argv[2],
            int(sys.argv[3]),
            float(sys.argv[4]),
            (Path(sys.argv[5]), Path(sys.argv[6])),
        )
    )
    print(json.dumps(found))


if __name__ == "__main__":
    main()
