"""``cxrtext demo``: the main job, end to end, on drawn radiographs."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from cxrtext.errors import DataError, WorkError
from cxrtext_cli.given import NEW_FOLDER
from cxrtext_cli.options import say

_CHILD = (
    "import sys, threading; from cxrtext.images.sandbox_worker import end_with; "
    "threading.Thread(target=end_with, args=[int(sys.argv.pop(1))], daemon=True).start(); "
    "from cxrtext_cli import start; start()"
)
"""Runs a command in a process that ends with the one that started it."""


class Stage(NamedTuple):
    """A command, done when the files that it writes last are there.

    Sums are split among threads, so that another number of them trains to other weights: two
    wherever it runs, or one where the models are so small that a second only costs.
    """

    title: str
    words: str
    threads: int
    last: tuple[str, ...]
    state: str = ""  # a folder: where it is there, the command is to go on with ``resume``
    resume: str = ""

    def is_done(self, out: Path) -> bool:
        """Whether there is nothing left to do."""
        return all((out / name).is_file() for name in self.last)

    def command(self, out: Path) -> list[str]:
        """The words after ``cxrtext``."""
        begun = self.state and (out / self.state).is_dir()
        words = f"{self.words} {self.resume if begun else ''}".split()
        return [word.format(out=out) for word in words]


PHANTOMS = Stage(
    "1/5 phantoms", "phantom {out}/data --studies 2500 --size 144 --seed 0", 1, ("data/truth.csv",)
)
LANGUAGE = (
    Stage(
        "2/5 language model, and beside it the image encoder (its progress: {out}/encoder.log)",
        "pretrain-text {out}/data/reports.csv --out {out}/language-model --size demo",
        1,
        ("language-model/model.safetensors",),
    ),
    Stage(
        "    likelihood of every sentence",
        "score-text {out}/data/reports.csv --model {out}/language-model "
        "--out {out}/data/sentences.csv",
        1,
        ("data/sentences.csv", "data/sentences.csv.meta.json"),
    ),
)
ENCODER = Stage(
    "    image encoder",
    "pretrain-image {out}/data/manifest.csv --out {out}/encoder --image resnet-narrow --resize 128 "
    "--crop 112 --cache {out}/decoded",
    1,
    ("encoder/encoder.safetensors", "encoder/pretraining.json"),
    "encoder/state",
    "--resume",
)
"""Needs nothing of the language model, so that each has a core."""
MODEL = "run/checkpoint-best"
"""What validation images chose; the last step's model may be past its best."""
REST = (
    Stage(
        "3/5 training",
        "train {out}/train.yaml",
        2,
        (f"{MODEL}/familiar.safetensors", f"{MODEL}/reference.safetensors"),
        "run/state",
        "--resume {out}/run",
    ),
    Stage(
        "4/5 evaluation on held-out patients",
        f"evaluate {{out}}/{MODEL} --data {{out}}/data --out {{out}}/evaluation "
        "--prompts {out}/prompts.yaml --cache {out}/decoded",
        2,
        ("evaluation/report.html",),
    ),
    Stage(
        "    calibration",
        f"calibrate {{out}}/{MODEL} --data {{out}}/data --prompts {{out}}/prompts.yaml "
        "--cache {out}/decoded",
        2,
        (f"{MODEL}/verdicts.json",),
    ),
    Stage(
        "5/5 index",
        f"index build {{out}}/data/manifest.csv --model {{out}}/{MODEL} --out {{out}}/index "
        "--cache {out}/decoded",
        2,
        ("index/index.json",),
    ),
)


def demo(
    out: Annotated[
        Path, typer.Option(help="Folder to write; a stopped demo goes on in it."), NEW_FOLDER
    ] = Path("demo"),
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the page; 0 takes any free one.")
    ] = 0,
) -> None:
    """Run everything on drawn radiographs, about 5 minutes on two cores, then serve the page.

    Draws images with reports, trains and evaluates the models, builds an index. Stop it at any
    time; the same command goes on where it was. Nothing is written outside of the folder.
    """
    _claim(out)
    make(out)
    from cxrtext_cli.commands.server.service import serve

    say("serving the page and the API; stop with Ctrl-C")
    serve([out / MODEL, out / "index"], port=port)


def make(out: Path) -> None:
    """Run the stages that are not done."""
    with _ending_all() as running:
        _run(PHANTOMS, out, running)
        if not all(stage.is_done(out) for stage in LANGUAGE) and not ENCODER.is_done(out):
            with (out / "encoder.log").open("w") as log:
                running.append(_start(ENCODER, out, log.fileno()))
        for stage in LANGUAGE:
            _run(stage, out, running)
        if running:
            _finish(ENCODER, out, running[-1], out / "encoder.log")
            running.pop()
        for stage in (ENCODER, *REST):
            _run(stage, out, running)


def _claim(out: Path) -> None:
    """Write what is trained, or refuse a folder of something else."""
    from cxrtext.config import template
    from cxrtext.files import write_text

    left = [one.name for one in out.iterdir() if one.name[0] != "."] if out.is_dir() else []
    if left and not (out / "prompts.yaml").is_file():
        raise DataError(f"{out}: holds '{min(left)}' and no demo; name a new folder with --out")
    for name in ("prompts.yaml", "train.yaml"):
        if not (out / name).is_file():
            write_text(out / name, template(f"demo/{name}"))


@contextmanager
def _ending_all() -> Iterator[list["subprocess.Popen[bytes]"]]:
    """Processes that are told to stop, and waited for, where this one leaves early."""
    running: list[subprocess.Popen[bytes]] = []
    try:
        yield running
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait()


def _start(stage: Stage, out: Path, log: int | None = None) -> "subprocess.Popen[bytes]":
    threads = str(stage.threads)
    return subprocess.Popen(  # noqa: S603 - our own interpreter and command
        [sys.executable, "-P", "-c", _CHILD, str(os.getpid()), *stage.command(out)],
        env={**os.environ, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads},
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        # Ctrl-C in a terminal reaches us alone; we tell the others.
        start_new_session=True,
    )


def _run(stage: Stage, out: Path, running: list["subprocess.Popen[bytes]"]) -> None:
    if stage.is_done(out):
        return
    typer.echo(stage.title.format(out=out))
    running.append(_start(stage, out))
    _finish(stage, out, running[-1])
    running.pop()


def _finish(
    stage: Stage, out: Path, process: "subprocess.Popen[bytes]", log: Path | None = None
) -> None:
    """Wait for a command; where it fails this one does, too, with what it said."""
    code = process.wait()
    if code > 0:
        if log:
            say("\n".join(log.read_text(errors="replace").splitlines()[-1:]))
        raise typer.Exit(code)
    if code < 0 or not stage.is_done(out):
        ended = f"was ended by signal {-code}" if code else f"left no {stage.last[-1]}"
        name = stage.words.split()[0]
        raise WorkError(f"{out}: 'cxrtext {name}' {ended}; run the same command again to go on")
