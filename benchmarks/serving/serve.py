"""Requests a second and latencies of the server, against a bare loop and a plain handler.

    python benchmarks/serving/serve.py CHECKPOINT INDEX [--seconds 20] [--clients 1 8 32]

Starts the real server (``cxrtext serve``), a plain FastAPI handler without batching, and a bare
loop in one process over the same model; one at a time.  No two questions are alike, so that no
cache answers any: pictures are files of their own, sentences are new.  All of it, and the load
generator, shares the cores of one machine; the generator's share is printed.  The loop runs with
one thread and with one a core, and the better of the two counts.  Prints a Markdown table.

With ``--full-size FOLDER`` instead of a checkpoint's path: a model of full size (ResNet-18 at
480 pixels, BERT of 12 layers) with random weights is made there, and an index of 200 images of
``--data``: times are those of a trained one.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from load import QUESTIONS

HERE = Path(__file__).parent
ENVIRONMENT = {**os.environ, "OMP_WAIT_POLICY": "PASSIVE"}
"""The handler and the loop get what does the server good."""


def draw_pictures(folder: Path) -> None:
    """A small and a large radiograph: smooth structures with noise."""
    from PIL import Image

    noise = np.random.default_rng(0)
    for name, (width, height) in {"small": (512, 512), "large": (2500, 2000)}.items():
        y, x = np.mgrid[0:height, 0:width] / [[[height]], [[width]]]
        lungs = np.exp(-(((np.abs(x - 0.5) - 0.2) / 0.1) ** 2) - ((y - 0.5) / 0.3) ** 2)
        gray = 190 - 130 * lungs + noise.normal(0, 2, lungs.shape)
        Image.fromarray(gray.clip(0, 255).astype(np.uint8)).save(folder / f"{name}.png")


@contextmanager
def serving_process(
    model: Path | None, index: Path, extra: list[str]
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The real server, and its address; without a model that of the index."""
    command = [
        *(sys.executable, "-c", "from cxrtext_cli.main import main; main()", "serve"),
        *(str(one) for one in (model, index) if one is not None),
        *("--port", "0"),
        *extra,
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if "serving at" in line:
                    break
            else:
                raise SystemExit("the server did not start")
            yield process, line.rpartition("//")[2].strip()
        finally:
            process.terminate()


@contextmanager
def serving(model: Path, index: Path, extra: list[str]) -> Iterator[str]:
    with serving_process(model, index, extra) as (_, address):
        yield address


@contextmanager
def handling(model: Path, index: Path, threads: int) -> Iterator[str]:
    """The plain handler; gives its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    arguments = [str(port), str(threads), str(model), str(index)]
    command = [sys.executable, str(HERE / "peer.py"), "handler", *arguments]
    with subprocess.Popen(command, env=ENVIRONMENT) as process:
        try:
            for _ in range(600):
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/docs", timeout=5)
                    break
                except OSError:
                    time.sleep(0.1)
            yield f"127.0.0.1:{port}"
        finally:
            process.terminate()


def run(arguments: list[str]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(HERE / arguments[0]), *arguments[1:]],
        stdout=subprocess.PIPE,
        env=ENVIRONMENT,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def summary(found: dict[str, Any]) -> dict[str, float]:
    """Questions a second, p50 and p99 in milliseconds, refusals, and the generator's share."""
    latencies = np.array(found["latencies"]) * 1000
    good = sum(count for status, count in found["statuses"].items() if int(status) == 200)
    return {
        "rate": good / found["seconds"],
        "p50": float(np.percentile(latencies, 50)) if len(latencies) else float("nan"),
        "p99": float(np.percentile(latencies, 99)) if len(latencies) else float("nan"),
        "bad": sum(found["statuses"].values()) - good,
        "cpu": found.get("cpu", 0.0),
    }


def full_size(folder: Path, data: Path) -> tuple[Path, Path]:
    """Make a model of full size, and an index."""
    import torch

    from cxrtext.index import build_index
    from cxrtext.models.checkpoint import load_model, save_checkpoint
    from cxrtext.models.image_text import ImageTextModel, ModelSpec

    checkpoint, index = folder / "checkpoint", folder / "index"
    if not checkpoint.exists():
        torch.manual_seed(0)
        small = load_model(data.parent / "run" / "checkpoint")
        text = {**small.spec.text, "hidden_size": 768, "num_hidden_layers": 12}
        text |= {"num_attention_heads": 12, "intermediate_size": 3072}
        save_checkpoint(
            checkpoint, ImageTextModel(ModelSpec("resnet18", text), small.tokenizer), {}
        )
    if not index.exists():
        lines = (data / "manifest.csv").read_text().splitlines()[:201]
        manifest = folder / "manifest.csv"
        manifest.write_text("\n".join(lines) + "\n")
        if not (folder / "images").exists():
            (folder / "images").symlink_to((data / "images").resolve())
        build_index(manifest, checkpoint, index, allow_outside=True)
    return checkpoint, index


def print_rows(question: str, rows: list[tuple[int, str, dict[str, float]]], bare: float) -> None:
    """Print the lines of one question."""
    for clients, name, found in rows:
        bad = f" ({found['bad']:.0f} refused)" if found["bad"] else ""
        print(
            f"| {question} | {name} | {clients} | {found['rate']:.1f}{bad} | {found['p50']:.1f} "
            f"| {found['p99']:.1f} | {found['rate'] / bare:.0%} | {found['cpu']:.0%} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="See the top of the file.")
    parser.add_argument("model", type=Path, nargs="?")
    parser.add_argument("index", type=Path, nargs="?")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--questions", nargs="+", choices=QUESTIONS, default=QUESTIONS)
    parser.add_argument("--full-size", type=Path, help="folder for a random model and an index")
    parser.add_argument("--data", type=Path, help="data folder, for --full-size")
    parser.add_argument("--no-handler", action="store_true", help="leave the plain handler out")
    parser.add_argument("--readers", default="2", help="processes of the server that decode")
    given = parser.parse_args()
    model, index = given.model, given.index
    if given.full_size:
        given.full_size.mkdir(parents=True, exist_ok=True)
        model, index = full_size(given.full_size, given.data)
    cores = len(os.sched_getaffinity(0))
    print("| question | what | clients | answers/s | p50 ms | p99 ms | of the loop | generator |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as made:
        pictures = Path(made)
        draw_pictures(pictures)
        seconds, places = str(given.seconds), [str(pictures), str(index)]
        for question in given.questions:
            loops = {
                threads: summary(
                    run(
                        [
                            *("peer.py", "loop", question, seconds, str(threads)),
                            *(str(model), str(index), str(pictures)),
                        ]
                    )
                )
                for threads in {1, cores}
            }
            best = max(loops, key=lambda threads: loops[threads]["rate"])
            bare = loops[best]["rate"]
            print_rows(question, [(1, f"loop, {best} thread(s)", loops[best])], bare)
            servers = {"cxrtext": serving(model, index, ["--readers", given.readers])}
            if not given.no_handler:
                servers["plain handler"] = handling(model, index, best)
            for name, server in servers.items():
                with server as address:
                    rows = [
                        (
                            clients,
                            name,
                            summary(
                                run(
                                    [
                                        *("load.py", address, question),
                                        *(str(clients), seconds, *places),
                                    ]
                                )
                            ),
                        )
                        for clients in given.clients
                    ]
                print_rows(question, rows, bare)


if __name__ == "__main__":
    main()
