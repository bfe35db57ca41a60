"""Kills a process that adds, replaces and deletes images as the server does, at random moments.

    python tests/api/runtime/kill_image_writer.py CHECKPOINT INDEX UPLOADS 25

After each kill a server is begun anew.  Of every image the pixels, vectors, labels, entry and
report must then belong together, as before the change that was under way or as after it, and no
file may lie around.  Ends with 0 and a line that counts what was under way.
"""

import hashlib
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from cxrtext.index import open_index
from cxrtext.index.store.catalogue import Catalogue
from cxrtext.index.store.check import check_index
from cxrtext.models import ImageTextModel, load_model
from cxrtext.models.regions import pack
from cxrtext.service import Service
from cxrtext_api.entry import NewImageForm, add_image, delete_images, picture_of, rows_of
from cxrtext_api.gate.keys import ANYONE
from cxrtext_api.routes.write import sentences_of
from cxrtext_api.runtime.resources import open_uploads
from cxrtext_api.settings import Settings

Held = dict[str, int]
"""Version of each added image, by name."""

OFTEN = {"add": 3, "replace": 5, "delete": 2}
PICTURES = 12
"""So few that images share them now and then."""


def pixels_of(version: int) -> NDArray[np.uint8]:
    size = 64 + version % 3
    chance = np.random.default_rng(version % PICTURES)
    return chance.integers(0, 255, (size, 300)).astype(np.uint8)


def image_of(version: int) -> NDArray[np.float32]:
    return (pixels_of(version)[None] / 255).astype(np.float32)


def report_of(version: int) -> str:
    return f"FINDINGS: Version {version} was looked at. Left pleural effusion."


def study_of(name: str) -> str:
    return f"study.{name.replace('/', '.')}"


def put(service: Service, uploads: Path, name: str, version: int) -> None:
    """Add an image, or replace it, by the steps of the server's route."""
    embedded = service.embed(image_of(version))
    picture = picture_of(pixels_of(version))
    metadata = {"version": str(version)}
    report = report_of(version)
    form = NewImageForm(b"", name, study_of(name), "p", "train", metadata, report, replace=True)
    said = sentences_of(report)
    rows = rows_of(service, embedded, said)
    add_image(service, uploads, name, form, picture, rows, ANYONE)


def choose(held: Held, chance: random.Random, version: int) -> dict[str, object]:
    kind = chance.choices(list(OFTEN), list(OFTEN.values()))[0]
    if kind == "add" or len(held) < 4:
        # Names below each other's, which once could not be kept together.
        return {"kind": "add", "name": f"{'so/' * chance.randint(0, 2)}so{version}"}
    return {"kind": kind, "name": chance.choice(sorted(held))}


def changed(held: Held, change: dict[str, object]) -> Held:
    after = dict(held)
    if change["kind"] == "delete":
        del after[str(change["name"])]
    else:
        after[str(change["name"])] = int(change["version"])  # type: ignore[call-overload]
    return after


def change_for_ever(service: Service, uploads: Path, held: Held, pipe: int, seed: int) -> None:
    """Make changes one after another; tell of each when it begins and when it is done."""
    chance = random.Random(seed)  # noqa: S311
    version = 1000 * seed
    while True:
        version += 1
        change = {**choose(held, chance, version), "version": version}
        os.write(pipe, (json.dumps(change) + "\n").encode())
        name = str(change["name"])
        if change["kind"] == "delete":
            delete_images(service, [name], [], ANYONE)
        else:
            put(service, uploads, name, version)
        os.write(pipe, b"done\n")
        held = changed(held, change)


