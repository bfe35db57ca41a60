"""A data set, a language model and a checkpoint so small that every test can have them."""

import csv
import gc
import os
import random
import shutil
from collections.abc import Callable, Generator, Iterator
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from filelock import FileLock
from PIL import Image

from tests.leftovers import end_with_us
from tests.readers import kept_readers, own_readers
from tests.warm import Warm

if TYPE_CHECKING:
    from cxrtext.models import ImageTextModel

end_with_us()
os.environ["HF_HUB_OFFLINE"] = "1"
# One thread, unless the caller names a number: threads cost small work more than they give.
torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None]:
    """Collect without looking for garbage, and never look through what was imported again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


PEERS = {"browser", "started_orthanc", "overwriting", "secure"}
"""Fixtures that start a Chromium or an Orthanc."""


@pytest.hookimpl(tryfirst=True)  # before -m chooses by marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what wants a real peer; and where TEST_ORDER names a seed, change the order of tests.

    Files come in another order, and so do the tests of each.
    """
    for item in items:
        if not PEERS.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker("peers")
    if seed := os.environ.get("TEST_ORDER"):
        chance = random.Random(seed)  # noqa: S311
        files = [list(tests) for _, tests in groupby(items, lambda item: item.path)]
        for tests in files:
            chance.shuffle(tests)
        chance.shuffle(files)
        items[:] = [test for tests in files for test in tests]


