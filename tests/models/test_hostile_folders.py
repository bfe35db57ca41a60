"""Model folders of somebody who means harm: refused in one line, in bounded memory.

Each is loaded by ``cxrtext.load_model`` and by ``cxrtext classify`` in a forked process, which may
take a GiB more than it has and :data:`SECONDS` of the processor.  Nothing may be written.
"""

import hashlib
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from cxrtext.files import write_sums
from cxrtext.models import load_model
from cxrtext.models.checkpoint import copy_model
from tests.models.foreign.folders import WRITERS

MEMORY, SECONDS = 2**30, 120
Change = Callable[[Path], object]
CHILD = """
import io, json, os, resource, signal, sys, traceback
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
import torch, transformers
from cxrtext import load_model
from cxrtext.errors import CxrTextError
from cxrtext.service import Service
from cxrtext_cli.main import app, main

torch.set_num_threads(1)
root, bases, memory, seconds = *map(Path, sys.argv[1:3]), *map(int, sys.argv[3:])
for base in bases.iterdir():
    load_model(base)  # what a load imports lies in every fork

def api(folder):
    try:
        load_model(folder)
        return "loaded"
    except CxrTextError as error:
        return str(error)

def command(folder):
    sys.argv = ["cxrtext", "classify", str(folder), str(root / "image.png")]
    said = io.StringIO()
    with redirect_stderr(said), redirect_stdout(io.StringIO()):
        try:
            main()
        except SystemExit as end:
            said.write(f"exit {end.code}")
    return said.getvalue()

def limited(ask, folder, out):
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + memory
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    signal.alarm(5 * seconds)  # of a pipe that is waited for
    try:
        out.write_text(ask(folder))
    except BaseException:
        out.write_text(traceback.format_exc())

for folder in sorted((root / "models").iterdir()):
    for ask in (api, command):
        if (child := os.fork()) == 0:
            limited(ask, folder, root / "said" / f"{folder.name} {ask.__name__}")
            os._exit(0)
        os.waitpid(child, 0)
"""


def text(name: str, content: str | bytes) -> Change:
    data = content.encode() if isinstance(content, str) else content
    return lambda folder: (folder / name).write_bytes(data)


def keys(name: str, path: str, value: Any) -> Change:
    """Sets a key, such as "model_cfg.vision_cfg.width", of a JSON file."""

    def change(folder: Path) -> None:
        whole = json.loads((folder / name).read_text())
        *inside, last = path.split(".")
        part = whole
        for key in inside:
            part = part[key]
        part[last] = value
        (folder / name).write_text(json.dumps(whole))

    return change


def tensors(values: Mapping[str, Any], name: str = "model.safetensors") -> Change:
    """Puts tensors, or what a function makes of those there, into a file of weights."""

    def change(folder: Path) -> None:
        path = next(folder.glob(name))
        state: Any = load_file(path) if path.suffix == ".safetensors" else torch.load(path)
        weights = state["model"] if path.suffix == ".tar" else state
        weights |= {k: x(weights[k]) if callable(x) else x for k, x in values.items()}
        if path.suffix == ".safetensors":
            save_file({k: x.clone() for k, x in state.items()}, path)
        else:
            torch.save(state, path)

    return change


def archived(path: str, value: Any) -> Change:
    """Sets a plain value of CXR-CLIP's archive."""

    def change(folder: Path) -> None:
        state = torch.load(folder / "r50_m.tar")
        part, last = path.split(".")
        state["config"][part][last] = value
        torch.save(state, folder / "r50_m.tar")

    return change


def pipe(name: str) -> Change:
    def change(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)

    return change


