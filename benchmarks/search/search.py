"""Search against brute force and against plain FAISS, as the archive grows.

    python benchmarks/search/search.py CHECKPOINT DATA --images 10000 100000 1000000 --regions 225

Made-up images are a trained model's regions of the data folder's images, resampled with noise.
For each size: the time to build, bytes an image, p50 and p99 of a query (fast, exact, and exact
under a filter that leaves one image in a hundred), recall@10 against the exact search, the share of
images that this scores, whether exact and filtered answers are those of a scan; beside it a scan by
torch over the same mapped regions, and FAISS over one mean vector an image.  Prints a table.  At
1,000,000 images of 225 regions it takes about 40 GB of disk and an hour to build; ``--reuse``
measures an index kept before.
"""

import argparse
import json
import random
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from cxrtext.evaluation import CHEX5_PROMPTS
from cxrtext.evaluation.data import read_data_folder
from cxrtext.index import Archive, Query, open_index
from cxrtext.index.build import start_index
from cxrtext.index.changes import NewImage, NewReports, add_images, add_reports
from cxrtext.index.features.scoring import images_a_piece, packed_rows
from cxrtext.index.search.ranking import AHEAD
from cxrtext.index.search.selection import view_of
from cxrtext.index.store.catalogue import set_meta
from cxrtext.index.store.snapshot import take_snapshot
from cxrtext.index.store.vectors import fetch, rows_of
from cxrtext.index.store.writer import writing
from cxrtext.index.structure import refresh_structure
from cxrtext.models import ImageTextModel, load_model
from cxrtext.models.regions import embed_files, unpack
from cxrtext.pausing import finish

BATCH = 128
K = 10


def resampled(pool: Tensor, count: int, N: int, noise: float) -> Iterator[Tensor]:
    """Batches of regions [b, N, D]: of one image of the pool each, moved by noise.

    The noise of an image is a piece of a stock of noise, which is drawn anew now and then: drawing
    it for each image would take as long as everything else.
    """
    generator = torch.Generator().manual_seed(0)
    D = pool.shape[-1]
    for start in range(0, count, BATCH):
        size = min(BATCH, count - start)
        if start % (256 * BATCH) == 0:
            stock = torch.randn((BATCH + 1) * N * D, generator=generator) * noise / D**0.5
        image = torch.randint(len(pool), (size, 1), generator=generator)
        if pool.shape[1] == N:
            region = torch.arange(N).expand(size, N)
        else:
            region = torch.randint(pool.shape[1], (size, N), generator=generator)
        shift = int(torch.randint(N * D, (1,), generator=generator))
        moved = stock[shift : shift + size * N * D].view(size, N, D)
        yield F.normalize(pool[image, region].float() + moved, dim=-1)


def build(
    folder: Path, model: ImageTextModel, regions: Iterator[Tensor], texts: Tensor, options: Any
) -> float:
    """Make the index of made-up images; gives the seconds that it took."""
    begun = time.perf_counter()
    sentences = [f"sentence {i}" for i in range(len(texts))]
    with writing(folder, create=True) as catalogue:
        start_index(
            catalogue, model, options.checkpoint, list(texts), CHEX5_PROMPTS, options.storage
        )
        with catalogue.transaction(write=True) as database:
            set_meta(database, {"regions": options.regions})  # where they are not the model's
        language = take_snapshot(folder, catalogue).language
        number = 0
        for part in regions:
            rows, _ = packed_rows(model, part, language, options.storage)
            images = [made_up(number + i) for i in range(len(part))]
            add_images(folder, catalogue, images, rows)
            number += len(part)
        said = [(f"s{i}", "findings", 0, text) for i, text in enumerate(sentences)]
        add_reports(folder, catalogue, NewReports(sentences, texts.numpy(), said))
        refresh_structure(folder, catalogue)
    return time.perf_counter() - begun


