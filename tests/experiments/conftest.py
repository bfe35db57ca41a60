from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from cxrtext.experiments import ExperimentListener, child
from cxrtext.experiments.data.phantoms import draw_images
from cxrtext.experiments.papers import SMALL_EXPERIMENTS
from cxrtext.experiments.processes import Run
from tests.conftest import Once

RunAll = Callable[[Sequence[Run], int, ExperimentListener], dict[tuple[str, int], str]]
STUDIES = SMALL_EXPERIMENTS["weaksup-cclk"].scales["smoke"].studies


@pytest.fixture(scope="session")
def run_here() -> Callable[[list[str]], RunAll]:
    """What trains runs in this process, in place of one each, and notes their names."""

    def noting(trained: list[str]) -> RunAll:
        def run_all(
            runs: Sequence[Run], _parallel: int, _listener: ExperimentListener
        ) -> dict[tuple[str, int], str]:
            waiting = [run for run in runs if not run.is_done()]
            trained.extend(run.name for run in waiting)
            return {run.key: "failed" for run in waiting if child.main([str(run.folder)])}

        return run_all

    return noting


@pytest.fixture(scope="session")
def drawn(once: Once) -> Path:
    """The radiographs of scale smoke, which several experiments draw alike."""

    def draw(folder: Path) -> None:
        assert draw_images(folder / "set", STUDIES, ExperimentListener())["studies"] == STUDIES

    return once("drawn-radiographs", draw) / "set"