def link(name: str, target: str) -> Change:
    def change(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(target)

    return change


def listing(line: str, *before: Change) -> Change:
    """Adds a line to the folder's list of digests."""

    def change(folder: Path) -> None:
        for one in before:
            one(folder)
        with (folder / "SHA256SUMS").open("a") as sums:
            sums.write(f"{hashlib.sha256(b'').hexdigest()}  {line}\n")

    return change


def summed(change: Change) -> Change:
    """What changes a folder of cxrtext, and its digests with it."""

    def write(folder: Path) -> None:
        change(folder)
        write_sums(folder, [p.name for p in folder.iterdir() if p.name != "SHA256SUMS"])

    return write


def deflated(folder: Path) -> None:
    """A pickle whose tensor unpacks to 256 MiB."""
    torch.save({"visual.proj": torch.zeros(4)}, folder / "small.zip")
    with (
        zipfile.ZipFile(folder / "small.zip") as old,
        zipfile.ZipFile(folder / "best_64.pt", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as new,
    ):
        for part in old.namelist():
            new.writestr(part, bytes(2**28) if part.endswith("data/0") else old.read(part))
    (folder / "small.zip").unlink()


class Runs:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch ../../canary",)


def nan(tensor: torch.Tensor) -> torch.Tensor:
    return tensor * float("nan")


ONE, TALL = torch.ones(1), torch.ones(200_000, 1)
BLOCKS = "visual.trunk.blocks"
HOSTILE: dict[str, tuple[str, Change, str]] = {
    # --- configurations
    "a type": ("clip", keys("config.json", "vision_config", {"hidden_size": "wide"}), "hidden_"),
    "a size": ("clip", keys("config.json", "text_config.num_hidden_layers", 200), "describes|fit"),
    "a width": ("clip", keys("config.json", "vision_config.hidden_size", 131_072), "describes"),
    "a grid": ("siglip", keys("config.json", "vision_config.image_size", 8192), "patches"),
    "positions": ("siglip", keys("config.json", "text_config.max_position_embeddings", 999), "fit"),
    "depth": ("clip", text("preprocessor_config.json", "[" * 200_000), "not a readable JSON"),
    "length": ("clip", text("preprocessor_config.json", " " * 2**25), "not a readable JSON"),
    "no object": ("biomedclip", text("open_clip_config.json", "[1]"), "not a JSON object"),
    "infinite": ("biomedclip", keys("open_clip_config.json", "preprocess_cfg.std", [1e999]), ""),
    "long": ("biomedclip", keys("open_clip_config.json", "model_cfg.text_cfg.context_length", 41),
             "longest sentence is 41"),
    "archive": ("cxr-clip", archived("base.image_size", 8192), "side of an image is 8192"),
    "plain": ("cxr-clip", archived("base.text_max_length", "many"), "ValueError"),
    "spec": ("checkpoint", summed(keys("config.json", "dimension", 10**9)), "less than or equal"),
    "spec nan": ("checkpoint", summed(keys("config.json", "lam", float("nan"))), "lam: .*finite"),
    "spec text": ("checkpoint", summed(keys("config.json", "text.hidden_size", 16_384)), "shape"),
    "spec list": ("checkpoint", summed(keys("config.json", "text", [])), "config.json: "),
    # --- tensors
    "nan": ("clip", tensors({"text_projection.weight": nan}), "not finite numbers"),
    "own nan": ("checkpoint", summed(tensors({"query.weight": nan})), "not finite numbers"),
    "integers": ("clip", tensors({"visual_projection.weight": torch.ones(9).int()}), "int32"),
    "scale": ("clip", tensors({"logit_scale": torch.tensor(1e9)}), "OverflowError"),
    "shape": ("openai", tensors({"visual.conv1.weight": ONE}, "*.pt"), "not enough values"),
    "layers": ("openai", tensors({"transformer.resblocks.999999999.ln_1.bias": ONE}, "*.pt"),
               "unexpected"),
    "nothing": ("openai", tensors({"positional_embedding": torch.ones(0, 64)}, "*.pt"),
                "not a plain"),
    "expanded": ("openai", tensors({"text_projection": ONE.expand(9**6, 9**6)}, "*.pt"), "claims"),
    "sparse": ("openai", tensors({"visual.proj": torch.eye(9).to_sparse()}, "*.pt"), "not a plain"),
    "no memory": ("openai", tensors({"visual.proj": ONE.to("meta")}, "*.pt"), "not a plain"),
    "quarter": ("clip", tensors({"logit_scale": ONE.to(torch.float8_e5m2)}), "not a plain tensor"),
    "blocks": ("biomedclip", tensors({f"{BLOCKS}.{n}.mlp.fc1.weight": ONE for n in range(2, 300)},
               "*.safetensors"), "num_hidden_layers"),
    "no head": ("biomedclip", tensors({"text.proj.2.weight": ONE}, "*.safetensors"), "ValueError"),
    "square": ("biovil", tensors({"cls_projection_head.dense_to_hidden.weight": TALL}), "not fit"),
    "stages": ("biovil", tensors({"encoder.encoder.layer1.9999999.conv1.weight": ONE}, "*.pt"),
               "unexpected"),
    "prior": ("biovil-t", tensors({"encoder.missing_previous_emb": nan}, "*.pt"), "not finite"),
    # --- files of weights
    "header": ("clip", text("model.safetensors", (2**40).to_bytes(8, "little")), "its header"),
    "cut": ("siglip", lambda f: os.truncate(f / "model.safetensors", 5000), "not readable"),
    "code": ("openai", text("best_64.pt", pickle.dumps({"a": Runs()})), "could run code"),
    "deflated": ("openai", deflated, "unpacks to more"),
    "a pipe": ("openai", pipe("best_64.pt"), "no such file"),
    "a tar pipe": ("cxr-clip", pipe("r50_m.tar"), "not a plain file of weights"),
    "endless": ("biovil", link("model.safetensors", "/dev/zero"), "no model.safetensors"),
    # --- tokenizers
    "pairs": ("clip", keys("tokenizer.json", "model.merges", [["l"]]), ""),
    "ids": ("siglip", keys("tokenizer.json", "model.vocab",
                           [[p, 0.0] for p in ("</s>", "<unk>", *map(str, range(99)))]),
            "word pieces"),
    "scores": ("siglip", keys("tokenizer.json", "model.vocab", [["</s>", []]]), "TypeError"),
    "charsmap": ("siglip", text("spiece.model", b"\x1a\x08\x12\x06" + b"\xff" * 6), ""),
    "words": ("cxr-clip", pipe("vocab.txt"), "no vocab.txt"),
    # --- lists of files
    "list": ("copy", listing("l/../../../canary", link("l", "x")), "not a file inside the folder"),
    "absolute": ("copy", listing("/etc/hostname"), "not a file inside the folder"),
    "linked": ("checkpoint", listing("key", link("key", "../../canary")), "key: is a link"),
    "link above": ("checkpoint", listing("l/canary", link("l", "../..")), "l: is a link"),
    "listed pipe": ("copy", listing("p", pipe("p")), "p: is not a plain file"),
    "list pipe": ("checkpoint", pipe("SHA256SUMS"), "is not a plain file"),
    "note": ("copy", summed(text("cxrtext.json", "[]")), "not a JSON object"),
    "golden": ("copy", summed(tensors({"text": nan}, "golden.safetensors")), "differ by nan"),
    "unlisted": ("copy", text("added_tokens.json", "{}"), "has no digest"),
}  # fmt: skip


def tree(folder: Path) -> dict[str, Any]:
    """All that lies in a folder, as it is; contents of plain files by their digests."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        plain = path.is_file() and not path.is_symlink()
        digest = hashlib.sha256(path.read_bytes()).hexdigest() if plain else None
        found[str(path)] = (status.st_mode, status.st_ino, status.st_mtime_ns, digest)
    return found


@pytest.fixture(scope="module")
def said(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What loading each folder says, by "name api" and "name command"."""
    root, bases = (tmp_path_factory.mktemp(name) for name in ("hostile", "bases"))
    with torch.random.fork_rng():
        for name, write in WRITERS.items():
            if "swin" in name:  # a whole Swin, which the loader takes to be of full size
                continue
            (bases / name).mkdir()
            write(bases / name)
    shutil.copytree(checkpoint, bases / "checkpoint")
    copy_model(bases / "copy", load_model(bases / "clip"))
    (root / "canary").touch()
    (root / "said").mkdir()
    Image.fromarray(np.zeros((64, 64), dtype=np.uint8)).save(root / "image.png")
    for name, (base, change, _) in HOSTILE.items():
        change(shutil.copytree(bases / base, root / "models" / name))
    before = tree(root)
    subprocess.run(
        [sys.executable, "-c", CHILD, root, bases, str(MEMORY), str(SECONDS)], check=True
    )
    answers = {path.name: path.read_text() for path in (root / "said").iterdir()}
    shutil.rmtree(root / "said")
    (root / "said").mkdir()
    after = tree(root)
    answers["written"] = str([x for x in {*before, *after} if before.get(x) != after.get(x)])
    return answers


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_folder_is_refused_in_one_line(said: dict[str, str], name: str) -> None:
    message = said.get(f"{name} api", "killed")
    assert re.search(HOSTILE[name][2] or "models/", message), message
    assert f"models/{name}" in message
    assert "\n" not in message
    command = said.get(f"{name} command", "killed")
    assert re.fullmatch(r"error: [^\n]+\nexit 2", command), command


def test_hostile_folders_write_nothing(said: dict[str, str]) -> None:
    written = json.loads(said["written"].replace("'", '"'))
    assert [path for path in written if not path.endswith("/said")] == []
