"""Faults that tests must notice: each is put into a copy of the source, and tests must then fail.

They stand in mutants.yaml.  ``pytest -rP tests/test_mutants.py`` prints which test notices each.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A fault: what stands in a file below ``cxrtext``, and what is put in its place."""

    name: str
    path: str
    right: str
    wrong: str
    killers: list[str]


MUTANTS = [
    Mutant(**one)
    for one in yaml.safe_load(Path(__file__).with_name("mutants.yaml").read_text("utf-8"))
]


def copied(folder: Path, mutant: Mutant | None) -> Path:
    """The source in a folder, with a fault; its text must stand there just once."""
    shutil.copytree(
        ROOT / "cxrtext", folder / "cxrtext", ignore=shutil.ignore_patterns("__pycache__")
    )
    if mutant is not None:
        path = folder / "cxrtext" / mutant.path
        text = path.read_text(encoding="utf-8")
        assert text.count(mutant.right) == 1, f"{mutant.path}: {mutant.right!r} not there once"
        path.write_text(text.replace(mutant.right, mutant.wrong), encoding="utf-8")
    return folder


RUN = """
import sys, pytest, cxrtext
assert cxrtext.__file__.startswith(sys.argv[1]), cxrtext.__file__
sys.exit(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-n", "0", *sys.argv[2:]]))
"""


def run_tests(folder: Path, tests: Sequence[str]) -> tuple[int, str]:
    """Run tests on the source in a folder; the exit status of pytest, and what it said."""
    # A folder of its own: pytest removes those of all but the last few runs, at work or not.
    base = f"--basetemp={folder}-of-tests"
    done = subprocess.run(
        [sys.executable, "-P", "-c", RUN, str(folder), base, *(f"tests/{test}" for test in tests)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=900,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_a_fault_is_noticed(mutant: Mutant, tmp_path: Path) -> None:
    status, said = run_tests(copied(tmp_path, mutant), mutant.killers)
    assert status == pytest.ExitCode.TESTS_FAILED, said[-3000:]
    failed = re.search(r"^(FAILED|ERROR) (.*?)( - |$)", said, re.MULTILINE)
    assert failed is not None, said[-3000:]
    print(failed[2])  # noqa: T201


@pytest.mark.slow
def test_without_a_fault_the_same_tests_pass(tmp_path: Path) -> None:
    tests = sorted({test for mutant in MUTANTS for test in mutant.killers})
    status, said = run_tests(copied(tmp_path, None), tests)
    assert status == pytest.ExitCode.OK, said[-3000:]


def test_every_fault_can_be_put_in() -> None:
    for mutant in MUTANTS:
        text = (ROOT / "cxrtext" / mutant.path).read_text(encoding="utf-8")
        assert text.count(mutant.right) == 1, mutant.name
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
