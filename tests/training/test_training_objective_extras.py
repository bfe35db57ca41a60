import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cxrtext.config import Config, load_config
from cxrtext.errors import ConfigError, CxrTextError, DataError
from cxrtext.models import ImageTextModel
from cxrtext.records import Sentence, read_manifest, read_sentences
from cxrtext.records.tables import read_table, write_table
from cxrtext.training.data.loader import Examples
from cxrtext.training.initialization import build_model
from cxrtext.training.objectives.shared.objective import as_objective, source_of
from tests.training.conftest import examples_of

Change = Callable[[list[dict[str, Any]]], None]


@pytest.fixture(scope="module")
def model(options_into: Callable[[Path], list[str]]) -> ImageTextModel:
    return build_model(load_config(None, options_into(Path())))


def configuration(folder: Path, sentences: Path, *objective: str) -> Config:
    tables = [f"data.manifest={folder / 'manifest.csv'}", f"data.sentences={sentences}"]
    return load_config(None, [*tables, *(f"objective.{option}" for option in objective)])


@pytest.fixture
def gather(
    data_folder: Path, sentences_table: Path, model: ImageTextModel, tmp_path: Path
) -> Callable[..., Examples]:
    """Training examples that know what an objective asks for.

    They are of a data folder of its own, whose manifest may be changed.
    """
    folder = tmp_path / "set"
    folder.mkdir()
    shutil.copy(data_folder / "labels.csv", folder)

    def run(*options: str, change: Change | None = None) -> Examples:
        rows: list[dict[str, Any]] = [
            {**row, "sex": "FM"[i % 2], "note": ""}
            for i, row in enumerate(read_table(data_folder / "manifest.csv").rows)
        ]
        if change:
            change(rows)
        write_table(folder / "manifest.csv", list(rows[0]), rows)
        config = configuration(folder, sentences_table, *options)
        objective = as_objective(config.objective)
        records = read_manifest(folder / "manifest.csv")
        sentences = read_sentences(sentences_table)
        ask = objective.prepare(source_of(config, records, sentences, model))
        records = [record for record in records if record.split == "train"]
        studies = {record.study_id for record in records}
        said = [s for s in sentences if s.study_id in studies]
        own = [[i for i, s in enumerate(said) if s.study_id == r.study_id] for r in records]
        return examples_of([[2, 3]] * len(said), own, records=records, texts=said, ask=ask)

    return run


def known_of(examples: Examples, rows: Sequence[int]) -> dict[str, Any]:
    return dict(examples.batch(np.array(rows), np.random.default_rng(0)).pairs.known)


def test_labels_beside_the_manifest_all_or_of_chosen_findings(gather: Any) -> None:
    # every third study is clear, the next has an effusion, then pneumothorax
    made = gather("name=remove-by-labels")
    kinds = [int(record.study_id[1:]) % 3 for record in made.records[:9]]
    for chosen, found in (([], (1, 2)), (["findings=[Pneumothorax]"], (2,))):
        same = known_of(gather("name=supervised", *chosen), range(9))["same"]
        assert same.tolist() == [[a == b and a in found for b in kinds] for a in kinds]


def test_an_uncertain_label_is_no_finding_and_one_must_be(gather: Any, tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("study_id,Edema\ns00,1\ns01,-1\ns02,0\ns03,\n")
    made = gather("name=remove-by-labels", f"labels={path}", "findings=[Edema]")
    same = known_of(made, range(4))["same"]
    assert [record.study_id for record in made.records[:4]] == ["s00", "s01", "s02", "s03"]
    assert same.diagonal().tolist() == [True, False, False, False]
    path.write_text("study_id,Edema\ns00,0\nelsewhere,1\n")
    with pytest.raises(DataError, match=r"no training study has a 1 .*\(1 of 28 studies"):
        gather("name=remove-by-labels", f"labels={path}")


def test_similarity_is_that_of_the_language_model_without_its_mean(
    gather: Any,
) -> None:
    made = gather("name=remove-by-text")
    cosines = known_of(made, range(6))["similarity"]
    assert cosines.dtype == torch.float32
    torch.testing.assert_close(cosines.diagonal(), torch.ones(6), atol=2e-3, rtol=0)
    said = [made.texts[int(own[0])].sentence for own in made.sentences[:6]]
    same = torch.tensor([[one == other for other in said] for one in said])
    assert (cosines[same] > 0.99).all()
    assert (cosines[~same] < 0.9).all()  # and above it without the mean taken away


def truth(path: Path, sentences: Path, change: Change | None = None) -> None:
    rows: list[dict[str, Any]] = [
        {**row, "rho": repr(0.01 * (1 + i % 7)), "class": "c"}
        for i, row in enumerate(read_table(sentences).rows)
    ]
    if change:
        change(rows)
    write_table(path, ["study_id", "section", "position", "sentence", "class", "rho"], rows)


def test_true_probabilities_take_the_place_of_the_estimates(
    gather: Any, sentences_table: Path, tmp_path: Path
) -> None:
    truth(tmp_path / "set/truth.csv", sentences_table)
    made = gather("name=dcl-eta-true")
    rows = read_table(sentences_table).rows
    place = {row["study_id"]: i for i, row in enumerate(rows)}  # one sentence a study
    expected = [0.01 * (1 + place[r.study_id] % 7) for r in made.records]
    eta = known_of(made, range(len(made)))["eta"]
    np.testing.assert_allclose(eta, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda rows: rows.pop(0), "no row for study 's00', section findings, position 0"),
        (lambda rows: rows[0].update(sentence="Other."), "row 1: another sentence"),
        (lambda rows: rows[0].update(rho="1.5"), "row 1: rho '1.5' is not a probability"),
    ],
)
def test_a_truth_that_does_not_fit(
    gather: Any, sentences_table: Path, tmp_path: Path, change: Change, says: str
) -> None:
    truth(tmp_path / "truth.csv", sentences_table, change)
    with pytest.raises(DataError, match=says) as caught:
        gather("name=dcl-eta-true", f"true_probability={tmp_path / 'truth.csv'}")
    assert "Other." not in str(caught.value)


