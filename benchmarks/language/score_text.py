"""Scoring sentences: ours against minicons and against the plain loop; the same weights and text.

    python benchmarks/language/score_text.py [--minicons-python PYTHON] [--threads 1 2]
    python benchmarks/language/score_text.py --reports REPORTS --model DIR
        [--minicons-python PYTHON]

The first draws sentences of 17 word pieces for a model of BERT-base's size with random weights; the
second scores a real table of reports end to end, where sentences repeat.  Every row is measured in
a process of its own with the threads named.  minicons needs transformers 4, so it lives in an
environment of its own (`pip install torch==2.13.0 'transformers<5' minicons`), whose Python is
named; without it its rows are left out.

The floor is what the machine could do at best: the products that cannot be avoided, at the rate
that oneDNN reaches here in that precision on the same shapes.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

WORDS = (  # noqa: SIM905
    "the lungs are clear no pleural effusion or pneumothorax heart size is normal mild moderate "
    "severe left right lower upper lobe opacity consolidation edema stable unchanged small large"
).split()
PIECES = 17
LAYERS, WIDTH, VOCABULARY = 12, 768, 30_522
COUNTS = {"plain": 4, "minicons": 16, "float32": 48, "bfloat16": 144}

PEER = """
import json, sys, time, warnings
warnings.filterwarnings("ignore")
import torch
from minicons import scorer
folder, file, threads, batch = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
torch.set_num_threads(threads)
sentences = json.load(open(file))
model = scorer.MaskedLMScorer(folder, "cpu")
with torch.inference_mode():
    model.token_score(sentences[:1])
    begun = time.perf_counter()
    found = []
    for start in range(0, len(sentences), batch):
        found += model.token_score(sentences[start : start + batch])
    seconds = time.perf_counter() - begun
values = [[v for t, v in row if t not in ("[CLS]", "[SEP]", "[PAD]")] for row in found]
print(json.dumps({"seconds": seconds, "values": values}))
"""


def draw_model(folder: Path, sentences: list[str]) -> None:
    """Write a model of BERT-base's size with random weights."""
    import torch

    from cxrtext.models.bert import BertConfig, MaskedBert
    from cxrtext.models.masked_lm import save_masked_language_model
    from cxrtext.text.tokenizer import TextTokenizer, train_tokenizer, vocabulary_of

    known = vocabulary_of(train_tokenizer(sentences, 400))
    known += [f"[unused{number}]" for number in range(VOCABULARY - len(known))]
    torch.manual_seed(0)
    model = MaskedBert(BertConfig(vocab_size=VOCABULARY)).eval()
    tokenizer = TextTokenizer({piece: number for number, piece in enumerate(known)})
    save_masked_language_model(model, tokenizer, folder)


def measure_ours(folder: str, file: str, precision: str) -> dict[str, object]:
    """Score with ours, best of two."""
    from cxrtext.language.scoring.score import (
        Scorer,
        encode_pieces,
        groups_of,
        open_model,
    )
    from cxrtext.memory import keep_memory

    keep_memory()
    language = open_model(folder, "cpu")
    scorer = Scorer(language, precision)
    sentences = json.loads(Path(file).read_text())
    pieces = encode_pieces(language.tokenizer, sentences)
    lengths = [len(p) for p in pieces]
    order = sorted(range(len(pieces)), key=lengths.__getitem__)
    groups = list(groups_of(order, lengths.__getitem__, language.window, scorer.batch_tokens))
    seconds, values = [], {}
    for _ in range(2):
        begun = time.perf_counter()
        for group in groups:
            found = scorer.score([pieces[index] for index in group])
            values.update(zip(group, found, strict=True))
        seconds.append(time.perf_counter() - begun)
    return {
        "seconds": min(seconds),
        "values": [values[index].tolist() for index in range(len(sentences))],
    }


def measure_plain(folder: str, file: str) -> dict[str, object]:
    """One forward pass a word piece, the vocabulary projection on every position."""
    import torch

    from cxrtext.models.masked_lm import load_masked_language_model

    language = load_masked_language_model(folder)
    values = []
    begun = time.perf_counter()
    for sentence in json.loads(Path(file).read_text()):
        ids = torch.tensor([language.tokenizer(sentence)["input_ids"]])
        row = []
        for place in range(1, ids.shape[1] - 1):
            masked = ids.clone()
            masked[0, place] = language.tokenizer.mask_token_id
            with torch.inference_mode():
                logits = language.model(masked)[0, place]
            row.append(float(torch.log_softmax(logits, -1)[ids[0, place]]))
        values.append(row)
    return {"seconds": time.perf_counter() - begun, "values": values}


def measure_floor(precision: str) -> dict[str, object]:
    """Seconds a sentence that its unavoidable products take at the machine's own rate."""
    import torch

    from cxrtext.language.scoring.linear import make_linear
    from cxrtext.memory import keep_memory

    keep_memory()
    tokens, spent = 4096, 0.0
    shapes = [(3 * WIDTH, WIDTH), (WIDTH, WIDTH), (4 * WIDTH, WIDTH), (WIDTH, 4 * WIDTH)]
    for n, k in shapes:
        x, weight, bias = torch.randn(tokens, k), torch.randn(n, k), torch.randn(n)
        dtype = getattr(torch, precision)
        linear, x = make_linear(weight, bias, dtype), x.to(dtype)

        best = np.inf
        for _ in range(12):
            begun = time.perf_counter()
            linear(x)
            best = min(best, time.perf_counter() - begun)
        spent += best
    rate = 24 * WIDTH**2 * tokens / spent
    inside = (LAYERS - 2) * 24 + 18 + 4  # first layer without queries, keys, values; last: keys
    work = PIECES * (PIECES + 2) * inside * WIDTH**2 + PIECES * 20 * WIDTH**2
    return {"seconds": work / rate, "rate": rate}