def made_up(i: int) -> NewImage:
    """The row of a made-up image: columns as an archive of several hospitals has them."""
    chance = random.Random(i)  # noqa: S311 - no secret
    metadata = {
        "share": str(i % 100),
        "rare": str(i % 10_000),
        "site": f"hospital {min(int(chance.expovariate(0.4)), 19)}",
        "year": str(2005 + chance.randrange(20)),
        "age": str(chance.randrange(18, 95)) if chance.random() < 0.97 else "",
        "sex": chance.choice("FM"),
        "view": chance.choices(["PA", "AP", "LL"], [6, 3, 1])[0],
        "accession": f"A{chance.randrange(10**9):09d}",
    }
    labels = {f"label.{finding}": chance.betavariate(0.5, 3) for finding in CHEX5_PROMPTS}
    return NewImage(f"{i}.png", "/made-up", f"s{i}", f"p{i // 3}", "train", 1, 1, metadata, labels)


def timed(ask: Callable[[Tensor], Any], queries: Tensor) -> tuple[list[Any], float, float]:
    """Answers, p50 and p99 in milliseconds; the first is asked once more and not counted."""
    ask(queries[0])
    answers, took = [], []
    for text in queries:
        begun = time.perf_counter()
        answers.append(ask(text))
        took.append(1000 * (time.perf_counter() - begun))
    return answers, float(np.percentile(took, 50)), float(np.percentile(took, 99))


@torch.inference_mode()
def scan(index: Archive, text: Tensor, step: int = 1, first: int = 0) -> set[int]:
    """The best places by the model's score of every image, or of each ``step``-th one."""
    rows = index.snapshot.arrays["regions"]
    places = np.arange(first, len(rows), step)
    piece = images_a_piece(rows.shape[1], len(text))  # faster than larger ones
    parts = []
    for start in range(0, len(places), piece):
        fetch(rows, places[start + AHEAD * piece : start + (AHEAD + 1) * piece])
        regions = unpack(rows_of(rows, places[start : start + piece]))
        parts.append(index.model.scores(regions, text[None])[0])
    scores = torch.cat(parts)
    best = scores.topk(min(K, len(scores))).indices
    return {first + step * place for place in best.tolist()}


def overlap(found: list[set[int]], best: list[set[int]]) -> float:
    """Mean share of the best that was found."""
    return float(np.mean([len(f & b) / len(b) for f, b in zip(found, best, strict=True)]))


def measure(index: Archive, texts: Tensor, exactly: int, brute: int) -> dict[str, float]:
    """Every figure of one archive."""
    import faiss

    def ask(**options: Any) -> Callable[[Tensor], Any]:
        return lambda text: index.search(Query(texts=text[None]), K, **options)

    def places(answers: list[Any]) -> list[set[int]]:
        # Nothing was deleted, so that numbers are places.
        return [{hit.image.number for hit in answer.hits} for answer in answers]

    where = "share = 7"
    fast, fast_50, fast_99 = timed(ask(mode="fast"), texts)
    few, few_50, few_99 = timed(ask(mode="exact", where=where), texts)
    few_fast, few_fast_50, _ = timed(ask(mode="fast", where=where), texts)
    _, alone_50, _ = timed(lambda _: finish(view_of(index, where, ())), texts[:20])
    exact, exact_50, exact_99 = timed(ask(mode="exact"), texts[:exactly])
    scanned, scan_50, _ = timed(lambda text: scan(index, text), texts[:brute])
    few_scanned = [scan(index, text, 100, 7) for text in texts[:20]]
    means = faiss.IndexFlatIP(texts.shape[1])
    means.add(np.array(index.snapshot.arrays["means"]))
    plain, plain_50, plain_99 = timed(
        lambda text: set(means.search(text[None].numpy(), K)[1][0].tolist()), texts
    )
    best = places(exact)
    return {
        "fast p50 ms": fast_50,
        "fast p99 ms": fast_99,
        "fast recall@10": overlap(places(fast)[:exactly], best),
        "exact p50 ms": exact_50,
        "exact p99 ms": exact_99,
        "exact: scored %": 100 * float(np.mean([a.scored / a.searched for a in exact])),
        "exact = scan": overlap(best[:brute], scanned),
        "1 % filter alone p50 ms": alone_50,
        "1 % filter p50 ms": few_50,
        "1 % filter p99 ms": few_99,
        "1 % filter = scan": overlap(places(few)[:20], few_scanned),
        "1 % filter, fast p50 ms": few_fast_50,
        "1 % filter, fast recall@10": overlap(places(few_fast), places(few)),
        "torch scan p50 ms": scan_50,
        "mean vector p50 ms": plain_50,
        "mean vector p99 ms": plain_99,
        "mean vector recall@10": overlap(plain[:exactly], best),
    }


