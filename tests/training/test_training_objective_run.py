import json
from pathlib import Path

import pytest
import torch

from cxrtext.config import OBJECTIVES, load_config
from cxrtext.errors import DataError, WorkError
from cxrtext.models import load_model
from cxrtext.records.tables import read_table, write_table
from cxrtext.training import train

ONE_OF_EACH_NEED = (
    "dcl-eta-true",
    "remove-by-labels",
    "remove-by-report",
    "resample-by-text",
    "weaksup-info-nce",
    "conditional-alignment-uniformity",
    "hardneg-cclk",
)


def keys(name: str, sentences: Path, folder: Path) -> list[str]:
    """What a name needs beside itself, with the data of the tests."""
    given = {"symmetric": "true", "threshold": 0.99, "condition": "age", "clusters": 2, "keep": 3}
    taken = {key: value for key, value in given.items() if key in OBJECTIVES[name].model_fields}
    needed = [f"objective.{key}={value}" for key, value in {"name": name, **taken}.items()]
    if name == "dcl-eta-true":
        rows = [{**row, "rho": "0.05"} for row in read_table(sentences).rows]
        write_table(folder / "truth.csv", ["study_id", "section", "position", "rho"], rows)
        needed += [f"objective.true_probability={folder / 'truth.csv'}"]
    return needed


@pytest.mark.parametrize("name", ONE_OF_EACH_NEED)
def test_what_the_data_must_give_reaches_the_loss(
    options: list[str], name: str, sentences_table: Path, tmp_path: Path
) -> None:
    chosen = [*options, "training.steps=2", *keys(name, sentences_table, tmp_path)]
    config = load_config(None, chosen)
    train(config)
    lines = [json.loads(line) for line in (config.out / "metrics.jsonl").read_text().splitlines()]
    (last,) = (line for line in lines if line["kind"] == "train")
    assert torch.isfinite(torch.tensor([last["loss"], last["grad_norm"]])).all()
    assert last["grad_norm"] > 0


def test_resampled_negatives_are_the_same_after_resuming(options: list[str]) -> None:
    chosen = [*options, "training.steps=6", "training.save_every=3", "training.warmup=0"]
    chosen += ["objective.name=resample-by-text", "objective.keep=2", "objective.beta=3"]
    config = load_config(None, chosen)
    train(config)
    whole = load_model(config.out / "checkpoint").state_dict()
    states = sorted((config.out / "state").glob("*.pt"))
    assert len(states) > 1
    states[-1].unlink()
    train(config, resume=True)
    again = load_model(config.out / "checkpoint").state_dict()
    assert all(torch.equal(whole[name], again[name]) for name in whole)


def test_an_objective_that_fits_no_data_is_refused_before_decoding(
    options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("decoded")

    monkeypatch.setattr("cxrtext.training.data.loader.DecodedCache.fill", refuse)
    wrong = ["objective.name=fair-cclk", "objective.condition=[age,weight]"]
    with pytest.raises(DataError, match="no column 'weight'"):
        train(load_config(None, [*options, *wrong]))


def test_a_step_without_any_negative_stops_the_run(options: list[str]) -> None:
    none = ["objective.name=remove-by-text", "objective.threshold=-1"]
    with pytest.raises(WorkError, match="leaves no anchor of this step a negative"):
        train(load_config(None, [*options, *none]))
