"""A flipped bit in any file that a later step reads is refused, or changes nothing.

For each kind of file: what a later step reads from it is noted, then one bit after another is
flipped at a random place and it is read again.
"""

import hashlib
import json
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cxrtext.config import load_config
from cxrtext.datasets.importing import import_folder
from cxrtext.errors import CxrTextError, DataError
from cxrtext.evaluation import CHEX5_PROMPTS, evaluate
from cxrtext.evaluation.classification.calibration import (
    FindingCalibration,
    KeptCalibration,
)
from cxrtext.evaluation.measure import PARTS
from cxrtext.evaluation.predictions.file import read_predictions, write_predictions
from cxrtext.experiments.runs import claim, read_json, read_measures, stage, write_measures
from cxrtext.files import read_sealed
from cxrtext.files.signed_log import append_signed, key_of
from cxrtext.images import Preprocessing
from cxrtext.index import Query, open_index
from cxrtext.integrity import check_files
from cxrtext.jobs.plan import begin, read_plan
from cxrtext.language import ScoreSettings, pretrain_text, score_reports
from cxrtext.language.pretraining.settings import SHAPES
from cxrtext.metrics.intervals import Measured
from cxrtext.models import load_model
from cxrtext.models.image_encoder import ImageEncoder
from cxrtext.models.image_weights import load_image_weights
from cxrtext.models.masked_lm import fingerprint_of, load_masked_language_model
from cxrtext.models.reference import load_reference
from cxrtext.models.weight_files import save_sealed
from cxrtext.pacs.inbox.queue import Inbox
from cxrtext.phantom import write_phantoms
from cxrtext.records import open_source, read_labels, read_manifest, read_sentences
from cxrtext.records.boxes import iter_boxes
from cxrtext_api.gate.keys import add_key, read_key_file
from tests.conftest import write_data

pytestmark = pytest.mark.slow

FLIPS = int(os.environ.get("CXRTEXT_FLIPS", "200"))

Read = Callable[[], object]
"""Reads what a later step would, anew; gives something that can be compared."""
SMALL = replace(SHAPES["compact"], hidden=32, layers=1, heads=2)
Flip = Callable[..., None]
"""Flips bits of some files, each in turn; nothing else may come of it than a refusal."""


@contextmanager
def flipped(path: Path, chance: random.Random) -> Iterator[str]:
    """A file with one bit flipped, and its times as before."""
    content, status = path.read_bytes(), path.stat()
    place = chance.randrange(8 * len(content))
    changed = bytearray(content)
    changed[place // 8] ^= 1 << place % 8
    path.write_bytes(changed)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    try:
        yield f"{path.name}, byte {place // 8} of {len(content)}, bit {place % 8}"
    finally:
        path.write_bytes(content)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.fixture
def try_flips(chance: random.Random) -> Flip:
    def flip(kind: str, files: list[Path], read: Read, flips: int = FLIPS) -> None:
        files = [path for path in files if path.is_file() and path.stat().st_size]
        assert files, kind
        whole = read()
        assert whole == read(), "what is read must be comparable"
        counts = Counter[str]()
        other = []
        for number in range(flips):
            with flipped(files[number % len(files)], chance) as where:
                try:
                    result = "harmless" if read() == whole else "other"
                except CxrTextError as error:
                    lines = len(str(error).splitlines())
                    result = "refused" if lines <= 2 else f"refused in {lines} lines"
                except Exception as error:
                    raise AssertionError(f"{where}: {type(error).__name__}") from error
            counts[result] += 1
            if result not in ("refused", "harmless"):
                other.append(f"{where}: {result}")
        print(f"{kind:20} {flips} flips: {dict(counts)}")
        assert not other, other

    return flip


def copy_of(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "copy"))


@pytest.fixture
def copy(checkpoint: Path, tmp_path: Path) -> Path:
    return copy_of(checkpoint, tmp_path)