@pytest.fixture(scope="session", autouse=True)
def one_core() -> Iterator[None]:
    """What runs in this process sees one core, whatever the machine has.

    A pool that starts a process a core would start more of them than a tiny set is worth.  Tests of
    several processes ask for several.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "cpu_count", lambda: 1)
        patch.setattr(os, "sched_getaffinity", lambda _: {0}, raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def readers() -> Iterator[None]:
    """Processes that decode images outlive a test."""
    with kept_readers():
        yield


@pytest.fixture
def without_kept_readers() -> Iterator[None]:
    """Processes that decode images start and end with what wants them."""
    with own_readers():
        yield


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Of several threads sums differ, and a fork of a process that has them would wait for them.

    For files whose tests compare work of this process with that of a job or a fork.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


SENTENCES = {
    "clear": "The lungs are clear.",
    "effusion": "Left pleural effusion.",
    "pneumothorax": "Right pneumothorax.",
}


def draw(kind: str, seed: int, size: int = 80) -> np.ndarray:
    """Grey noise, with a bright lower right corner or stripes at the upper left."""
    pixels = np.random.default_rng(seed).integers(60, 90, (size, size)).astype(np.uint8)
    half = size // 2
    if kind == "effusion":
        pixels[half:, half:] += 120
    if kind == "pneumothorax":
        pixels[:half, :half:4] += 120
    return pixels


def write_data(folder: Path, studies: int = 48) -> Path:
    """A data folder of three kinds of study, in turn; every fourth patient is held out."""
    (folder / "images").mkdir(parents=True)
    manifest, reports, labels = [], [], []
    for i in range(studies):
        kind = list(SENTENCES)[i % 3]
        Image.fromarray(draw(kind, i)).save(folder / f"images/s{i:02d}.png")
        split = {5: "val", 6: "val", 7: "test", 8: "test", 9: "test"}.get(i % 12, "train")
        manifest.append(
            {
                "image": f"images/s{i:02d}.png",
                "study_id": f"s{i:02d}",
                "patient_id": f"p{i:02d}",
                "split": split,
                "age": 40 + i,
            }
        )
        reports.append({"study_id": f"s{i:02d}", "findings": SENTENCES[kind], "impression": ""})
        labels.append(
            {
                "study_id": f"s{i:02d}",
                "Pleural Effusion": int(kind == "effusion"),
                "Pneumothorax": int(kind == "pneumothorax"),
            }
        )
    for name, rows in (("manifest", manifest), ("reports", reports), ("labels", labels)):
        with (folder / f"{name}.csv").open("w", newline="") as handle:
            writer = csv.DictWriter(handle, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    return folder


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as handle:
        return list(csv.DictReader(handle))


def flip(path: Path, place: int = -1) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def as_received(index: Path, old: str = "came", new: str = "received") -> Path:
    """An index whose column ``came`` becomes ``received``, which no manifest may bring."""
    from cxrtext.index.store.writer import writing

    with writing(index) as catalogue, catalogue.transaction(write=True) as database:
        database.execute("UPDATE columns SET name = ? WHERE name = ?", (new, old))
        database.execute(
            "UPDATE images SET metadata = replace(metadata, ?, ?)", (f'"{old}"', f'"{new}"')
        )
    return index


Once = Callable[[str, Callable[[Path], object]], Path]


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Once:
    """Gives the new folder that a function fills; made once for all workers of pytest-xdist.

    The worker that comes first makes it in a folder of its own and leaves a note of where it is;
    the others wait.  A worker that fails leaves no note, and the next one tries again.
    """

    def folder_of(name: str, make: Callable[[Path], object]) -> Path:
        if "PYTEST_XDIST_WORKER" not in os.environ:
            make(folder := tmp_path_factory.mktemp(name))
            return folder
        note = tmp_path_factory.getbasetemp().parent / f"{name}.folder"
        with FileLock(f"{note}.lock"):
            if not note.exists():
                make(folder := tmp_path_factory.mktemp(name))
                note.write_text(str(folder), "utf-8")
        return Path(note.read_text("utf-8"))

    return folder_of


@pytest.fixture(scope="session")
def warm() -> Iterator[Warm]:
    """Starts programs in processes of their own, without waiting for torch and transformers."""
    process = Warm()
    yield process
    process.close()


@pytest.fixture(scope="session")
def data_folder(once: Once) -> Path:
    """``manifest.csv``, ``reports.csv``, ``labels.csv`` and images; read-only by convention."""
    return once("data", lambda folder: write_data(folder / "set")) / "set"


def write_language_model(folder: Path) -> None:
    from transformers import BertConfig, BertForMaskedLM

    from cxrtext.text.tokenizer import train_tokenizer

    tokenizer = train_tokenizer([*SENTENCES.values(), "No pleural effusions or pneumothorax."], 200)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    BertForMaskedLM(config).save_pretrained(folder)


@pytest.fixture(scope="session")
def language_model(once: Once) -> Path:
    """A masked language model of one layer with random weights."""
    return once("language-model", write_language_model)


@pytest.fixture(scope="session")
def sentences_table(data_folder: Path, language_model: Path, once: Once) -> Path:
    from cxrtext.language import score_reports

    def score(folder: Path) -> None:
        out = folder / "sentences.csv"
        score_reports(data_folder / "reports.csv", out, model=language_model, device="cpu")

    return once("sentences", score) / "sentences.csv"


def _training_options(
    data_folder: Path, sentences_table: Path, language_model: Path, out: Path
) -> list[str]:
    """``--set`` values of a run of seconds."""
    return [
        f"data.manifest={data_folder / 'manifest.csv'}",
        f"data.sentences={sentences_table}",
        "data.resize=72",
        "data.crop=64",
        "model.image=resnet-narrow",
        f"model.text={language_model}",
        "model.dimension=16",
        "training.steps=200",
        "training.batch=8",
        "training.lr=2e-3",
        "training.warmup=4",
        "training.log_every=5",
        "training.validate_every=100",
        "training.save_every=100",
        "training.device=cpu",
        f"out={out}",
    ]


@pytest.fixture(scope="session")
def run_folder(data_folder: Path, sentences_table: Path, language_model: Path, once: Once) -> Path:
    from cxrtext.config import load_config
    from cxrtext.training import train

    def make(folder: Path) -> None:
        options = _training_options(data_folder, sentences_table, language_model, folder / "run")
        train(load_config(None, options))

    return once("run", make) / "run"


@pytest.fixture(scope="session")
def checkpoint(run_folder: Path) -> Path:
    """A trained checkpoint; read-only by convention."""
    return run_folder / "checkpoint"


@pytest.fixture(scope="session")
def judged_checkpoint(checkpoint: Path, once: Once) -> Path:
    """The checkpoint with verdicts, calibrated on enough images; read-only by convention."""
    from cxrtext.evaluation.cohort import Embedder
    from cxrtext.evaluation.data import read_data_folder
    from cxrtext.models import load_model
    from cxrtext.records import Rejects
    from cxrtext.verdicts.fit import fit_verdicts

    def make(folder: Path) -> None:
        made = Path(shutil.copytree(checkpoint, folder / "checkpoint"))
        data = read_data_folder(write_data(folder / "set", 120))
        cohort = Embedder(load_model(made), None, Rejects(), 120).cohort(data.records)
        reports = {one.study_id: [one.sentence] for one in data.sentences or ()}
        fit_verdicts(load_model(made), cohort, reports, reports, "set").save(made)

    return once("judged", make) / "checkpoint"


@pytest.fixture(scope="session")
def index_folder(data_folder: Path, checkpoint: Path, once: Once) -> Path:
    """An index of the data folder; read-only by convention."""
    from cxrtext.index import build_index

    def make(folder: Path) -> None:
        build_index(data_folder / "manifest.csv", checkpoint, folder / "index")

    return once("index", make) / "index"


@pytest.fixture(scope="session")
def project_folder(judged_checkpoint: Path, index_folder: Path, once: Once) -> Path:
    """A project of the judged checkpoint and the index; read-only by convention."""
    from cxrtext.project.layout import CHECKPOINT, INDEX, RECIPE

    def make(folder: Path) -> None:
        shutil.copytree(judged_checkpoint, folder / "project" / CHECKPOINT)
        shutil.copytree(index_folder, folder / "project" / INDEX)
        (folder / "project" / RECIPE).write_text("{}")

    return once("project", make) / "project"


@pytest.fixture(scope="session")
def model(checkpoint: Path) -> "ImageTextModel":
    from cxrtext.models import load_model

    return load_model(checkpoint)


@pytest.fixture
def index_copy(index_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(index_folder, tmp_path / "index"))


@pytest.fixture
def checkpoint_copy(checkpoint: Path, tmp_path: Path) -> Path:
    """A checkpoint of the test's own, in which an evaluation keeps how good it is."""
    return Path(shutil.copytree(checkpoint, tmp_path / "run/checkpoint"))


@pytest.fixture
def data_copy(data_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(data_folder, tmp_path / "set"))


@pytest.fixture(scope="session")
def options_into(
    data_folder: Path, sentences_table: Path, language_model: Path
) -> Callable[[Path], list[str]]:
    """``--set`` values of a training run of seconds into a folder."""
    return partial(_training_options, data_folder, sentences_table, language_model)


@pytest.fixture
def options(
    options_into: Callable[[Path], list[str]], run_folder: Path, tmp_path: Path
) -> list[str]:
    """``--set`` values of a training run of seconds into a folder of the test's own.

    It finds its images decoded; ``data.cache=null`` makes it decode them.
    """
    decoded = shutil.copytree(run_folder / "cache", tmp_path / "decoded-before")
    return [*options_into(tmp_path / "run"), f"data.cache={decoded}"]