def one_round(
    model: ImageTextModel, settings: Settings, held: Held, seed: int, under_way: Counter[str]
) -> Held:
    """Fork a writer, kill it, begin anew, look at what it left."""
    index, uploads = settings.index, settings.uploads
    assert index is not None
    assert uploads is not None
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            with open_index(index, model) as opened:
                change_for_ever(Service(model, opened), uploads, held, writer, seed)
        except BaseException as error:  # noqa: BLE001 - the parent is to know
            os.write(writer, f"failed {error!r}\n".encode())
        os._exit(1)
    os.close(writer)
    time.sleep(random.Random(seed).uniform(0.1, 1.2))  # noqa: S311
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(reader) as pipe:
        lines = [line for line in pipe.read().split("\n") if line]
    assert not any(line.startswith("failed") for line in lines), lines[-1]
    begun = [json.loads(line) for line in lines if line != "done"]
    done = lines.count("done")
    for change in begun[:done]:
        held = changed(held, change)
    possible = [held]
    if len(begun) > done:
        under_way[str(begun[-1]["kind"])] += 1
        possible.append(changed(held, begun[-1]))
    open_uploads(settings)
    return look_at(model, index, uploads, possible)


def look_at(model: ImageTextModel, folder: Path, uploads: Path, possible: list[Held]) -> Held:
    """Check everything that is kept; gives which of the possible states it is."""
    with Catalogue(folder / "catalogue.sqlite") as catalogue:
        assert check_index(folder, catalogue) == []
        added = catalogue.database.execute(
            "SELECT image, number FROM images WHERE file IS NOT NULL"
        ).fetchall()
        assert not catalogue.database.execute("SELECT * FROM leftovers").fetchall()
        unsaid = "SELECT study_id FROM said WHERE study_id NOT IN (SELECT study_id FROM images)"
        assert not catalogue.database.execute(unsaid).fetchall()
    with open_index(folder, model) as index:
        service = Service(model, index)
        found: Held = {}
        files = set()
        for name, number in added:
            entry = service.find_image(name)
            version = found[name] = int(entry.metadata["version"])
            pixels = pixels_of(version)
            data = Path(entry.path).read_bytes()
            assert (np.asarray(Image.open(BytesIO(data))) == pixels).all(), "pixels"
            assert Path(entry.path).stem == hashlib.sha256(data).hexdigest()
            assert (entry.height, entry.width) == pixels.shape
            files.add(Path(entry.path).name)
            assert service.archive.report(entry.study_id) == [
                ("findings", f"Version {version} was looked at."),
                ("findings", "Left pleural effusion."),
            ]
            fresh = service.embed(image_of(version))
            state = index.snapshot
            kept = state.arrays["regions"][state.places_of(np.array([number]))]
            assert (kept == pack(fresh.regions[None].float(), "float16")).all(), "vectors"
            rows = rows_of(service, fresh, [])
            (hit,) = service.search(
                service.make_query(image=fresh), 1, where=f"image = '{name}'"
            ).hits
            kept_of = {f"label.{name}": value for name, value in hit.labels.items()}
            kept_of |= {"model.unlike": hit.unlike or 0.0}
            for name_of, value in rows.image.labels[0].items():
                assert abs(kept_of[name_of] - value) < 1e-6, name_of
        assert found in possible, (found, possible)
    assert {file.name for file in uploads.iterdir()} == files, "litter among the uploads"
    litter = [file.name for file in folder.iterdir() if file.name.startswith(".")]
    assert not litter, litter
    return found


def main(checkpoint: str, index_folder: str, uploads: str, rounds: str) -> None:
    torch.set_num_threads(1)
    model = load_model(Path(checkpoint))
    settings = Settings(index=Path(index_folder), uploads=Path(uploads))
    held: Held = {}
    with open_index(Path(index_folder), model) as index:
        service = Service(model, index)
        for version in range(8):
            put(service, Path(uploads), f"so{version}", version)
            held[f"so{version}"] = version
    under_way: Counter[str] = Counter()
    for seed in range(1, int(rounds) + 1):
        held = one_round(model, settings, held, seed, under_way)
    print(f"{rounds} kills, {len(held)} images; under way:", dict(under_way))  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