def files_of(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def digest(*parts: Any) -> str:
    """Of arrays, tensors and whatever can be written as text."""
    found = hashlib.sha256()
    for part in parts:
        if isinstance(part, torch.Tensor):
            part = part.detach().cpu().numpy()
        found.update(part.tobytes() if isinstance(part, np.ndarray) else repr(part).encode())
    return found.hexdigest()


def kept_as(path: Path, read: Read) -> Read:
    """Read, and let what lies at a path be as it was before."""
    before = {p: p.read_bytes() for p in ([path] if path.is_file() else files_of(path))}

    def again() -> object:
        try:
            return read()
        finally:
            for file in set(files_of(path)) - before.keys():
                file.unlink()
            for file, content in before.items():
                if not file.is_file() or file.read_bytes() != content:
                    file.write_bytes(content)

    return again


def test_checkpoint(copy: Path, try_flips: Flip) -> None:
    beside = ("reference.safetensors", "familiar.safetensors")
    files = [path for path in copy.iterdir() if path.name not in beside]

    def read() -> str:
        model = load_model(copy)
        notes = json.loads((copy / "training.json").read_text("utf-8"))
        vocabulary = sorted(model.tokenizer.get_vocab().items())
        return digest(model.spec, notes, vocabulary, *model.state_dict().values())

    try_flips("checkpoint", files, read)


def test_reference(copy: Path, try_flips: Flip) -> None:
    model = load_model(copy)

    def read() -> str:
        reference = load_reference(copy, model)
        assert reference is not None
        return digest(reference.rows, reference.source)

    try_flips("reference", [copy / "reference.safetensors"], read)


def test_calibration(checkpoint: Path, tmp_path: Path, try_flips: Flip) -> None:
    fingerprint = load_model(checkpoint).fingerprint
    finding = FindingCalibration(
        scale=3.5, shift=-0.25, positives=12, negatives=40,
        error_before=0.1, error_after=0.02, auc=(0.9, 0.8, 0.95),
    )  # fmt: skip
    kept = KeptCalibration(
        fingerprint=fingerprint, data="data", measured=("test", 60),
        prompts={"Edema": CHEX5_PROMPTS["Edema"]}, findings={"Edema": finding},
    )  # fmt: skip
    path = kept.save(tmp_path)
    try_flips("calibration", [path], lambda: KeptCalibration.load(tmp_path, fingerprint))


def test_language_model(data_folder: Path, tmp_path: Path, try_flips: Flip) -> None:
    out = tmp_path / "model"
    pretrain_text(data_folder / "reports.csv", out, epochs=1, size=SMALL, device="cpu")
    files = [path for path in out.iterdir() if not path.name.startswith("report.")]

    def read() -> str:
        language = load_masked_language_model(out)
        return fingerprint_of(language.model, language.tokenizer)

    try_flips("language model", files, read)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_scored_sentences(
    ending: str, data_folder: Path, language_model: Path, tmp_path: Path, try_flips: Flip
) -> None:
    out = tmp_path / f"sentences.{ending}"
    score_reports(data_folder / "reports.csv", out, model=language_model, device="cpu")
    files = [out, out.with_name(out.name + ".meta.json")]
    try_flips(f"sentences.{ending}", files, lambda: read_sentences(out))
    lines = out.read_bytes().splitlines(keepends=True)
    if ending == "csv":
        out.write_bytes(b"".join(lines[: len(lines) // 2]))
        with pytest.raises(CxrTextError, match="is not the table"):
            read_sentences(out)


def test_score_cache(
    data_folder: Path, language_model: Path, tmp_path: Path, try_flips: Flip
) -> None:
    """With a damaged cache the same scores come out: damaged ones are made again."""
    cache, out = tmp_path / "scores.sqlite", tmp_path / "sentences.csv"

    def read() -> str:
        settings = ScoreSettings(cache=cache)
        reports = data_folder / "reports.csv"
        score_reports(reports, out, settings, model=language_model, device="cpu")
        return digest(out.read_bytes())

    read()
    try_flips("score cache", [cache], read)


def test_configuration_of_a_run(run_folder: Path, tmp_path: Path, try_flips: Flip) -> None:
    copy = Path(shutil.copy(run_folder / "config.yaml", tmp_path))
    try_flips("config.yaml of a run", [copy], lambda: load_config(copy))


def test_state_of_a_stopped_pretraining(data_folder: Path, tmp_path: Path, try_flips: Flip) -> None:
    """A stopped run goes on to the same weights, or is refused, or begins anew: the same too."""

    def train(out: Path, progress: Callable[[int, int], None] | None = None) -> str:
        small: dict[str, Any] = {"epochs": 1, "size": replace(SMALL, hidden=16, heads=1)}
        reports = data_folder / "reports.csv"
        return pretrain_text(reports, out, device="cpu", progress=progress, **small).fingerprint

    def stop(step: int, total: int) -> None:
        if step > total // 2:
            raise KeyboardInterrupt

    out, partial = tmp_path / "model", tmp_path / "model.partial"
    with pytest.raises(KeyboardInterrupt):
        train(out, stop)
    kept = copy_of(partial, tmp_path)

    def read() -> str:
        shutil.rmtree(out, ignore_errors=True)
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(kept, partial)
        return train(out)

    try_flips("pretraining state", files_of(kept), read, flips=60)


def test_index(index_folder: Path, checkpoint: Path, tmp_path: Path, try_flips: Flip) -> None:
    copy = copy_of(index_folder, tmp_path)
    model = load_model(checkpoint)
    text = torch.nn.functional.normalize(torch.ones(model.spec.dimension), dim=0)

    def read() -> str:
        with open_index(copy, model) as index:
            hits = index.search(Query(texts=text[None]), 20).hits
            regions = index.regions(hits[0].image.number)
            return digest([(h.image.number, h.score) for h in hits], regions)

    for pattern in ("*.vectors", "*.faiss", "index.json"):
        files = list(copy.glob(pattern))
        if files:
            try_flips(f"index, {pattern}", files, read)


def of_data(folder: Path) -> str:
    tables: dict[str, Callable[[Path], Any]] = {
        "manifest.csv": read_manifest,
        "labels.csv": read_labels,
        "reports.csv": lambda path: list(open_source(path)),
        "boxes.json": lambda path: list(iter_boxes(path)),
    }
    paths = [(folder / name, read) for name, read in tables.items()]
    return digest(*(read(path) for path, read in paths if path.is_file()))


@pytest.mark.parametrize("made", ["phantom", "import"])
def test_tables(made: str, data_folder: Path, tmp_path: Path, try_flips: Flip) -> None:
    folder = tmp_path / made
    if made == "phantom":
        write_phantoms(folder, studies=30, size=64, seed=3, workers=1)
        assert (folder / "boxes.json").is_file()
    else:
        import_folder(data_folder, folder)
    assert (folder / "SHA256SUMS").is_file()
    names = ("manifest.csv", "reports.csv", "labels.csv", "boxes.json", "SHA256SUMS")
    try_flips(f"{made} tables", [folder / name for name in names], lambda: of_data(folder))


def test_notes_of_drawn_phantoms(tmp_path: Path, try_flips: Flip) -> None:
    """A resumed run draws again what it cannot trust, and ends in the same files."""
    folder = tmp_path / "p"

    def draw() -> None:
        write_phantoms(folder, studies=10, size=64, seed=3, workers=1)

    draw()
    tables = [path for path in sorted(files_of(folder)) if path.suffix != ".jsonl"]

    def read() -> str:
        draw()
        return digest(*(path.read_bytes() for path in tables))

    files = [folder / "phantom.boxes.jsonl", folder / "phantom.json", *folder.glob("images/*")]
    try_flips("phantom notes, images", files, kept_as(folder, read), flips=60)


def test_notes_of_experiments(tmp_path: Path, try_flips: Flip) -> None:
    values = np.random.default_rng(0).normal(size=(1, 50))
    path = tmp_path / "measures.npz"
    measures = {"AUC": Measured(0.8, values, rows=(1, 2)), "ACC": Measured(0.7, values)}
    write_measures(path, measures)

    def read() -> str:
        found = read_measures(path)
        return digest(*((name, m.value, m.influence, m.rows) for name, m in found.items()))

    try_flips("measures.npz", [path], read)
    out = tmp_path / "experiment"
    claim(out, {"scale": "cpu", "seeds": 3})
    stage(out, "data", path, lambda: {"images": 12})
    notes = [out / "experiment.json", out / "stages" / "data.json"]
    try_flips("notes of experiments", notes, lambda: [read_json(note) for note in notes])
    assert read_sealed(notes[0])["seeds"] == 3


def test_image_weights(tmp_path: Path, try_flips: Flip) -> None:
    encoder = ImageEncoder("resnet-narrow")
    path = tmp_path / "encoder.safetensors"
    notes = {"preprocessing": Preprocessing().to_dict()}
    save_sealed(path, encoder.state_dict(prefix="encoder."), notes)

    def read() -> str:
        load_image_weights(encoder, path)
        return digest(*encoder.state_dict().values())

    try_flips("encoder.safetensors", [path], read)


def test_objects_of_an_inbox(tmp_path: Path, try_flips: Flip) -> None:
    folder = tmp_path / "inbox"
    with Inbox(folder, reserve=0) as inbox:
        for number in range(50):
            inbox.put("PACS", b"object %d" % number * 200)

    def taken() -> object:
        with Inbox(folder, reserve=0) as inbox:
            entries = inbox.waiting(50)
            if not all(entry.is_whole for entry in entries):
                raise DataError("damaged, as the worker notes it")
            return [(entry.number, entry.path.read_bytes()) for entry in entries]

    try_flips("waiting objects", [*(folder / "objects").iterdir()], taken)


def test_notes_of_an_import(tmp_path: Path, try_flips: Flip) -> None:
    data, out = write_data(tmp_path / "data", 6), tmp_path / "out"

    def imported() -> object:
        import_folder(data, out)
        return digest(*(p.read_bytes() for p in sorted((out / "images").iterdir())))

    imported()
    try_flips("import.json", [out / "import.json"], kept_as(out, imported))


def test_keys(tmp_path: Path, try_flips: Flip) -> None:
    path = tmp_path / "keys"
    for name in ("ward", "clinic", "front"):
        add_key(path, name, ("read", "write"), date(2031, 12, 31))
    try_flips("keys", [path], lambda: read_key_file(path))


def test_predictions(data_folder: Path, checkpoint: Path, tmp_path: Path, try_flips: Flip) -> None:
    path = tmp_path / "predictions.parquet"
    made = evaluate(checkpoint, data_folder).predictions
    assert made is not None
    write_predictions(path, made)

    def read() -> str:
        found = read_predictions(path, {name: kind for name, (kind, _) in PARTS.items()})
        tables = [part.to_table().to_pydict() for part in found.parts.values()]
        return digest(found.about, tables)

    try_flips("predictions.parquet", [path], read)


def test_log_of_forgetting(tmp_path: Path, try_flips: Flip) -> None:
    path = tmp_path / "forgotten.jsonl"
    key = key_of(tmp_path / "forgotten.key")
    for number in range(20):
        append_signed(path, key, event="forgotten", subject=f"{number:064x}")

    def read() -> bytes:
        if problems := check_files(tmp_path).problems:
            raise DataError(problems[0])
        return path.read_bytes()

    try_flips("forgotten.jsonl", [path], read)
    try_flips("forgotten.key", [tmp_path / "forgotten.key"], read)


def test_plan_of_a_job(tmp_path: Path, try_flips: Flip) -> None:
    storage = tmp_path / "job"
    begin(storage, "embed", {"table": "ab" * 32}, 20, lambda: (20, {"a": 2}))
    try_flips("job.json", [tmp_path / "job/job.json"], lambda: read_plan(storage))
