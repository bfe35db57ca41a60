"""The notebooks: their Python runs on a small project, and their commands are there."""

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from cxrtext_cli.main import app

EXAMPLES = Path(__file__).parents[1] / "examples"
EFFUSIONS = {f"images/s{i:02d}.png" for i in range(1, 48, 3)}


def cells(name: str) -> list[str]:
    book = json.loads((EXAMPLES / name).read_text(encoding="utf-8"))
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 4)
    code = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    return ["".join(cell["source"]) for cell in code]


def python(cell: str) -> str:
    return "\n".join(line for line in cell.splitlines() if not line.startswith(("!", "%")))


@pytest.fixture
def run(project_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a notebook; gives its names."""
    import matplotlib as mpl

    mpl.use("Agg")
    monkeypatch.setenv("CXRTEXT_PROJECT", str(project_folder))

    def names_of(name: str) -> dict[str, Any]:
        names: dict[str, Any] = {}
        for cell in cells(name):
            exec(python(cell), names)  # noqa: S102 - ours
        return names

    return names_of


def test_search_and_cohort(run: Any) -> None:
    names = run("search-and-cohort.ipynb")
    hits, labeled, cohort = names["hits"], names["labeled"], names["cohort"]
    assert len(hits) == 10
    assert {hit.image.split for hit in hits} == {"val", "test"}
    assert hits[0].image.image in EFFUSIONS
    assert names["alike"][0].image == hits[0].image
    assert len({hit.image.patient_id for hit in names["alike"]}) == 5
    assert names["said"][0].sentence == "Left pleural effusion."
    assert labeled.num_rows == 48
    kept = labeled.column(names["finding"]).to_pylist()
    assert len(cohort) == sum(one >= names["threshold"] for one in kept) == 5
    likeness = names["likeness"]
    assert likeness.shape == (10, 10)
    assert np.allclose(np.diag(likeness), 1, atol=1e-3)
    names["project"].close()


def test_evidence(run: Any) -> None:
    from matplotlib import pyplot

    names = run("evidence.ipynb")
    assert names["image"].name in EFFUSIONS
    assert len(names["findings"]) == 5
    assert names["own"]["Effusion"].score > 0
    assert names["heatmap"].map.shape == (80, 80)
    assert names["control"].score < names["heatmap"].score
    assert names["control"].image.name not in EFFUSIONS
    assert np.array_equal(names["ax"].images[0].get_array(), names["heatmap"].overlay())
    first, second = names["verified"]
    assert first.score > second.score
    pyplot.close("all")
    names["project"].close()


def test_the_commands_of_a_whole_run_are_there() -> None:
    group: Any = typer.main.get_command(app)
    lines = [line for cell in cells("archive-to-model.ipynb") for line in cell.splitlines()]
    named = []
    for line in lines:
        if line.startswith("!"):
            program, name, *given = shlex.split(line[1:])
            assert program == "cxrtext"
            known = {one for option in group.commands[name].params for one in option.opts}
            assert {one for one in given if one.startswith("--")} <= known
            named.append(name)
    assert named == ["phantom", "fit"]
    for cell in cells("archive-to-model.ipynb"):
        compile(python(cell), "cell", "exec")