def child(arguments: list[str], threads: int, python: str = sys.executable) -> dict[str, object]:
    """Run one measurement in a process of its own."""
    done = subprocess.run(
        [python, "-W", "ignore", *arguments],
        env={**os.environ, "OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(done.stderr[-2000:])
    result: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return result


def differences(found: dict[str, object], exact: dict[str, object]) -> str:
    """Largest and mean difference a word piece, in nats."""
    pairs = zip(found["values"], exact["values"], strict=False)
    gaps = np.concatenate([np.abs(np.subtract(a, b)) for a, b in pairs])
    return f"{gaps.max():.1e}  {gaps.mean():.1e}"


def compare(peer: str | None, threads: int) -> None:
    """Print the table of drawn sentences."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        generator = np.random.default_rng(0)
        sentences = [
            " ".join(generator.choice(WORDS, size=PIECES)) for _ in range(max(COUNTS.values()))
        ]
        draw_model(folder, sentences)

        def file(way: str) -> str:
            path = folder / f"{way}.json"
            path.write_text(json.dumps(sentences[: COUNTS[way]]))
            return str(path)

        this = str(Path(__file__).resolve())
        rows = {"plain": child([this, "--child", "plain", name, file("plain")], threads)}
        if peer is not None:
            runs = [
                child(["-c", PEER, name, file("minicons"), str(threads), batch], threads, peer)
                for batch in ("1", "4", "16")
            ]
            rows["minicons"] = min(runs, key=lambda run: run["seconds"])
        floors = {}
        for way in ("float32", "bfloat16"):
            rows[way] = child([this, "--child", way, name, file(way)], threads)
            floors[way] = child([this, "--child", f"floor-{way}", name, ""], threads)
    speeds = {way: COUNTS[way] / row["seconds"] for way, row in rows.items()}
    print(f"\n{threads} thread(s), sentences of {PIECES} word pieces, {LAYERS} x {WIDTH}")
    print("way        sentences/s  x plain  x minicons  of floor  largest  mean difference")
    for way, row in rows.items():
        against = f"{speeds[way] / speeds['minicons']:10.2f}" if "minicons" in rows else " " * 10
        share = f"{speeds[way] * floors[way]['seconds']:8.0%}" if way in floors else " " * 8
        print(
            f"{way:10s} {speeds[way]:11.2f}  {speeds[way] / speeds['plain']:7.2f}  {against}  "
            f"{share}  {differences(row, rows['plain'])}"
        )
    for way, floor in floors.items():
        rate, speed = floor["rate"] / 1e9, 1 / floor["seconds"]
        print(f"floor {way}: {rate:.0f} GFLOP/s, {speed:.2f} sentences/s")


def end_to_end(peer: str | None, reports: Path, model: Path, threads: int) -> None:
    """Print the table of a corpus: ours from the table of reports to the table of sentences."""
    from cxrtext.records import read_sentences

    print(f"\n{threads} thread(s), {reports.name}, {model.name}")
    with tempfile.TemporaryDirectory() as name:
        for precision in ("float32", "bfloat16"):
            out = Path(name) / f"{precision}.csv"
            command = [str(Path(sys.executable).with_name("cxrtext")), "score-text"]
            command += [str(reports), "--model", str(model), "--out", str(out), "--no-cache"]
            begun = time.perf_counter()
            subprocess.run(
                [*command, "--precision", precision],
                env={**os.environ, "OMP_NUM_THREADS": str(threads)},
                capture_output=True,
                check=True,
            )
            seconds = time.perf_counter() - begun
            rows = read_sentences(out)
            print(
                f"{precision:10s} {seconds:8.1f} s  {len(rows) / seconds:8.0f} sentences/s "
                "(reading, starting and writing included)"
            )
        if peer is not None:
            file = Path(name) / "sentences.json"
            file.write_text(json.dumps([row.sentence for row in rows]))
            run = child(["-c", PEER, str(model), str(file), str(threads), "1"], threads, peer)
            print(
                f"minicons   {run['seconds']:8.1f} s  {len(rows) / run['seconds']:8.0f} "
                "sentences/s (scoring alone)"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minicons-python")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--reports", type=Path)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        way, folder, file = options.child
        if way == "plain":
            print(json.dumps(measure_plain(folder, file)))
        elif way.startswith("floor-"):
            print(json.dumps(measure_floor(way.removeprefix("floor-"))))
        else:
            print(json.dumps(measure_ours(folder, file, way)))
        return
    for threads in options.threads:
        if options.reports is None:
            compare(options.minicons_python, threads)
        else:
            end_to_end(options.minicons_python, options.reports, options.model, threads)


if __name__ == "__main__":
    main()
