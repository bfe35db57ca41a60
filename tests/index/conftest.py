"""Archives of made-up regions, as large as a test wants them, without an image."""

import itertools
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from cxrtext.evaluation import CHEX5_PROMPTS
from cxrtext.index import Archive, Query, delete, open_index, rewrite
from cxrtext.index.build import start_index
from cxrtext.index.changes import NewImage, NewReports, add_images, add_reports
from cxrtext.index.entry import keep_image
from cxrtext.index.features.scoring import packed_rows
from cxrtext.index.store.catalogue import CATALOGUE, Catalogue
from cxrtext.index.store.check import check_index
from cxrtext.index.store.snapshot import take_snapshot
from cxrtext.index.store.writer import writing
from cxrtext.index.structure import refresh_structure
from cxrtext.models import ImageTextModel

MakeArchive = Callable[..., Path]
Upload = Callable[[Path, Path, int], bytes]
Busy = Callable[[], AbstractContextManager[list[int]]]


def regions_of(count: int, seed: int, D: int = 16) -> Tensor:
    """Regions [count, 16, D] that crowd around a few directions, as a trained model's do."""
    generator = torch.Generator().manual_seed(seed)
    topics = torch.randn(6, D, generator=generator)
    owner = torch.randint(0, 6, (count, 16), generator=generator)
    noise = torch.randn(count, 16, D, generator=generator)
    return F.normalize(topics[owner] + 0.7 * noise, dim=-1)


def write_archive(
    model: ImageTextModel,
    checkpoint: Path,
    folder: Path,
    count: int = 300,
    *,
    seed: int = 0,
    storage: str = "float16",
    start: int = 0,
    prefix: str = "i",
    batch: int = 64,
) -> Path:
    """Make an index of made-up images in a folder, or add to it; gives the folder."""
    regions = regions_of(count, seed)
    sentences = ["The lungs are clear.", "Left pleural effusion.", "Right pneumothorax."]
    vectors = model.embed_sentences(sentences)
    with writing(folder, create=True) as catalogue:
        start_index(catalogue, model, checkpoint, list(vectors), CHEX5_PROMPTS, storage)
        language = take_snapshot(folder, catalogue).language
        for begin in range(0, count, batch):
            part = regions[begin : begin + batch]
            rows, _ = packed_rows(model, part, language, storage)
            images = [made_up(start + begin + i, prefix) for i in range(len(part))]
            add_images(folder, catalogue, images, rows)
        if not catalogue.known_sentences():
            said = [(f"s{i % 50}", "findings", i // 50, sentences[i % 3]) for i in range(150)]
            add_reports(folder, catalogue, NewReports(sentences, vectors.numpy(), said))
        refresh_structure(folder, catalogue)
    return folder


@pytest.fixture(scope="session")
def make_archive(model: ImageTextModel, checkpoint: Path) -> MakeArchive:
    """Makes an index of made-up images in a folder; gives the folder."""
    return partial(write_archive, model, checkpoint)


def made_up(i: int, prefix: str = "i") -> NewImage:
    """The i-th image: two a study, three studies a patient."""
    return NewImage(
        image=f"{prefix}{i}.png", root="/nowhere", study_id=f"s{i // 2}", patient_id=f"p{i // 6}",
        split="train", height=80, width=80,
        metadata={"age": str(20 + i % 70), "sex": "FM"[i % 2], "note": "" if i % 3 else "x'y"},
        labels={"label.Pleural Effusion": (i % 100) / 100},
    )  # fmt: skip


@pytest.fixture(scope="session")
def archive(make_archive: MakeArchive, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_archive(tmp_path_factory.mktemp("archive") / "index", 1000)


@pytest.fixture
def small(make_archive: MakeArchive, tmp_path: Path) -> Path:
    """An index of 120 made-up images, to change."""
    return make_archive(tmp_path / "small", 120)


def in_fork(work: Callable[[], object]) -> int:
    """Do some work in a fork, which ends with 0 unless it fails; gives its number."""
    child = os.fork()
    if child == 0:
        torch.set_num_threads(1)  # those of the parent do not come through a fork
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return child


def wrong(folder: Path) -> list[str]:
    with Catalogue(folder / CATALOGUE) as catalogue:
        return check_index(folder, catalogue)


def first_said(index: Archive) -> Query:
    """A query for the first sentence of an index."""
    return Query(texts=index.snapshot.texts[:1])


def answers(folder: Path, model: ImageTextModel | None = None) -> list[object]:
    """What an index says to two questions, with all that it knows of each image."""
    with open_index(folder, model) as index:
        texts = index.model.embed_sentences(["Left pleural effusion.", "The lungs are clear."])
        hits = index.search(Query(texts=texts), 1000).hits
        known = [
            (h.image.number, h.image.image, h.image.patient_id, h.score, h.labels) for h in hits
        ]
        said = [hit.sentence for hit in index.search_sentences(3, text=texts[0])]
        return [known, said, index.report("s3"), [column.name for column in index.columns()]]


def png(pixels: NDArray[np.uint8]) -> bytes:
    file = BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def add_upload(
    folder: Path,
    uploads: Path,
    model: ImageTextModel,
    pixels: NDArray[np.uint8],
    names: tuple[str, str, str],
    regions: Tensor,
    reports: NewReports | None = None,
) -> bytes:
    """Add an image (its name, study and patient) as the server does; gives its file."""
    data, said = png(pixels), dict(zip(("image", "study_id", "patient_id"), names, strict=True))
    height, width = pixels.shape
    with writing(folder, wait_s=30) as catalogue:
        language = take_snapshot(folder, catalogue).language
        rows, _ = packed_rows(model, regions, language, "float16")
        one = keep_image(
            catalogue, uploads, data, ".png", **said, split="test", height=height, width=width,
            metadata={}, labels={}, added_by="key",
        )  # fmt: skip
        add_images(folder, catalogue, [one], rows, reports)
    return data


@pytest.fixture(scope="session")
def upload(model: ImageTextModel) -> Upload:
    """Adds an image of a seed to an index; gives the file that is kept of it."""

    def add(folder: Path, uploads: Path, seed: int) -> bytes:
        pixels = np.random.default_rng(seed).integers(0, 255, (20, 20)).astype(np.uint8)
        names = f"u{seed}.png", f"us{seed}", "up"
        return add_upload(folder, uploads, model, pixels, names, regions_of(1, seed))

    return add


@pytest.fixture
def while_written(small: Path, model: ImageTextModel, upload: Upload, tmp_path: Path) -> Busy:
    """A block in which a thread adds to the small index, deletes, writes anew; gets its turns."""

    @contextmanager
    def written() -> Iterator[list[int]]:
        uploads = tmp_path / "uploads"
        upload(small, uploads, 0)
        stop, made = threading.Event(), list[int]()

        def write() -> None:
            for seed in itertools.takewhile(lambda _: not stop.is_set(), itertools.count(1)):
                upload(small, uploads, seed)
                made.append(seed)
                if seed % 3 == 0:
                    delete(small, [f"us{seed - 1}"], wait_s=30)
                if seed % 5 == 0:
                    rewrite(small, model, rebuild=False, wait_s=30)

        with ThreadPoolExecutor(1) as pool:
            writer = pool.submit(write)
            try:
                yield made
            finally:
                stop.set()
            writer.result()

    return written
