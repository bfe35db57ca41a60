"""Kills a command that writes at random moments, runs it again, and compares with an unbroken run.

``python kill_commands.py NAME --work DIR --data DIR --checkpoint DIR --language-model DIR
--sentences FILE --kills 25 --seed 0`` prints a line: kills, runs that came to their end, whether
what they wrote is equal to an unbroken run's, and what was left lying about.  The command runs in a
forked child, which has everything imported already: a kill hits its work and not its start.
"""

import argparse
import contextlib
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

Digests = dict[str, object]


@dataclass(frozen=True)
class Command:
    """A command that writes.

    Args:
        arguments: Of the command line, for a folder of its own; the second call is after a kill.
        written: What it wrote there, to be compared: by name, content.
        prepare: Fills the folder before the first run.
    """

    arguments: Callable[[Path, bool], list[str]]
    written: Callable[[Path], Digests]
    prepare: Callable[[Path], object] = lambda _: None


def files(*patterns: str, hide: str = "") -> Callable[[Path], Digests]:
    """Contents of files, less what a pattern matches in them, such as times."""

    def read(folder: Path) -> Digests:
        found: Digests = {}
        for pattern in patterns:
            for path in sorted(folder.glob(pattern)):
                if path.is_file():
                    content = path.read_bytes()
                    found[str(path.relative_to(folder))] = (
                        re.sub(hide.encode(), b"", content) if hide else content
                    )
        return found

    return read


def index_of(folder: Path) -> Digests:
    """Rows of a catalogue's tables, and the vectors."""
    found = files("index/*.vectors")(folder)
    database = sqlite3.connect(folder / "index/catalogue.sqlite")
    for table in ("images", "attributes", "said", "sentences", "columns", "segments"):
        rows = sorted(database.execute(f"SELECT * FROM {table}").fetchall())
        found[table] = [row[-1:] if table == "segments" else row for row in rows]
    database.close()
    found.pop("segments")
    return found


def commands(args: argparse.Namespace) -> dict[str, Command]:
    data, checkpoint = args.data, args.checkpoint
    manifest = data / "manifest.csv"

    def train(folder: Path, again: bool) -> list[str]:
        keys = {
            "data.manifest": manifest,
            "data.sentences": args.sentences,
            "data.resize": 72,
            "data.crop": 64,
            "model.image": "resnet-narrow",
            "model.text": args.language_model,
            "model.dimension": 16,
            "training.steps": 30,
            "training.batch": 8,
            "training.warmup": 4,
            "training.log_every": 5,
            "training.validate_every": 10,
            "training.save_every": 2,
            "training.device": "cpu",
            "out": folder / "run",
        }
        sets = [part for key, value in keys.items() for part in ("--set", f"{key}={value}")]
        resume = again and (folder / "run/state").is_dir()
        return ["train", *sets, *(["--resume", str(folder / "run")] if resume else [])]

    def with_checkpoint(folder: Path) -> None:
        shutil.copytree(checkpoint, folder / "checkpoint")

    def one(*arguments: object) -> Callable[[Path, bool], list[str]]:
        return lambda folder, _: [str(a).replace("OUT", str(folder)) for a in arguments]

    changing = "seconds|resumed|resumed_from_step|from_cache|sha256|checkpoint"
    times = rf'"({changing})": [^,}}\n]*,?'
    image = sorted((data / "images").iterdir())[0]
    return {
        "phantom": Command(
            one("phantom", "OUT/p", "--studies", 24, "--size", 64, "--seed", 1),
            files("p/*.csv", "p/*.json", "p/images/*", "p/SHA256SUMS"),
        ),
        "import": Command(
            one("import", data, "--out", "OUT/d"),
            files("d/*.csv", "d/*.json", "d/images/*", "d/SHA256SUMS"),
        ),
        "pretrain-text": Command(
            one(
                *("pretrain-text", data / "reports.csv", "--out", "OUT/m", "--size", "demo"),
                *("--epochs", 4),
            ),
            files("m/model.safetensors", "m/config.json", "m/vocab.txt"),
        ),
        "score-text": Command(
            one(
                *("score-text", data / "reports.csv", "--model", args.language_model),
                *("--out", "OUT/s/sentences.csv", "--tokens", "OUT/s/tokens.csv"),
            ),
            files("s/*.csv", "s/*.json", hide=times),
        ),
        "train": Command(
            train, files("run/checkpoint*/model.safetensors", "run/checkpoint*/tokenizer.json")
        ),
        "index": Command(
            one("index", "build", manifest, "--model", checkpoint, "--out", "OUT/index"), index_of
        ),
        "evaluate": Command(
            one(
                *("evaluate", checkpoint, "--data", data, "--out", "OUT/report"),
                *("--resamples", 20),
            ),
            files("report/results.csv"),
        ),
        "calibrate": Command(
            one("calibrate", "OUT/checkpoint", "--data", data, "--keep-reference"),
            files(
                "checkpoint/calibration.json",
                "checkpoint/verdicts.json",
                "checkpoint/reference.safetensors",
                "checkpoint/model.safetensors",
                hide=times,
            ),
            with_checkpoint,
        ),
        "classify": Command(
            one("classify", manifest, "--model", checkpoint, "--out", "OUT/c/labels.csv"),
            files("c/*"),
        ),
        "ground": Command(
            one(
                *("ground", image, "Left pleural effusion.", "--model", checkpoint),
                *("--out", "OUT/g/map.png"),
            ),
            files("g/*"),
        ),
        "check-data": Command(
            one("check-data", data, "--out", "OUT/k/page.html", "--cache", "OUT/k/facts.sqlite"),
            files("k/page.html"),
            lambda folder: (folder / "k").mkdir(),
        ),
    }


