"""Kills a command that writes at random moments, runs it again, and compares with an unbroken run.

``python kill_commands.py JSON``, of the arguments of `kill_often`, prints a line: kills, runs that
came to their end, whether what they wrote is equal to an unbroken run's, and what was left lying
about.  The command runs in a forked child, which has everything imported already: a kill hits its
work and not its start.
"""

import contextlib
import json
import os
import random
import re
import shlex
import shutil
import signal
import sqlite3
import sys
import time
from collections.abc import Sequence
from pathlib import Path

COMMANDS = {
    "phantom": (
        "phantom {out}/p --studies 24 --size 64 --seed 1",
        "p/*.csv p/*.json p/images/* p/SHA256SUMS",
    ),
    "import": ("import {data} --out {out}/d", "d/*.csv d/*.json d/images/* d/SHA256SUMS"),
    "pretrain-text": (
        "pretrain-text {data}/reports.csv --out {out}/m --size demo --epochs 4",
        "m/model.safetensors m/config.json m/vocab.txt",
    ),
    "score-text": (
        "score-text {data}/reports.csv --model {language_model} --out {out}/s/sentences.csv",
        "s/*.csv s/*.json",
    ),
    "train": ("train", "run/checkpoint*/model.safetensors run/checkpoint*/tokenizer.json"),
    "index": (
        "index build {data}/manifest.csv --model {checkpoint} --out {out}/index",
        "index/*.vectors",
    ),
    "evaluate": (
        "evaluate {checkpoint} --data {data} --out {out}/report",
        "report/results.csv",
    ),
    "calibrate": (
        "calibrate {out}/checkpoint --data {data} --keep-reference",
        "checkpoint/calibration.json checkpoint/verdicts.json checkpoint/reference.safetensors "
        "checkpoint/model.safetensors",
    ),
    "classify": (
        "classify {checkpoint} {data}/manifest.csv --out {out}/c/labels.csv",
        "c/*",
    ),
    "ground": (
        "ground {checkpoint} {data}/images/s00.png 'Left pleural effusion.' --out {out}/g/map.png",
        "g/*",
    ),
    "check-data": ("check-data {data} --out {out}/page.html", "*.html"),
}
"""Commands that write, and what they write, to be compared."""
TIMES = rb'"(seconds|resumed|resumed_from_step|from_cache|sha256|checkpoint)": [^,}\n]*,?'


def written(name: str, folder: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for path in (path for pattern in COMMANDS[name][1].split() for path in folder.glob(pattern)):
        if path.is_file():
            content = path.read_bytes()
            if name in ("score-text", "calibrate"):
                content = re.sub(TIMES, b"", content)
            found[str(path.relative_to(folder))] = content
    if name == "index":
        with contextlib.closing(sqlite3.connect(folder / "index/catalogue.sqlite")) as database:
            for table in ("images", "attributes", "said", "sentences", "columns"):
                found[table] = sorted(database.execute(f"SELECT * FROM {table}").fetchall())
    return found


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


def listing(folder: Path) -> set[str]:
    """Every file, a state's digest left out of it."""
    names = (str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())
    plain = (re.sub(r"-[0-9a-f]{16}\.pt$", "-", name) for name in names)
    return {re.sub(r"events\.out.*", "events", name) for name in plain}


def kill_often(
    name: str, work: str, places: dict[str, str], training: Sequence[str], kills: int, seed: int
) -> dict[str, object]:
    """Kill a command so often; ``training`` are the options of "train"."""
    chance = random.Random(seed)
    whole, folder = Path(work, "whole"), Path(work, "killed")

    def fresh(folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        if name == "calibrate":
            shutil.copytree(places["checkpoint"], folder / "checkpoint")

    def started(folder: Path) -> int:
        words = shlex.split(COMMANDS[name][0])
        if name == "train":
            words += [part for option in training for part in ("--set", option)]
            words += ["--resume", "{out}/run"] if (folder / "run/state").is_dir() else []
        return start([word.format(out=folder, **places) for word in words])

    def run(folder: Path) -> None:
        code = os.waitstatus_to_exitcode(os.waitpid(started(folder), 0)[1])
        if code:
            raise RuntimeError(f"{folder}: the command ended with {code}")

    fresh(whole)
    begun = time.monotonic()
    run(whole)
    seconds = time.monotonic() - begun
    expected, names = written(name, whole), listing(whole)
    fresh(folder)
    killed, ended, during = 0, 0, 0
    different: set[str] = set()
    litter: set[str] = set()

    def compare() -> None:
        found = written(name, folder)
        different.update(n for n in {*found, *expected} if found.get(n) != expected.get(n))
        litter.update(listing(folder) - names)

    while killed < kills:
        child = started(folder)
        time.sleep(chance.uniform(0.02, 1.05 * seconds))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)  # its workers
        if os.WIFSIGNALED(status):
            killed += 1
            during += any(".tmp" in name for name in listing(folder))
            continue
        if os.waitstatus_to_exitcode(status):
            raise RuntimeError(f"{folder}: after {killed} kills the command failed")
        ended += 1
        compare()
        fresh(folder)
    run(folder)
    compare()
    return {
        "kills": killed,
        "left half written": during,
        "runs that ended": ended + 1,
        "different": sorted(different),
        "litter": sorted(litter),
    }


if __name__ == "__main__":
    imported()
    print(json.dumps(kill_often(**json.loads(sys.argv[1]))))
