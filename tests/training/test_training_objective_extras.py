import shutil
from collections.abc import Callable, Iterable
from copy import deepcopy
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
from cxrtext.training.losses.loss_data import Extras, gather_extras, objective_files, text_vectors
from cxrtext.training.losses.metadata import kernels_of, read_columns
from cxrtext.training.losses.objective import build_objective
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
) -> Callable[..., tuple[Extras, Config]]:
    """Gather for an objective from a data folder of its own, whose manifest may be changed."""
    folder = tmp_path / "set"
    folder.mkdir()
    shutil.copy(data_folder / "labels.csv", folder)

    def run(*options: str, change: Change | None = None) -> tuple[Extras, Config]:
        rows: list[dict[str, Any]] = [
            {**row, "sex": "FM"[i % 2], "note": ""}
            for i, row in enumerate(read_table(data_folder / "manifest.csv").rows)
        ]
        if change:
            change(rows)
        write_table(folder / "manifest.csv", list(rows[0]), rows)
        config = configuration(folder, sentences_table, *options)
        records = read_manifest(folder / "manifest.csv")
        return gather_extras(config, records, read_sentences(sentences_table), model), config

    return run


def attached(extras: Extras, config: Config) -> Examples:
    records = [r for r in read_manifest(config.data.manifest) if r.split == "train"]
    studies = {record.study_id for record in records}
    sentences = [s for s in read_sentences(config.data.sentences) if s.study_id in studies]
    own = [[i for i, s in enumerate(sentences) if s.study_id == r.study_id] for r in records]
    made = examples_of([[2, 3]] * len(sentences), own, records=records, texts=sentences)
    return extras.attach(made)


def test_an_objective_of_scores_alone_needs_nothing(gather: Any) -> None:
    extras, config = gather("name=dcl-eta-lm")
    assert extras == Extras()
    assert objective_files(config) == []
    batch = attached(extras, config).batch(np.arange(4), np.random.default_rng(0))
    assert batch.pairs.labels is batch.pairs.vectors is batch.pairs.metadata is None


def test_labels_beside_the_manifest_all_or_of_chosen_findings(gather: Any) -> None:
    extras, config = gather("name=remove-by-labels")
    assert objective_files(config) == [config.data.manifest.parent / "labels.csv"]
    made = attached(extras, config)
    batch = made.batch(np.array([3, 0, 1]), np.random.default_rng(0))
    assert batch.pairs.labels is not None
    assert batch.pairs.labels.dtype == torch.bool
    # CheX5 in its order; every third study is clear, the next has an effusion, then pneumothorax
    kinds = {0: [0, 0, 0, 0, 0], 1: [0, 0, 1, 0, 0], 2: [0, 0, 0, 0, 1]}
    expected = [kinds[int(made.records[i].study_id[1:]) % 3] for i in (3, 0, 1)]
    assert batch.pairs.labels.int().tolist() == expected
    labels = attached(*gather("name=supervised", "findings=[Pneumothorax]")).labels
    assert labels is not None
    assert labels.shape[1] == 1
    assert 0 < labels.sum() < len(labels) / 2


