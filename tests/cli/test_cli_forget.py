"""``cxrtext forget``, ``index rebuild --model`` and ``index export``, as a user starts them."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess

import torch

from cxrtext.index.store.catalogue import CATALOGUE, Catalogue
from cxrtext.index.store.writer import writing
from cxrtext.jobs.plan import NAME as JOB_PLAN
from cxrtext.models import ImageTextModel, load_model
from cxrtext.models.checkpoint import save_checkpoint

Command = Callable[..., CompletedProcess[str]]


def test_forget_lists_removes_and_signs(
    cxrtext: Command,
    data_folder: Path,
    index_folder: Path,
    tmp_path: Path,
) -> None:
    data = Path(shutil.copytree(data_folder, tmp_path / "data"))
    index = Path(shutil.copytree(index_folder, tmp_path / "index"))
    with writing(index) as catalogue, catalogue.transaction(write=True) as database:
        database.execute("UPDATE roots SET path = ?", (str(data),))
    tried = cxrtext("forget", data, index, "--patient", "p05", "--dry-run")
    assert tried.returncode == 0, tried.stderr
    assert "1 studies, 1 images; nothing was changed" in tried.stdout
    assert (data / "images/s05.png").exists()
    (data / "notes.md").write_text("see images/s05.png")
    done = cxrtext("forget", data, index, "--patient", "p05")
    assert done.returncode == 1  # the note still names the image
    assert "other file: names them, and is of a kind that is not changed" in done.stderr
    (data / "notes.md").unlink()
    assert not (data / "images/s05.png").exists()
    job = tmp_path / "job"
    (job / "shards").mkdir(parents=True)
    (job / JOB_PLAN).write_text('{"images": ["s06"]}')
    said = cxrtext("forget", data, index, job, "--study", "s06", "--json")
    assert said.returncode == 0, said.stderr  # what is named in any case is no fault
    left = [p["what"] for p in json.loads(said.stdout)["places"] if not p["done"]]
    assert left == ["archive job", "elsewhere"]
    shutil.rmtree(job)
    assert {p["what"] for p in json.loads(said.stdout)["places"] if p["done"]} == {
        "index",
        "image",
        "manifest",
        "table",
    }
    assert len((data / "forgotten.jsonl").read_text().splitlines()) == 2
    assert cxrtext("check-files", tmp_path).returncode == 0
    again = cxrtext("forget", data, index, "--patient", "p05")
    assert again.returncode == 2
    assert "no patient of this id is known" in again.stderr


def test_a_new_model(
    cxrtext: Command, index_folder: Path, checkpoint: Path, tmp_path: Path
) -> None:
    index = Path(shutil.copytree(index_folder, tmp_path / "index"))
    known = load_model(checkpoint)
    torch.manual_seed(2)
    made = ImageTextModel(replace(known.spec, dimension=8), known.tokenizer)
    save_checkpoint(tmp_path / "new", made, {})
    done = cxrtext("index", "rebuild", index, "--model", tmp_path / "new")
    assert done.returncode == 0, done.stderr
    assert "48 images (0 new, 48 replaced)" in done.stdout
    assert "GB free" in done.stderr
    with Catalogue(index / CATALOGUE) as catalogue:
        assert catalogue.meta()["checkpoint"] == str(tmp_path / "new")
    again = cxrtext("index", "rebuild", index, "--model", tmp_path / "new")
    assert again.returncode == 0, again.stderr
    assert "GB free" not in again.stderr
    assert cxrtext("search", "Left pleural effusion.", "--index", index).returncode == 0
