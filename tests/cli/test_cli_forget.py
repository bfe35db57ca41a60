"""``cxrtext forget`` and ``index compact --model``, as a user starts them."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import torch

from cxrtext.index.store.catalogue import CATALOGUE, Catalogue
from cxrtext.index.store.writer import writing
from cxrtext.jobs.plan import NAME as JOB_PLAN
from cxrtext.models import ImageTextModel, load_model
from cxrtext.models.checkpoint import save_checkpoint
from tests.cli.conftest import cxrtext


def test_forget_lists_removes_and_signs(data_copy: Path, index_copy: Path, tmp_path: Path) -> None:
    data, index = data_copy, index_copy
    with writing(index) as catalogue, catalogue.transaction(write=True) as database:
        database.execute("UPDATE roots SET path = ?", (str(data),))
    tried = cxrtext("forget", data, index, "--patient", "p05", "--dry-run")
    assert "1 studies, 1 images; nothing was changed" in tried.stdout
    assert (data / "images/s05.png").exists()
    (data / "notes.md").write_text("see images/s05.png")
    # The note still names the image.
    done = cxrtext("forget", data, index, "--patient", "p05", code=1)
    assert "other file: names them, and is of a kind that is not changed" in done.stderr
    (data / "notes.md").unlink()
    assert not (data / "images/s05.png").exists()
    job = tmp_path / "job"
    (job / "shards").mkdir(parents=True)
    (job / JOB_PLAN).write_text('{"images": ["s06"]}')
    # What is named in any case is not a fault.
    said = cxrtext("forget", data, index, job, "--study", "s06", "--json")
    left = [p["what"] for p in json.loads(said.stdout)["places"] if not p["done"]]
    assert left == ["archive job", "elsewhere"]
    shutil.rmtree(job)
    done_of = {p["what"] for p in json.loads(said.stdout)["places"] if p["done"]}
    assert done_of == {"index", "image", "manifest", "table"}
    assert len((data / "forgotten.jsonl").read_text().splitlines()) == 2
    cxrtext("check-files", tmp_path)
    again = cxrtext("forget", data, index, "--patient", "p05", code=2)
    assert "no patient with this id is known" in again.stderr


def test_a_new_model(index_copy: Path, checkpoint: Path, tmp_path: Path) -> None:
    known = load_model(checkpoint)
    torch.manual_seed(2)
    made = ImageTextModel(replace(known.spec, dimension=8), known.tokenizer)
    save_checkpoint(tmp_path / "new", made, {})
    done = cxrtext("index", "compact", index_copy, "--model", tmp_path / "new")
    assert "48 images (0 new, 48 replaced)" in done.stdout
    with Catalogue(index_copy / CATALOGUE) as catalogue:
        assert catalogue.meta()["checkpoint"] == str(tmp_path / "new")
    again = cxrtext("index", "compact", index_copy, "--model", tmp_path / "new")
    assert "replaced" not in again.stdout
    cxrtext("search", index_copy, "Left pleural effusion.")