def test_an_uncertain_label_is_no_finding_and_one_must_be(gather: Any, tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("study_id,Edema\ns00,1\ns01,-1\ns02,0\ns03,\n")
    extras, _ = gather("name=remove-by-labels", f"labels={path}", "findings=[Edema]")
    found = {study: bool(labels[0]) for study, labels in extras.labels.items()}
    assert found == {"s00": True, "s01": False, "s02": False, "s03": False}
    path.write_text("study_id,Edema\ns00,0\nelsewhere,1\n")
    with pytest.raises(DataError, match=r"no training study has a 1 .*\(1 of 28 studies"):
        gather("name=remove-by-labels", f"labels={path}")


def test_text_vectors_of_the_language_model(gather: Any, model: ImageTextModel) -> None:
    extras, config = gather("name=remove-by-text")
    made = attached(extras, config)
    vectors = made.batch(np.arange(6), np.random.default_rng(0)).pairs.vectors
    assert vectors is not None
    assert vectors.dtype == torch.float32
    torch.testing.assert_close(vectors.norm(dim=1), torch.ones(6), atol=2e-3, rtol=0)
    said = [made.texts[int(own[0])].sentence for own in made.sentences[:6]]
    same = torch.tensor([[one == other for other in said] for one in said])
    cosines = vectors @ vectors.T
    assert (cosines[same] > 0.99).all()
    assert (cosines[~same] < 0.9).all()  # and above it without the mean taken away
    raw = torch.nn.functional.normalize(mean_states(model, extras.vector_of), dim=1)
    assert (raw @ raw.T).min() > 0.0


SAID = ["The lungs are clear.", "Left effusion.", "Right pneumothorax.", "No effusion."]


def mean_states(model: ImageTextModel, said: Iterable[str]) -> torch.Tensor:
    """The mean over the word pieces of each sentence, one at a time."""
    encoder = model.text_encoder.backbone
    return torch.stack(
        [encoder(**model.tokenize([text])).last_hidden_state[0].mean(dim=0) for text in said]
    )


def test_text_vectors_do_not_depend_on_the_batches(model: ImageTextModel) -> None:
    seen: list[tuple[int, int]] = []
    model.train()
    whole = text_vectors(model, SAID, progress=lambda *done: seen.append(done))
    assert model.training
    model.eval()
    parts = text_vectors(model, SAID[::-1], batch=1)[::-1]
    np.testing.assert_allclose(whole.astype(float), parts.astype(float), atol=3e-3)
    assert seen == [(4, 4)]
    states = mean_states(model, SAID)
    expected = torch.nn.functional.normalize(states - states.mean(dim=0), dim=1)
    np.testing.assert_allclose(whole.astype(float), expected.detach().numpy(), atol=3e-3)


def test_what_all_states_share_costs_no_digits(model: ImageTextModel) -> None:
    before = text_vectors(model, SAID)
    moved = deepcopy(model)
    last: Any = moved.text_encoder.backbone.encoder.layer[-1]
    last.output.LayerNorm.bias.data += 50.0
    after = text_vectors(moved, SAID)
    np.testing.assert_allclose(after.astype(float), before.astype(float), atol=3e-3)


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
    extras, config = gather("name=dcl-eta-true")
    made = attached(extras, config)
    rows = read_table(sentences_table).rows
    place = {row["study_id"]: i for i, row in enumerate(rows)}  # one sentence a study
    expected = [0.01 * (1 + place[s.study_id] % 7) for s in made.texts]
    np.testing.assert_allclose(made.eta, expected, rtol=1e-6)


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
    extras, config = gather("name=y-aware", "condition=[age,sex]")
    assert extras.kinds == ("number", "category")
    made = attached(extras, config)
    assert made.metadata is not None
    assert made.metadata[:, 0].mean() == pytest.approx(0, abs=1e-6)
    assert made.metadata[:, 0].std() == pytest.approx(1, abs=1e-6)
    assert set(made.metadata[:, 1]) == {0.0, 1.0}
    batch = made.batch(np.arange(6), np.random.default_rng(0))
    given = build_objective(config.objective, extras.kinds)
    scores = torch.randn(6, 6, requires_grad=True)
    pairs = given.relate(batch.pairs)
    assert torch.isfinite(given(scores, pairs, torch.tensor(14.0), scores).losses).all()


def test_clusters_are_those_of_the_training_images(gather: Any) -> None:
    chosen = ("name=fair-info-nce", "condition=[age,sex]", "clusters=3")
    extras, config = gather(*chosen)
    made = attached(extras, config)
    assert made.metadata is not None
    assert set(made.metadata[:, 0]) == {0.0, 1.0, 2.0}
    assert gather(*chosen)[0].metadata == extras.metadata

    def move(rows: list[dict[str, Any]]) -> None:
        next(row for row in rows if row["split"] == "val")["age"] = 4000

    moved = gather(*chosen, change=move)[0].metadata
    for record in made.records:  # a validation image moves no center
        assert moved[record.name] == extras.metadata[record.name]


def test_equal_values_are_clusters_where_no_number_is_given(gather: Any) -> None:
    extras, config = gather("name=weaksup-info-nce", "condition=sex")
    made = attached(extras, config)
    assert made.metadata is not None
    sexes = [record.metadata["sex"] for record in made.records]
    assert [int(code) for code in made.metadata[:, 0]] == ["FM".index(sex) for sex in sexes]


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
    with pytest.raises(DataError, match="all sentences are the same"):
        gather_extras(config, read_manifest(config.data.manifest), said, model)
    none = configuration(data_folder, sentences_table, "name=remove-by-labels")
    assert gather_extras(none, [], [], model) == Extras()  # left to collect to say


def test_one_kernel_for_all_numbers_together(data_folder: Path) -> None:
    kernels = kernels_of([("laplacian", 2.0)], ["a", "b", "c"], ["number", "category", "number"])
    assert [(k.name, k.sigma, k.columns) for k in kernels] == [
        ("laplacian", 2.0, (0, 2)),
        ("delta", 1.0, (1,)),
    ]
    records = read_manifest(data_folder / "manifest.csv")
    assert read_columns(data_folder / "manifest.csv", records, ["age"]).values.shape == (48, 1)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["name=y-aware"], "condition: y-aware needs one or more columns"),
        (["condition=[age]"], "condition: dcl-eta-lm does not take it.* take y-aware or"),
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
