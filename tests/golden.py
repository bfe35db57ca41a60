"""Golden runs: what users see, written down, to compare before and after a change of structure.

    python tests/golden.py record DIR              # with the code as it is
    python tests/golden.py compare DIR             # with the changed code, on the same machine
    python tests/golden.py compare DIR --only train help
    python tests/golden.py compare DIR --keep WORK # keep what the commands wrote, or take it again

Everything is asked by the command line of this environment, over HTTP and by the package's public
names; no module inside is imported.  ``record`` writes a text a part into DIR: each command, what
it said, its exit code, and the digests of what it wrote; and ``old``, files that ``compare`` later
has the changed code read.  It runs all of it again, prints "same" or a diff for each part,
and ends with exit code 1 where something differs.  Times are left out.  All else is exact, so DIR
holds for one machine and one set of installed packages.

CXRTEXT_TEST_DATA names the folder of real data; without it the commands that want it are left out.
"""

import argparse
import difflib
import multiprocessing
import os
import resource
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # this is a script

from tests.goldens import commands, package, refusals, server, sets
from tests.goldens.run import ENVIRONMENT, REAL, Part, say, warm

DIFF_LINES = 60
PARTS: dict[str, Callable[[Part], None]] = {
    "base": commands.base,
    "phantom": commands.phantom,
    "text": commands.text,
    "score": commands.score,
    "evaluate": commands.evaluate,
    "ask": commands.ask,
    "search": commands.search,
    "index": commands.index,
    "sets": sets.sets,
    "http": server.http_api,
    "keys": server.http_keys,
    "page": server.page,
    "package": package.package,
    "help": refusals.help_texts,
    "wrong": refusals.wrong,
    "experiments": commands.experiments,
    "old": commands.old,
    "train": commands.train,
}
"""The parts; the first makes what the others begin with, and the last is the longest."""


def run_parts(
    work: Path, wanted: Sequence[str], before: Path | None, note: Callable[[str, str], None]
) -> None:
    """Run parts, as many commands at a time as there are cores.

    Args:
        work: Folder to work in; what lies there in ``base`` is used again.
        wanted: Names of parts.
        before: Folder of an earlier record, whose ``old`` is read; else that of this one is.
        note: Takes the name and the text of each part when it has ended.
    """
    os.environ.update(ENVIRONMENT)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), spawn, initializer=warm) as pool:

        def run(name: str) -> None:
            part = Part(name, work, pool)
            try:
                PARTS[name](part)
            except Exception:  # noqa: BLE001 - the other parts are still wanted
                part.note("the part broke off", traceback.format_exc())
            note(name, "\n".join(part.text))

        if not (work / "base/done").exists():
            run("base")
            (work / "base/done").touch()
        if "old" in wanted:
            source = before / "old" if before else work / "base"
            shutil.copytree(source, work / "files", dirs_exist_ok=True)
        rest = [name for name in wanted if name != "base"]
        with ThreadPoolExecutor(len(rest) or 1) as threads:
            list(threads.map(run, rest))


def difference(name: str, before: Path, now: str) -> bool:
    """Print how a part differs from its record; whether it does."""
    recorded = before.read_text("utf-8").splitlines() if before.exists() else []
    diff = list(difflib.unified_diff(recorded, now.splitlines(), "before", "now", "", "", 2, ""))
    more = [f"... and {len(diff) - DIFF_LINES} lines more"] if len(diff) > DIFF_LINES else []
    say("\n".join([f"{name}: {'differs' if diff else 'same'}", *diff[:DIFF_LINES], *more]))
    return bool(diff)


def main() -> int:
    """Record or compare."""
    style = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=style)
    parser.add_argument("task", choices=["record", "compare"])
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART")
    parser.add_argument("--keep", type=Path, metavar="WORK")
    given = parser.parse_args()
    differing: list[str] = []

    def keep(name: str, text: str) -> None:
        (given.folder / f"{name}.txt").write_text(text, "utf-8")
        say(f"{name}: recorded")

    def check(name: str, text: str) -> None:
        if difference(name, given.folder / f"{name}.txt", text):
            differing.append(name)

    if not REAL:
        say("CXRTEXT_TEST_DATA is not set: commands on real data are left out")
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        work = (given.keep or Path(place)).resolve()
        if given.task == "compare":
            run_parts(work, given.only, given.folder, check)
        else:
            given.folder.mkdir(parents=True, exist_ok=True)
            run_parts(work, given.only, None, keep)
            shutil.rmtree(given.folder / "old", ignore_errors=True)
            shutil.copytree(work / "base", given.folder / "old")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    say(
        f"{time.monotonic() - began:.0f} s, {used.ru_utime + used.ru_stime:.0f} s of the processor"
        + (f"; differing: {', '.join(differing)}" if differing else "")
    )
    return int(bool(differing))


if __name__ == "__main__":
    sys.exit(main())
