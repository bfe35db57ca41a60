"""How golden runs are made: commands in forks, and the text of a part."""

import atexit
import hashlib
import importlib
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from functools import partial
from pathlib import Path

COMMAND = Path(sys.executable).with_name("cxrtext")
REAL = os.environ.get("CXRTEXT_TEST_DATA", "")
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0",
    "HF_HUB_OFFLINE": "1", "COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1", "TZ": "UTC",
}  # fmt: skip
HEAVY = (
    "torch torch._dynamo torch.optim transformers.models.bert.modeling_bert faiss "
    "transformers.PreTrainedTokenizerFast pyarrow.parquet pydicom pysbd PIL.Image yaml pydantic"
)
"""What most commands import, imported once by the process that they are forked from."""
DIFF_LINES = 60

# ------------------------------------------------------------------ commands


def warm() -> None:
    """Import what takes long, so that no command has to."""
    for name in HEAVY.split():
        try:
            importlib.import_module(name)
        except ImportError:
            module, _, inner = name.rpartition(".")
            getattr(importlib.import_module(module), inner)


def command_line(arguments: Sequence[str]) -> None:
    sys.argv = [str(COMMAND), *arguments]
    runpy.run_path(str(COMMAND), run_name="__main__")


def forked(work: Callable[[], None], folder: Path, given: str) -> tuple[int, str, str]:
    """Do something in a fork of this process; its exit code and what it wrote to 1 and 2."""
    place = Path(tempfile.mkdtemp())
    names = [place / name for name in ("in", "out", "err")]
    for name, content in zip(names, (given, "", ""), strict=True):
        name.write_text(content, "utf-8")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.chdir(folder)
            for number, name in enumerate(names):
                os.dup2(os.open(name, os.O_WRONLY if number else os.O_RDONLY), number)
            sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
            try:
                work()
                code = 0
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else int(end.code is not None)
            except BaseException:  # noqa: BLE001 - what no command should end in
                traceback.print_exc()
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    out, err = (name.read_text("utf-8", "replace") for name in names[1:])
    shutil.rmtree(place)
    return code, out, err


# ------------------------------------------------------------------ what is written down

MASKS = [
    # how far a command has come
    (r"(?m)^[\w ,-]+: \d+/\d+( [\w ]+)?, .*\n|^[\w ,-]+: \d+/\d+ [\w ]+\n|^reading: \d+\n", ""),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?", "TIME"),
    (r"\b[\d.,]+ ?(ms|s|min|h)\b( \d+ (min|s)\b)*", "T"),
    (r'("(?:\w*seconds\w*|waiting|images_per_second|duration_ms)": )[-\d.e]+', r"\1T"),
    (r'("sha256": ")[0-9a-f]{64}', r"\1DIGEST"),  # of the file itself, times and all
    (r"(\| \d+ \| )\d+( \| \d \| (?:[01]\.\d|[aA]))", r"\1T\2"),  # in tables of experiments
    (r"127\.0\.0\.1:\d+", "127.0.0.1:PORT"),
    (r"urn:uuid:[-0-9a-f]{36}|\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "UUID"),
    (r"(tfevents|decoded-\d+)[-.][\w.-]+", r"\1.X"),
    (r"\.[0-9a-z_]{8}\.tmp\b", ".X.tmp"),
]
TEXT = {".csv", ".json", ".jsonl", ".md", ".txt", ".yaml", ".html", ".svg", ""}
VOLATILE = (
    r"tfevents|\.sqlite|\.u8$|/state/|config\.yaml$|log\.txt$|\.lock$|\.partial$|curves\.png$"
    r"|(job|spent|trained|table|experiment)\.json$|stages/|runs/.*/metrics\.json$|table\.md$"
)
"""Files that hold times or random names; their names alone are noted, of /state/ not even those."""


def masked(text: str, folder: Path) -> str:
    for place, word in ((str(folder), "WORK"), (REAL or "\0", "REAL"), (sys.prefix, "PREFIX")):
        text = text.replace(place, word)
    for pattern, instead in MASKS:
        text = re.sub(pattern, instead, text)
    return text


class Part:
    """The text of a part, and the folder that its commands run in, beside ``base``."""

    def __init__(self, name: str, work: Path, pool: ProcessPoolExecutor) -> None:
        self.name, self.work, self.pool = name, work, pool
        self.folder = work / name
        self.text: list[str] = []
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)

    def note(self, title: str, text: str) -> None:
        self.text.append(f"=== {title}\n{masked(text, self.work).strip()}\n")

    def start(self, line: str, given: str = "") -> "Future[tuple[int, str, str]]":
        words = [word.replace("REAL", REAL) for word in shlex.split(line)]
        return self.pool.submit(forked, partial(command_line, words), self.folder, given)

    def __call__(self, *lines: str, given: str = "") -> None:
        """Run commands, at the same time where there are several, and write down what they said."""
        words = [line.strip() for one in lines for line in one.strip().splitlines()]
        words = [line for line in words if REAL or "REAL" not in line]
        for line, done in [(line, self.start(line, given)) for line in words]:
            code, out, err = done.result()
            err = masked(err, self.work)
            said = out.rstrip() + (f"\n--- error output\n{err}" if err else "")
            self.note(f"cxrtext {line} -> {code}", said)

    def forked(self, work: Callable[[], None], title: str) -> None:
        """Do something in a process of its own, and write down what it printed."""
        code, out, err = self.pool.submit(forked, work, self.folder, "").result()
        self.note(f"{title} -> {code}", f"{out}---\n{err}")

    def show(self, *names: str, lines: int | None = None) -> None:
        """Write down text files."""
        for name in names:
            path = self.folder / name
            content = path.read_text("utf-8") if path.exists() else "(not there)"
            self.note(name, "\n".join(content.splitlines()[:lines]))

    def tree(self, *names: str) -> None:
        """Write down the names and digests of the files below folders."""
        for name in names:
            root = self.folder / name
            found = sorted(root.rglob("*")) if root.is_dir() else [root]
            rows = [f"{self.digest(p)}  {p.relative_to(self.folder)}" for p in found if p.is_file()]
            self.note(f"files of {name}", "\n".join(row for row in rows if "/state/" not in row))

    def digest(self, path: Path) -> str:
        name = path.relative_to(self.folder).as_posix()
        if re.search(VOLATILE, name):
            return "-" * 16
        data = path.read_bytes()
        if path.name == "SHA256SUMS":  # some of what it lists holds times; the names are enough
            data = b"".join(line.split()[-1] for line in data.splitlines())
        if name.endswith("boxes.jsonl"):  # a line when a picture is drawn
            data = b"".join(sorted(data.splitlines()))
        if path.suffix in TEXT:
            data = masked(data.decode("utf-8", "replace"), self.work).encode()
        return hashlib.sha256(data).hexdigest()[:16]

    def copy(self, name: str, to: str = "") -> None:
        """Copy a folder of ``base``, to change it."""
        shutil.copytree(self.work / "base" / name, self.folder / (to or name))

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path


def start_command(run: Part, *arguments: str, **more: str) -> "subprocess.Popen[str]":
    words = [str(COMMAND), *arguments]
    return subprocess.Popen(
        words, cwd=run.folder, env={**os.environ, **more}, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
