"""A drawn archive and what commands make of it, each once for all tests; read-only by convention.

Tests of this folder know commands, files, HTTP and public Python names, and nothing inside.
"""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

from tests.commands import cxrtext
from tests.conftest import Once
from tests.waiting import until
from tests.warm import Program, Warm

CODE = "from cxrtext_cli import start; start()"
"""What the console script runs."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The project comes first, whose fit takes a minute that others would wait for at the end."""
    items.sort(key=lambda item: item.path.name != "test_border_project.py")


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as handle:
        return list(csv.DictReader(handle))


def answer(*arguments: object, **options: Any) -> Any:
    """The JSON that a command prints."""
    return json.loads(cxrtext(*arguments, "--json", **options).stdout)


def refusal(*arguments: object, code: int = 2, text: bytes = b"") -> str:
    """The one line that a command ends with where its input is wrong."""
    done = cxrtext(*arguments, code=code, text=text)
    assert "Traceback" not in done.stderr
    line = done.stderr.strip().splitlines()[-1]
    assert line.lower().startswith("error: "), done.stderr
    return line


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with its bytes."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(files)}


def flip(path: Path) -> None:
    """Change one bit of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def started(warm: Warm, *arguments: object) -> Program:
    """A command in a process of its own."""
    return warm.start(["-c", CODE, *map(str, arguments)])


def killed_once(warm: Warm, sign: Path, *arguments: object) -> None:
    """Start a command and kill it as soon as a file is there, before it can have ended."""
    with started(warm, *arguments) as program:
        until(lambda: sign.exists() or program.returncode is not None)
        assert program.returncode is None
        program.kill()


@pytest.fixture(scope="session")
def drawn(once: Once) -> Path:
    """A data folder of 72 drawn studies with reports, labels and boxes."""
    return once("border-drawn", draw) / "set"


def draw(folder: Path) -> None:
    options = "--studies", 72, "--size", 64, "--seed", 3
    cxrtext("phantom", folder / "set", *options)


@pytest.fixture(scope="session")
def language_model(drawn: Path, once: Once) -> Path:
    def make(folder: Path) -> None:
        reports = drawn / "reports.csv"
        options = "--size", "demo", "--epochs", 1, "--device", "cpu"
        cxrtext("pretrain-text", reports, "--out", folder / "model", *options)

    return once("border-language", make) / "model"


@pytest.fixture(scope="session")
def sentences(drawn: Path, language_model: Path, once: Once) -> Path:
    """The table of scored sentences of the drawn reports."""

    def make(folder: Path) -> None:
        score(drawn / "reports.csv", language_model, folder / "sentences.csv")

    return once("border-sentences", make) / "sentences.csv"


def score(reports: Path, model: Path, out: Path, *more: object) -> None:
    cxrtext("score-text", reports, "--model", model, "--out", out, "--device", "cpu", *more)


@pytest.fixture(scope="session")
def training(drawn: Path, sentences: Path, language_model: Path) -> list[str]:
    """Settings of a training of seconds, but for its folder."""
    settings = {
        "data.manifest": drawn / "manifest.csv", "data.sentences": sentences, "data.resize": 68,
        "data.crop": 64, "model.image": "resnet-narrow", "model.text": language_model,
        "model.dimension": 16, "training.steps": 40, "training.batch": 8, "training.lr": 2e-3,
        "training.warmup": 4, "training.log_every": 5, "training.validate_every": 10,
        "training.save_every": 10, "training.device": "cpu",
    }  # fmt: skip
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


@pytest.fixture(scope="session")
def run(training: list[str], once: Once) -> Path:
    return once("border-run", lambda folder: cxrtext("train", *training, *out(folder))) / "run"


def out(folder: Path) -> list[str]:
    return ["--set", f"out={folder / 'run'}"]


@pytest.fixture(scope="session")
def checkpoint(run: Path, drawn: Path, once: Once) -> Path:
    """The trained checkpoint, calibrated."""

    def make(folder: Path) -> None:
        (run / "checkpoint").rename(folder / "checkpoint")
        given = folder / "checkpoint", "--data", drawn, "--device", "cpu"
        cxrtext("calibrate", *given)

    return once("border-checkpoint", make) / "checkpoint"


@pytest.fixture(scope="session")
def index(drawn: Path, checkpoint: Path, once: Once) -> Path:
    def make(folder: Path) -> None:
        build(drawn / "manifest.csv", checkpoint, folder / "index")

    return once("border-index", make) / "index"


def build(manifest: Path, model: Path, out: Path) -> None:
    cxrtext("index", "build", manifest, "--model", model, "--out", out, "--device", "cpu")


@pytest.fixture(scope="session")
def film(drawn: Path) -> Path:
    """The image of the manifest's first row."""
    return drawn / rows_of(drawn / "manifest.csv")[0]["image"]


class Served:
    """A server in a process of its own, and how to ask it."""

    def __init__(self, address: str, keys: dict[str, str]) -> None:
        self.keys = keys
        self.http = httpx.Client(base_url=address, timeout=600)

    def __call__(self, method: str, path: str, key: str = "reader", **given: Any) -> httpx.Response:
        bearer = {"Authorization": f"Bearer {self.keys.get(key, key)}"} if key else {}
        headers = {**bearer, **given.pop("headers", {})}
        return self.http.request(method, path, headers=headers, **given)


@pytest.fixture(scope="module")
def served(
    drawn: Path,
    checkpoint: Path,
    warm: Warm,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch_module: pytest.MonkeyPatch,
) -> Iterator[Served]:
    """A server over an index of its own, with a key for each scope."""
    folder = tmp_path_factory.mktemp("served")
    build(drawn / "manifest.csv", checkpoint, folder / "index")
    scopes = {
        "reader": ["read"], "writer": ["read", "write"], "marker": ["read", "mark"],
        "blind": ["metrics"],
    }  # fmt: skip
    keys = {}
    for name, given in scopes.items():
        words = [word for scope in given for word in ("--scope", scope)]
        keys[name] = cxrtext("keys", "add", folder / "keys", name, *words).stdout.split()[-1]
    monkeypatch_module.setenv("CXRTEXT_API_KEYS_FILE", str(folder / "keys"))
    options = "--port", 0, "--uploads", folder / "uploads", "--device", "cpu"
    with started(warm, "serve", folder / "index", *options) as program:
        line = program.stdout.readline()
        assert "http://127.0.0.1:" in line, program.stderr.read()
        ask = Served(line.split()[-1], keys)
        with ask.http:
            until(lambda: ask("GET", "/readyz", "").status_code == 200)
            yield ask
        program.kill()


@pytest.fixture(scope="module")
def monkeypatch_module() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch
