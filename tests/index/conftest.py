"""Archives of made-up regions, as large as a test wants them, without an image."""

import hashlib
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from cxrtext.evaluation import CHEX5_PROMPTS
from cxrtext.index import delete, rewrite
from cxrtext.index.build import start_index
from cxrtext.index.changes import NewImage, NewReports, add_images, add_reports
from cxrtext.index.features.scoring import packed_rows
from cxrtext.index.store.snapshot import take_snapshot
from cxrtext.index.store.writer import keep_file, writing
from cxrtext.index.tuning import refresh_structure
from cxrtext.models import ImageTextModel

MakeArchive = Callable[..., Path]


@pytest.fixture
def copy(index_folder: Path, tmp_path: Path) -> Path:
    """An index to change."""
    return Path(shutil.copytree(index_folder, tmp_path / "copy"))


def regions_of(count: int, seed: int, D: int = 16) -> Tensor:
    """Regions [count, 16, D] that crowd around a few directions, as a trained model's do."""
    generator = torch.Generator().manual_seed(seed)
    topics = torch.randn(6, D, generator=generator)
    owner = torch.randint(0, 6, (count, 16), generator=generator)
    noise = torch.randn(count, 16, D, generator=generator)
    return F.normalize(topics[owner] + 0.7 * noise, dim=-1)


@pytest.fixture(scope="session")
def make_archive(model: ImageTextModel, checkpoint: Path) -> MakeArchive:
    """Makes an index of made-up images in a folder; gives the folder."""

    def make(
        folder: Path,
        count: int = 300,
        *,
        seed: int = 0,
        storage: str = "float16",
        start: int = 0,
        prefix: str = "i",
        batch: int = 64,
    ) -> Path:
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
            known = catalogue.known_sentences()
            if not known:
                said = [(f"s{i % 50}", "findings", i // 50, sentences[i % 3]) for i in range(150)]
                add_reports(folder, catalogue, NewReports(sentences, vectors.numpy(), said))
            refresh_structure(folder, catalogue, model)
        return folder

    return make


def made_up(i: int, prefix: str = "i") -> NewImage:
    """The i-th image: two a study, three studies a patient."""
    return NewImage(
        image=f"{prefix}{i}.png",
        root="/nowhere",
        study_id=f"s{i // 2}",
        patient_id=f"p{i // 6}",
        split="train",
        height=80,
        width=80,
        metadata={"age": str(20 + i % 70), "sex": "FM"[i % 2], "note": "" if i % 3 else "x'y"},
        labels={"label.Pleural Effusion": (i % 100) / 100},
    )


@pytest.fixture(scope="session")
def archive(make_archive: MakeArchive, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of 1,000 made-up images; read-only by convention."""
    return make_archive(tmp_path_factory.mktemp("archive") / "index", 1000)


@pytest.fixture
def small(make_archive: MakeArchive, tmp_path: Path) -> Path:
    """An index of 120 made-up images, to change."""
    return make_archive(tmp_path / "small", 120)


@pytest.fixture(scope="session")
def upload(model: ImageTextModel) -> Callable[[Path, Path, int], bytes]:
    """Adds an image to an index as the server does; gives the file that is kept of it."""

    def add(folder: Path, uploads: Path, seed: int) -> bytes:
        file = BytesIO()
        pixels = np.random.default_rng(seed).integers(0, 255, (20, 20)).astype(np.uint8)
        Image.fromarray(pixels).save(file, "PNG")
        data = file.getvalue()
        with writing(folder, wait_s=30) as catalogue:
            language = take_snapshot(folder, catalogue).language
            rows, _ = packed_rows(model, regions_of(1, seed), language, "float16")
            kept = keep_file(catalogue, uploads, data, hashlib.sha256(data).hexdigest(), ".png")
            of_whom = (f"us{seed}", "up", "test", 20, 20)
            one = NewImage(f"u{seed}.png", str(uploads), *of_whom, {}, {}, kept, "key")
            add_images(folder, catalogue, [one], rows)
        return data

    return add


@pytest.fixture
def while_written(
    small: Path, model: ImageTextModel, upload: Callable[..., bytes], tmp_path: Path
) -> Callable[[], AbstractContextManager[None]]:
    """A block during which a thread adds to the small index, deletes from it, writes it anew."""

    @contextmanager
    def written() -> Iterator[None]:
        uploads = tmp_path / "uploads"
        upload(small, uploads, 0)
        stop, failed = threading.Event(), list[BaseException]()

        def write() -> None:
            seed = 1
            try:
                while not stop.is_set():
                    upload(small, uploads, seed)
                    if seed % 3 == 0:
                        delete(small, [f"us{seed - 1}"], wait_s=30)
                    if seed % 5 == 0:
                        rewrite(small, model, rebuild=False, wait_s=30)
                    seed += 1
            except BaseException as error:  # noqa: BLE001 - raised below
                failed.append(error)

        thread = threading.Thread(target=write)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
        assert not failed, failed

    return written
