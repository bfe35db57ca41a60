"""The notebooks run on a small project, and what is stored in them is what their cells show."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.notebooks import EXAMPLES, Output, run_notebook

EFFUSIONS = {f"images/s{i:02d}.png" for i in range(1, 48, 3)}


def stored(name: str) -> Any:
    return json.loads((EXAMPLES / name).read_text(encoding="utf-8"))


def outputs_of(book: dict[str, Any]) -> list[Output]:
    return [output for cell in book["cells"] for output in cell.get("outputs", ())]


def kinds(output: Output) -> object:
    """What an output is, whatever project it is of: MIME types, and a table's first columns."""
    if "data" not in output:
        return output["output_type"]
    plain = output["data"]["text/plain"]
    # of an array its numbers, and the room that they take, differ by project
    named = plain[0].partition("[")[0].split()[:4]
    return sorted(output["data"]), named if len(plain) > 1 else None


@pytest.fixture
def run(project_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], dict[str, Any]]:
    """Runs a notebook, which shows what is stored in it; gives its names."""
    import matplotlib as mpl

    mpl.use("Agg")
    monkeypatch.setenv("CXRTEXT_PROJECT", str(project_folder))

    def names_of(name: str) -> dict[str, Any]:
        path = EXAMPLES / name
        book = stored(name)
        assert (book["nbformat"], book["nbformat_minor"]) == (4, 4)
        assert path.stat().st_size < 300_000
        made, names = run_notebook(path)
        assert list(map(kinds, outputs_of(book))) == list(map(kinds, outputs_of(made)))
        return names

    return names_of


def test_search_and_cohort(run: Callable[[str], dict[str, Any]]) -> None:
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


def test_evidence(run: Callable[[str], dict[str, Any]]) -> None:
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
    assert any("image/png" in one.get("data", ()) for one in outputs_of(stored("evidence.ipynb")))
    pyplot.close("all")
    names["project"].close()