def print_table(results: dict[int, dict[str, float]]) -> None:
    """One row a figure, one column a size."""
    print("| | " + " | ".join(f"{size:,}" for size in results) + " |")
    print("|---" * (1 + len(results)) + "|")
    for name in next(iter(results.values())):
        cells = [f"{result[name]:,.3g}" if name in result else "" for result in results.values()]
        print(f"| {name} | " + " | ".join(cells) + " |")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--images", type=int, nargs="+", default=[10_000])
    parser.add_argument("--regions", type=int, default=0, help="regions an image; the model's own")
    parser.add_argument("--noise", type=float, default=0.3, help="length of the noise of a region")
    parser.add_argument("--pool", type=int, default=1000, help="images that are embedded")
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--exact", type=int, default=50, help="queries that are asked exactly")
    parser.add_argument("--brute", type=int, default=3, help="queries that are scanned for")
    parser.add_argument("--storage", choices=["float16", "int8"], default="int8")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--work", type=Path, default=Path("search-benchmark"))
    parser.add_argument("--keep", action="store_true", help="keep the index")
    parser.add_argument("--reuse", action="store_true", help="measure indexes kept before")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    import faiss

    faiss.omp_set_num_threads(options.threads)
    model = load_model(options.checkpoint)
    data = read_data_folder(options.data)
    chosen = np.random.default_rng(0).permutation(len(data.records))[: options.pool]
    paths = [data.records[i].path for i in np.sort(chosen)]
    pool = torch.cat([batch.regions.half().cpu() for batch in embed_files(model, paths)])
    options.regions = options.regions or pool.shape[1]
    said = list(dict.fromkeys(s.sentence for s in data.sentences or []))
    order = np.random.default_rng(1).permutation(len(said))[: 2000 + options.queries]
    vectors = model.embed_sentences([said[i] for i in order]).cpu()
    queries, known = vectors[: options.queries], vectors[options.queries :]
    results: dict[int, dict[str, float]] = {}
    options.work.mkdir(parents=True, exist_ok=True)
    for count in options.images:
        folder = options.work / f"index-{count}"
        kept = options.work / f"build-{count}.json"  # what --reuse cannot measure again
        if not options.reuse:
            shutil.rmtree(folder, ignore_errors=True)
            regions = resampled(pool, count, options.regions, options.noise)
            took = build(folder, model, regions, known, options)
            kept.write_text(json.dumps(took))
            print(f"{count:,} images built in {took:,.0f} s", flush=True)
        took = json.loads(kept.read_text()) if kept.exists() else float("nan")
        size = sum(path.stat().st_size for path in folder.iterdir())
        with open_index(folder, model) as index:
            results[count] = {
                "build s": took,
                "bytes an image": size / count,
                "sketch directions": int(index.snapshot.meta["sketch"]),
                **measure(index, queries, options.exact, options.brute),
            }
        print(json.dumps({"images": count, **results[count]}), flush=True)
        if not options.keep:
            shutil.rmtree(folder)
    print_table(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
