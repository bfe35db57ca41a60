"""A job of four shards, and what to compare it with."""

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from tests import small_backbones
from tests.conftest import SENTENCES, Once, draw
from tests.jobs.here import work_here

STUDIES = 110


@pytest.fixture(scope="module", autouse=True)
def _here(one_thread: None) -> Iterator[None]:
    """Jobs work in this process, which takes one thread, as a worker does, and keeps it so."""
    with work_here():
        yield


@pytest.fixture(scope="session")
def archive_folder(once: Once) -> Path:
    """A data folder of 110 images, one of which is not an image; read-only by convention."""

    def make(folder: Path) -> None:
        (folder / "images").mkdir()
        rows, reports = [], []
        for i in range(STUDIES):
            name, kind = f"images/a{i:03d}.png", list(SENTENCES)[i % 3]
            Image.fromarray(draw(kind, i, 72)).save(folder / name)
            study = f"s{i // 2:03d}"
            rows.append({"image": name, "study_id": study, "age": 20 + i, "note": "x" * (i % 3)})
            if i % 2 == 0:
                said = f"{SENTENCES[kind]} Follow up in {i} days."
                reports.append({"study_id": study, "findings": said, "impression": ""})
        (folder / "images/a070.png").write_bytes(b"no image")
        for name, table in (("manifest", rows), ("reports", reports)):
            with (folder / f"{name}.csv").open("w", newline="") as handle:
                writer = csv.DictWriter(handle, list(table[0]))
                writer.writeheader()
                writer.writerows(table)

    return once("archive-of-jobs", make)


@pytest.fixture(scope="session")
def tiny_backbone(once: Once) -> Path:
    """A vision transformer of 4 x 4 regions with 24 channels; weights are random."""
    return once("vit", lambda folder: small_backbones.write(folder / "tiny", "vit")) / "tiny"


@pytest.fixture(scope="session")
def other_backbone(once: Once) -> Path:
    made = once("vit-1", lambda folder: small_backbones.write(folder / "tiny", "vit", seed=1))
    return made / "tiny"
