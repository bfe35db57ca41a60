"""Kills a process that changes an index, at random moments, while another searches it.

    python tests/index/kill_index_writer.py CHECKPOINT FOLDER --rounds 50

After each kill the index must hold exactly what was acknowledged, or that and the one change that
was under way, whole.  Ends with 0 and a line that counts what was under way.
"""

import argparse
import json
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from cxrtext.evaluation import CHEX5_PROMPTS
from cxrtext.index import Archive, Query, delete, open_index, rewrite
from cxrtext.index.build import start_index
from cxrtext.index.changes import NewImage, add_images
from cxrtext.index.features.scoring import packed_rows
from cxrtext.index.store.catalogue import Catalogue
from cxrtext.index.store.check import check_index
from cxrtext.index.store.snapshot import take_snapshot
from cxrtext.index.store.writer import writing
from cxrtext.index.structure import refresh_structure
from cxrtext.models import ImageTextModel, load_model
from cxrtext.models.regions import pack

Held = dict[str, int]
"""Version of each image, by name."""

Change = dict[str, Any]
"""Its kind, and the images or the studies that it is of."""

OFTEN = {"add": 8, "replace": 3, "delete": 4, "compact": 2, "rebuild": 2}
"""How often each change is made."""


def regions_of(model: ImageTextModel, N: int, name: str, version: int) -> Tensor:
    seed = int(name[1:]) * 1000 + version
    noise = torch.randn(1, N, model.spec.dimension, generator=torch.Generator().manual_seed(seed))
    return F.normalize(noise, dim=-1)


def study_of(name: str) -> str:
    return f"s{int(name[1:]) // 3}"


def put(folder: Path, model: ImageTextModel, images: Held) -> None:
    with writing(folder, create=True) as catalogue:
        start_index(catalogue, model, folder, [], CHEX5_PROMPTS, "float16")
        state = take_snapshot(folder, catalogue)
        N = int(state.meta["regions"])
        regions = torch.cat([regions_of(model, N, *image) for image in images.items()])
        rows, _ = packed_rows(model, regions, state.language, "float16")
        new = [
            NewImage(name, "/x", study_of(name), "p", "train", 8, 8, {"version": str(v)}, {})
            for name, v in images.items()
        ]
        add_images(folder, catalogue, new, rows)
        refresh_structure(folder, catalogue, force=len(images) > 15)


def changed(held: Held, change: Change) -> Held:
    after = dict(held)
    if change["kind"] in ("add", "replace"):
        after.update(change["images"])
    if change["kind"] == "delete":
        after = {name: v for name, v in after.items() if study_of(name) not in change["studies"]}
    return after


FEWEST, ALWAYS = 30, 10
"""Images below which some are added; and how many are always there, whatever was deleted."""


def choose(held: Held, chance: random.Random, last: int) -> Change:
    kind = chance.choices(list(OFTEN), list(OFTEN.values()))[0]
    if kind == "add" or len(held) < FEWEST:
        names = [f"i{last + i + 1}" for i in range(chance.randint(1, 20))]
        return {"kind": "add", "images": dict.fromkeys(names, 0)}
    some = chance.sample(sorted(held), chance.randint(1, 5))
    if kind == "replace":
        return {"kind": kind, "images": {name: held[name] + 1 for name in some}}
    if kind == "delete":
        return {"kind": kind, "studies": sorted({study_of(name) for name in some})}
    return {"kind": kind}


def change_for_ever(folder: Path, model: ImageTextModel, held: Held, pipe: int, seed: int) -> None:
    """Make changes one after another; tell of each when it begins and when it is done."""
    chance = random.Random(seed)  # noqa: S311
    last = 1_000 * seed
    while True:
        change = choose(held, chance, last)
        os.write(pipe, (json.dumps(change) + "\n").encode())
        if change["kind"] in ("add", "replace"):
            put(folder, model, change["images"])
        elif change["kind"] == "delete":
            delete(folder, change["studies"])
        else:
            rewrite(folder, model, rebuild=change["kind"] == "rebuild")
        os.write(pipe, b"done\n")
        held = changed(held, change)
        last += 20


def search_until(index: Archive, stop: threading.Event, failed: list[str]) -> int:
    """Search without a pause; what goes wrong is noted."""
    count = 0
    query = Query(texts=torch.ones(1, index.model.spec.dimension) / 4)
    while not stop.is_set():
        try:
            index = index.renewed() or index
            scores = [hit.score for hit in index.search(query, ALWAYS).hits]
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told
            failed.append(repr(error))
            return count
        if len(scores) < ALWAYS or scores != sorted(scores, reverse=True):
            failed.append(f"{len(scores)} hits")
        count += 1
    return count


def one_round(
    folder: Path, model: ImageTextModel, held: Held, seed: int, under_way: Counter[str]
) -> Held:
    """Fork a writer, search, kill the writer, look at what it left."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            change_for_ever(folder, model, held, writer, seed)
        except BaseException as error:  # noqa: BLE001 - the parent is to know
            os.write(writer, f"failed {error!r}\n".encode())
        os._exit(1)
    os.close(writer)
    stop, failed = threading.Event(), list[str]()
    with open_index(folder, model) as index:
        thread = threading.Thread(target=search_until, args=(index, stop, failed))
        thread.start()
        time.sleep(random.Random(seed).uniform(0.02, 1.2))  # noqa: S311
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        stop.set()
        thread.join()
    with os.fdopen(reader) as pipe:
        lines = [line for line in pipe.read().split("\n") if line]
    assert not failed, failed
    assert not any(line.startswith("failed") for line in lines), lines[-1]
    begun = [json.loads(line) for line in lines if line != "done"]
    done = lines.count("done")
    for change in begun[:done]:
        held = changed(held, change)
    possible = [held]
    if len(begun) > done:
        under_way[str(begun[-1]["kind"])] += 1
        possible.append(changed(held, begun[-1]))
    return look_at(folder, model, possible)


def look_at(folder: Path, model: ImageTextModel, possible: list[Held]) -> Held:
    """Check an index whole; gives which of the possible states it is in."""
    with Catalogue(folder / "catalogue.sqlite") as catalogue:
        assert check_index(folder, catalogue) == []
        rows = catalogue.database.execute("SELECT image, metadata, number FROM images").fetchall()
    found = {name: int(json.loads(metadata)["version"]) for name, metadata, _ in rows}
    assert found in possible, (len(found), [len(held) for held in possible])
    with open_index(folder, model) as index:
        state = index.snapshot
        for name, _, number in rows[:: max(1, len(rows) // 10)]:
            fresh = regions_of(model, int(state.meta["regions"]), name, found[name])
            kept = state.arrays["regions"][state.places_of(np.array([number]))]
            assert (kept == pack(fresh, "float16")).all(), name
        query = Query(texts=torch.ones(1, model.spec.dimension) / 4)
        hits = index.search(query, 10**6, mode="exact").hits
        assert {hit.image.image for hit in hits} == set(found)
    return found


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=50)
    options = parser.parse_args(given)
    torch.set_num_threads(1)
    model = load_model(options.checkpoint)
    held: Held = {f"i{i}": 0 for i in range(60)}
    put(options.folder, model, held)
    under_way: Counter[str] = Counter()
    for seed in range(1, options.rounds + 1):
        held = one_round(options.folder, model, held, seed, under_way)
    print(f"{options.rounds} kills, {len(held)} images; under way:", dict(under_way))  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