def test_metadata_are_standardized_by_the_training_images(gather: Any) -> None:
    made = gather("name=y-aware", "condition=[age,sex]")
    ages = np.array([float(record.metadata["age"]) for record in made.records])
    ages = (ages - ages.mean()) / ages.std()
    sexes = np.array([record.metadata["sex"] for record in made.records])
    expected = np.exp(-((ages[:, None] - ages) ** 2) / 2) * (sexes[:, None] == sexes)
    kernel = known_of(made, range(6))["kernel"]
    np.testing.assert_allclose(kernel, expected[:6, :6], rtol=1e-4)


def test_clusters_are_those_of_the_training_images(gather: Any) -> None:
    chosen = ("name=fair-info-nce", "condition=[age,sex]", "clusters=3")

    def clusters(**change: Change) -> list[int]:
        made = gather(*chosen, **change)
        return list(known_of(made, range(len(made)))["clusters"].tolist())

    assert set(clusters()) == {0, 1, 2}

    def move(rows: list[dict[str, Any]]) -> None:
        next(row for row in rows if row["split"] == "val")["age"] = 4000

    assert clusters(change=move) == clusters()  # a validation image moves no center


def test_equal_values_are_clusters_where_no_number_is_given(gather: Any) -> None:
    made = gather("name=weaksup-info-nce", "condition=sex")
    sexes = [record.metadata["sex"] for record in made.records]
    clusters = known_of(made, range(len(made)))["clusters"]
    assert clusters.tolist() == ["FM".index(sex) for sex in sexes]


def blank(rows: list[dict[str, Any]]) -> None:
    rows[2]["age"] = rows[4]["age"] = ""


@pytest.mark.parametrize(
    ("options", "change", "says"),
    [
        (["name=y-aware", "condition=[weight]"], None, "no column 'weight'.*are: age, sex, note"),
        (["name=y-aware", "condition=[age]"], blank, "row 3: 'age' is empty, as in 2 of 36"),
        (
            ["name=y-aware", "condition=[sex]"],
            lambda rows: [row.update(sex="F") for row in rows],
            "'sex' is the same in all training rows",
        ),
        (
            ["name=fair-info-nce", "condition=[age]"],
            None,
            "age take 36 different values in 36 rows.*set objective.clusters",
        ),
        (["name=fair-info-nce", "condition=[age]", "clusters=29"], None, "29 clusters of 28"),
        (
            ["name=fair-cclk", "condition=[sex]", "kernel=rbf"],
            None,
            "rbf compares numbers, but column 'sex' holds words; take delta",
        ),
        (["name=supervised", "findings=[Oedema]"], None, "column 'Oedema' is missing"),
        (["name=dcl-eta-true"], None, "objective.true_probability: .*no .*set/truth.csv"),
    ],
)
def test_bad_input_is_one_line(
    gather: Any, options: list[str], change: Change | None, says: str
) -> None:
    with pytest.raises(CxrTextError, match=says) as caught:
        gather(*options, change=change)
    assert isinstance(caught.value, (ConfigError, DataError))
    assert "\n" not in str(caught.value)


def test_sentences_that_are_all_the_same_cannot_be_compared(
    model: ImageTextModel, data_folder: Path, sentences_table: Path
) -> None:
    config = configuration(data_folder, sentences_table, "name=reweight-by-text")
    said = [Sentence(f"s{i:02d}", "findings", 0, "Clear.") for i in range(5)]
    source = source_of(config, read_manifest(config.data.manifest), said, model)
    with pytest.raises(DataError, match="all sentences are the same"):
        as_objective(config.objective).prepare(source)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["name=y-aware"], "condition: y-aware needs one or more columns"),
        (["condition=[age]"], "condition: dcl-eta-lm does not take it.* take .* y-aware"),
        (
            ["name=y-aware", "condition=[a,b,c]", "kernel=[rbf,delta]"],
            r"kernel: 2 kernels for 3 column\(s\)",
        ),
        (
            ["name=conditional-alignment-uniformity", "condition=[a]", "kernel=linear"],
            "kernel: linear has no largest value",
        ),
        (["name=hard-negative", "tau_plus=1"], "tau_plus: 1: .*less than 1"),
        (["name=resample-by-text", "keep=63"], "keep: 63 of the 63 negatives .* such as 31"),
        (
            ["name=hardneg-cclk", "kernel={name: delta, sigma: 2}"],
            "sigma: this kernel takes no such",
        ),
    ],
)
def test_keys_that_contradict_each_other_or_are_out_of_range(options: list[str], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        configuration(Path(), Path("s.csv"), *options)
    assert "\n" not in str(caught.value)