def imported() -> None:
    """Import what the commands do, so that a forked child begins its work at once."""
    import cxrtext.datasets.checking
    import cxrtext.datasets.importing
    import cxrtext.evaluation.evaluate
    import cxrtext.index
    import cxrtext.language
    import cxrtext.phantom
    import cxrtext.service
    import cxrtext.training  # noqa: F401


def start(arguments: list[str]) -> int:
    """Run a command in a forked child; gives its number."""
    child = os.fork()
    if child:
        return child
    code = 70
    try:
        from cxrtext_cli.main import main

        quiet = os.open(os.devnull, os.O_RDWR)
        os.dup2(quiet, 1)
        os.dup2(quiet, 0)
        os.setpgid(0, 0)
        sys.argv = ["cxrtext", *arguments]
        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    finally:
        os._exit(code)


def listing(folder: Path) -> list[str]:
    """Every file, a state's digest and a cache's random name left out of it."""
    names = (str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())
    plain = (re.sub(r"-[0-9a-f]{16}\.pt$|-[0-9a-f]{8}\.u8$", "-", name) for name in names)
    return sorted({re.sub(r"events\.out.*", "events", name) for name in plain})


def run(command: Command, folder: Path, again: bool) -> None:
    """Run a command to its end."""
    code = os.waitstatus_to_exitcode(os.waitpid(start(command.arguments(folder, again)), 0)[1])
    if code:
        raise RuntimeError(f"{folder}: the command ended with {code}")


def fresh(command: Command, folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    command.prepare(folder)
    return folder


def kill_often(
    command: Command, work: Path, kills: int, chance: random.Random
) -> dict[str, object]:
    whole = fresh(command, work / "whole")
    begun = time.monotonic()
    run(command, whole, again=False)
    seconds = time.monotonic() - begun
    expected, names = command.written(whole), listing(whole)
    folder, again, killed, ended, during = fresh(command, work / "killed"), False, 0, 0, 0
    different: list[str] = []
    litter: set[str] = set()

    def compare() -> None:
        found = command.written(folder)
        different.extend(n for n in {*found, *expected} if found.get(n) != expected.get(n))
        litter.update(set(listing(folder)) - set(names))

    while killed < kills:
        child = start(command.arguments(folder, again))
        time.sleep(chance.uniform(0.02, 1.05 * seconds))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)  # its workers
        again = True
        if os.WIFSIGNALED(status):
            killed += 1
            during += any(".tmp" in name for name in listing(folder))
            continue
        if os.waitstatus_to_exitcode(status):
            raise RuntimeError(f"{folder}: after {killed} kills the command failed")
        ended += 1
        compare()
        fresh(command, folder)
        again = False
    run(command, folder, again)
    compare()
    return {
        "kills": killed,
        "left half written": during,
        "runs that ended": ended + 1,
        "different": sorted(set(different)),
        "litter": sorted(litter),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    for name in ("work", "data", "checkpoint", "language-model", "sentences"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--kills", type=int, default=25)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    imported()
    command = commands(args)[args.name]
    print(json.dumps(kill_often(command, args.work, args.kills, random.Random(args.seed))))


if __name__ == "__main__":
    main()
