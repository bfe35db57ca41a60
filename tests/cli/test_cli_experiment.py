from pathlib import Path

import pytest

from cxrtext.experiments import ExperimentListener, ExperimentOptions, Outcome
from tests.cli.conftest import cxrtext


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ExperimentOptions]]:
    asked: list[tuple[str, ExperimentOptions]] = []

    def run(name: str, options: ExperimentOptions, listener: ExperimentListener) -> Outcome:
        asked.append((name, options))
        listener.progress("training", 1, 2, "steps")
        listener.say("a line")
        failed = ("biovil, seed 0: no memory",) if name == "bad" else ()
        return Outcome("# The page", {"rows": []}, (Path("table.html"),), failed)

    monkeypatch.setattr("cxrtext.experiments.run_experiment", run)
    return asked


def test_the_page_and_where_it_lies(asked: list[tuple[str, ExperimentOptions]]) -> None:
    done = cxrtext(
        "experiment", "table1", "--scale", "smoke", "--rows", "lse-nl, biovil", "--seeds", "3",
        "--out", "here", "--data", "there", "--features", ".",
    )  # fmt: skip
    assert done.stdout == "# The page\n"
    assert "a line" in done.stderr
    assert "written: table.html" in done.stderr
    expected = ExperimentOptions(
        "smoke", Path("here"), Path("there"), Path(), 3, ("lse-nl", "biovil")
    )
    cxrtext("experiment", "table1")
    assert asked == [("table1", expected), ("table1", ExperimentOptions())]


def test_a_failed_row_is_the_exit_code(asked: list[tuple[str, ExperimentOptions]]) -> None:
    done = cxrtext("experiment", "bad", code=1)
    assert done.stdout == "# The page\n"
    assert "failed: biovil, seed 0: no memory" in done.stderr
