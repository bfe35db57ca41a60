"""Searches beside the longest work that the server takes, and how soon it ends with that under way.

    python benchmarks/serving/long_work.py FOLDER [--layers 2] [--long 9] [--clients 4]
        [--seconds 20]

Makes in FOLDER, where it is not there yet, a language model and an image-text model of BERT's width
(768, 30,522 word pieces, ``--layers`` layers) with random weights, and an index of 300 drawn
radiographs: times are those of trained ones.  Starts the real server (``cxrtext serve``), asks for
``--long`` scorings at once, each of the longest sentence that is taken (or of ``--pieces`` word
pieces), over and over, and measures searches without and with them.  Then SIGTERM while they are
under way.  Prints a Markdown table, and what the longest requests of other routes take alone.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

from serve import HERE, draw_pictures, serving_process, summary

SYLLABLES = [a + b for a in "bcdfglmnprstv" for b in "aeiou"]
VOCABULARY = 30_522
END_SECONDS = 120.0


def make_models(folder: Path, layers: int) -> tuple[Path, Path, Path]:
    """A checkpoint, an index and a language model, made where they are missing."""
    import torch
    from transformers import BertConfig, BertForMaskedLM

    from cxrtext.index import build_index
    from cxrtext.models.checkpoint import save_checkpoint
    from cxrtext.models.image_text import ImageTextModel, ModelSpec
    from cxrtext.phantom import write_phantoms
    from cxrtext.text.tokenizer import make_tokenizer, save_tokenizer

    checkpoint, index, language = folder / "checkpoint", folder / "index", folder / "language"
    if (index / "index.json").exists():
        return checkpoint, index, language
    draw = random.Random(0)  # noqa: S311
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *".,-0123456789"]
    while len(pieces) < VOCABULARY:
        words = ("".join(draw.choices(SYLLABLES, k=4)) for _ in range(VOCABULARY))
        pieces = list(dict.fromkeys([*pieces, *words]))[:VOCABULARY]
    tokenizer = make_tokenizer({piece: number for number, piece in enumerate(pieces)})
    torch.manual_seed(0)
    text = {
        "vocab_size": len(tokenizer),
        "hidden_size": 768,
        "num_hidden_layers": layers,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
        "max_position_embeddings": 512,
    }
    BertForMaskedLM(BertConfig(**text)).save_pretrained(language)
    save_tokenizer(tokenizer, language)
    save_checkpoint(checkpoint, ImageTextModel(ModelSpec("resnet18", text), tokenizer), {})
    write_phantoms(folder / "data", studies=300, size=144, seed=0)
    build_index(folder / "data" / "manifest.csv", checkpoint, index)
    return checkpoint, index, language


def post(address: str, path: str, data: bytes, kind: str) -> tuple[int, float]:
    """Status and seconds of a request; 0 where the connection broke."""
    begun = time.perf_counter()
    request = urllib.request.Request(f"http://{address}{path}", data, {"Content-Type": kind})
    try:
        with urllib.request.urlopen(request, timeout=600) as answer:  # noqa: S310
            answer.read()
            status = answer.status
    except urllib.error.HTTPError as error:
        status = error.code
    except OSError:
        status = 0
    return status, time.perf_counter() - begun


def scoring(pieces: int, sentences: int, number: int) -> bytes:
    """A request to score sentences of so many word pieces, with no blank in them."""
    mark = f"{number:06d}"
    one = ("-".join(mark) + "-" + "0-" * pieces)[:pieces]
    return json.dumps({"sentences": [f"{one[:-2]}{i}-" for i in range(sentences)]}).encode()


def largest(language: Path) -> int:
    """Word pieces of the longest sentence that is scored."""
    from cxrtext.language.scoring.scorer import Scorer
    from cxrtext.models.masked_lm import load_masked_language_model
    from cxrtext.service.limits import MAX_MULTIPLICATIONS

    scorer = Scorer(load_masked_language_model(language))
    return max(n for n in range(1, 1999) if scorer.multiplications([n]) <= MAX_MULTIPLICATIONS)


class Long:
    """Callers that ask for long work over and over, until they are to stop."""

    def __init__(self, address: str, bodies: list[bytes]) -> None:
        self.answers: Counter[int] = Counter()
        self.stopped = False
        self._threads = [
            threading.Thread(target=self._ask, args=(address, body), daemon=True) for body in bodies
        ]
        for thread in self._threads:
            thread.start()

    def _ask(self, address: str, body: bytes) -> None:
        while not self.stopped:
            status, _ = post(address, "/v1/score-text", body, "application/json")
            self.answers[status] += 1
            if status != 200:
                time.sleep(0.5)


def searches(address: str, clients: int, seconds: float, index: Path) -> dict[str, float]:
    """Searches a second and their latencies."""
    with tempfile.TemporaryDirectory() as pictures:
        draw_pictures(Path(pictures))
        command = [
            *(sys.executable, str(HERE / "load.py"), address, "search"),
            *(str(clients), str(seconds), pictures, str(index)),
        ]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return summary(found)


def other_routes() -> list[tuple[str, bytes, str]]:
    """The longest requests of other routes: what, body, path."""
    form = urllib.parse.urlencode
    image = ("image_id", "images/s000001.png")
    long = ["0-" * 999 + str(i) for i in range(64)]
    report = " ".join(f"Effusion {'1-2-' * 14}{i}." for i in range(250))
    prompts = {"a": {"positive": long[:32], "negative": long[32:]}}
    where = " or ".join(f"age = {i}" for i in range(490))
    return [
        ("verify, 250 sentences of 65 word pieces",
         form([image, ("report", f"FINDINGS: {report}")]).encode(),
         "/v1/verify"),
        ("classify, 64 phrases of 2,000", form([image, ("prompts", json.dumps(prompts))]).encode(),
         "/v1/classify"),
        ("search, 32 sentences of 2,000",
         form([("query", s) for s in long[:16]] + [("not", s) for s in long[16:32]]).encode(),
         "/v1/search"),
        ("search, 490 comparisons, 1,000 pictures",
         form([("query", "Edema."), ("k", "1000"), ("offset", "10000"), ("unique", "picture"),
               ("where", where)]).encode(), "/v1/search"),
        ("ground, a sentence of 2,000", form([image, ("sentence", long[0])]).encode(),
         "/v1/ground"),
    ]  # fmt: skip


def main() -> None:
    """Run as the module's docstring says."""
    parser = argparse.ArgumentParser(description="See the top of the file.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--long", type=int, default=9)
    parser.add_argument("--pieces", type=int, help="word pieces of each sentence that is scored")
    parser.add_argument("--sentences", type=int, default=1)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--routes", action="store_true", help="the longest of other routes, too")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    checkpoint, index, language = make_models(given.folder, given.layers)
    extra = ["--language-model", str(language)]
    with serving_process(checkpoint, index, extra) as (process, address):
        pieces = given.pieces or largest(language)
        if given.pieces is None:
            whole = scoring(1998, 9, 0)
            status, seconds = post(address, "/v1/score-text", whole, "application/json")
            print(f"nine sentences of 1,998 word pieces: {status} after {seconds:.2f} s\n")
        if given.routes:
            print("| longest request | status | seconds |\n|---|---|---|")
            for name, body, path in other_routes():
                found = post(address, path, body, "application/x-www-form-urlencoded")
                print(f"| {name} | {found[0]} | {found[1]:.2f} |", flush=True)
            print()
        print("| beside | searches/s | p50 ms | p99 ms | not answered |\n|---|---|---|---|---|")
        alone = searches(address, given.clients, given.seconds, index)
        rows = [("nothing", alone)]
        bodies = [scoring(pieces, given.sentences, i) for i in range(given.long)]
        long = Long(address, bodies)
        time.sleep(1)
        name = f"{given.long} × {given.sentences} sentence(s) of {pieces} word pieces"
        rows.append((name, searches(address, given.clients, given.seconds, index)))
        for name, row in rows:
            print(
                f"| {name} | {row['rate']:.1f} | {row['p50']:.1f} | {row['p99']:.1f} "
                f"| {row['bad']:.0f} |"
            )
        print(f"\np99 {rows[1][1]['p99'] / alone['p99']:.1f} times as long")
        print(f"long work answered so far: {dict(long.answers)}")
        long.stopped = True
        begun = time.perf_counter()
        process.terminate()
        try:
            code = process.wait(END_SECONDS)
            print(f"ended with {code} {time.perf_counter() - begun:.1f} s after SIGTERM")
        except subprocess.TimeoutExpired:
            print(f"still there {END_SECONDS:.0f} s after SIGTERM")
            process.kill()


if __name__ == "__main__":
    main()
