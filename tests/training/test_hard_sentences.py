"""Hard negatives of sentences: which forms a batch has, what they do to a loss, and whole runs."""

import itertools
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from cxrtext import objectives
from cxrtext.config import OBJECTIVES, ONE_POSITIVE, load_config, read_objective
from cxrtext.errors import ConfigError, DataError
from cxrtext.records import Sentence
from cxrtext.training.data.batches import Batch, Pairs
from cxrtext.training.data.loader import Examples
from cxrtext.training.data.sentences import with_turned_forms
from cxrtext.training.losses.objective import build_objective
from cxrtext.training.step import with_turned
from tests.training.conftest import examples_of
from tests.training.test_training_run import check_stopped_run

REPORTS = [
    ["Left effusion.", "No edema."],
    ["The lungs are clear."],
    ["Right pneumothorax.", "Left effusion.", "The heart is normal."],
]
FORMS = {
    "Left effusion.": {"Right effusion.", "No left effusion."},
    "No edema.": {"Edema."},
    "Right pneumothorax.": {"Left pneumothorax.", "No right pneumothorax."},
}
WORDS: dict[str, int] = {}


def pieces(texts: list[str]) -> list[list[int]]:
    return [[2, *(WORDS.setdefault(w, 10 + len(WORDS)) for w in t.split()), 3] for t in texts]


def text_of(ids: list[int]) -> str:
    words = {number: word for word, number in WORDS.items()}
    return " ".join(words[i] for i in ids if i in words)


def said_in(batch: Batch) -> list[str]:
    """The sentences of a batch, and the turned forms behind them."""
    ids = [row[row > 0].tolist() for group in batch.tokens for row in group.input_ids]
    return [text_of(ids[int(i)]) for i in batch.text_of]


@pytest.fixture
def examples() -> Examples:
    texts = [
        Sentence(f"s{study}", "findings", place, sentence)
        for study, report in enumerate(REPORTS)
        for place, sentence in enumerate(report)
    ]
    ends = np.cumsum([0, *map(len, REPORTS)])
    own = [range(a, b) for a, b in itertools.pairwise(ends)]
    return examples_of(pieces([one.sentence for one in texts]), own, texts=texts)


def test_a_batch_has_a_form_of_one_sentence_of_each_image(examples: Examples) -> None:
    hard = with_turned_forms(examples, ["mirrored", "denied"], pieces)
    seen: dict[str, set[str]] = {}
    for seed in range(20):
        batch = hard.batch(np.arange(3), np.random.default_rng(seed), sentences=3)
        said = said_in(batch)
        assert batch.distinct == len({*said})
        assert batch.pairs.turned is not None
        anchors = batch.pairs.turned.tolist()
        assert batch.pairs.image_of[anchors].tolist() in ([0, 2], [2, 0])
        assert anchors == sorted(anchors)
        for row, form in zip(anchors, said[6:], strict=True):
            seen.setdefault(said[row], set()).add(form)
    assert seen == FORMS


def test_the_sentences_of_a_batch_are_those_without_forms_and_some_must_have_one(
    examples: Examples,
) -> None:
    hard = with_turned_forms(examples, ["denied"], pieces)
    for seed in range(5):
        one, other = (
            of.batch(np.arange(3), np.random.default_rng(seed), sentences=1)
            for of in (examples, hard)
        )
        assert torch.equal(one.pairs.image_of, other.pairs.image_of)
        assert said_in(one) == said_in(other)[:3]
    clear = [replace(one, sentence="The lungs are clear.") for one in examples.texts]
    plain = replace(examples, texts=clear)
    with pytest.raises(DataError, match="none of the 6 training sentences has a form that is mir"):
        with_turned_forms(plain, ["mirrored"], pieces)


IMAGE_OF = torch.tensor([0, 1, 2, 3, 0, 2])


def drawn(seed: int = 0) -> tuple[torch.Tensor, Pairs, torch.Tensor]:
    """Scores [6 + 3, 4] of six sentences and of the forms of three, pairs, and vectors."""
    generator = torch.Generator().manual_seed(seed)
    scores = (torch.randn(9, 4, generator=generator, dtype=torch.float64) * 3).requires_grad_()
    pairs = Pairs(
        image_of=IMAGE_OF,
        eta=torch.tensor([0.01, 0.1, 0.05, 0.02, 0.03, 0.2]),
        labels=torch.tensor([[1, 0], [0, 1], [0, 0], [1, 0]], dtype=torch.bool),
        vectors=torch.nn.functional.normalize(torch.randn(6, 5, generator=generator), dim=1),
        true=torch.rand(6, 4, generator=torch.Generator().manual_seed(7)) < 0.4,
        metadata=torch.tensor([[0.0], [0.0], [0.0], [1.0]]),
        turned=torch.tensor([1, 3, 4]),
    )
    return scores, pairs, torch.randn(9, 5, generator=generator)


def section(name: str) -> dict[str, object]:
    given = {"name": name, "keep": 2, "condition": "age"}
    known = {"name", *OBJECTIVES[name].model_fields}
    return {key: value for key, value in given.items() if key in known}


@pytest.mark.parametrize("name", sorted(ONE_POSITIVE))
def test_a_form_is_one_more_candidate(name: str) -> None:
    """Equal to the loss ``−log( p / (p + R + e^{s'}) )``, R from the loss without it."""
    scores, pairs, said = drawn()
    objective = build_objective(read_objective(section(name)))
    pairs = objective.relate(pairs)
    gamma_sq = torch.tensor(14.0)
    generator = torch.Generator().manual_seed(1)
    without = replace(pairs, turned=None)
    plain = objective(scores[:6], without, gamma_sq, said[:6], generator).losses
    taken, with_hard, vectors = with_turned(scores, pairs, said)
    assert (taken.shape, vectors.shape) == ((6, 4), (6, 5))
    found = objective(taken, with_hard, gamma_sq, vectors, generator.manual_seed(1)).losses
    expected, known = plain.tolist(), scores.detach().numpy()
    for row, anchor in enumerate([1, 3, 4]):
        image = int(IMAGE_OF[anchor])
        positive, hard = known[anchor, image], known[6 + row, image]
        rest = math.expm1(expected[anchor])  # R / p
        expected[anchor] = math.log(1 + rest + math.exp(hard - positive))
    assert found.tolist() == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_it_is_info_nce_with_a_column_more_and_so_are_its_gradients() -> None:
    scores, pairs, said = drawn()
    objective = build_objective(read_objective({"name": "info-nce"}))
    given = with_turned(scores, pairs, said)
    found = objective(given[0], given[1], torch.tensor(14.0), given[2]).losses
    column = torch.full((6, 1), -torch.inf, dtype=torch.float64)
    hard = scores[6:].gather(1, IMAGE_OF[pairs.turned][:, None])
    wide = torch.cat([scores[:6], column.index_put((pairs.turned,), hard)], dim=1)
    plain = objectives.info_nce(wide, IMAGE_OF)
    assert found.tolist() == pytest.approx(plain.tolist(), rel=1e-9)
    (one,) = torch.autograd.grad(found.mean(), scores, retain_graph=True)
    (other,) = torch.autograd.grad(plain.mean(), scores)
    assert torch.allclose(one, other, atol=1e-9)
    assert one[6:].count_nonzero() == 3  # of each form its own image alone


def test_the_image_direction_is_as_before() -> None:
    scores, pairs, said = drawn()
    objective = build_objective(read_objective({"name": "info-nce", "symmetric": True}))
    given = with_turned(scores, pairs, said)
    both = objective(given[0], given[1], torch.tensor(14.0), given[2]).losses
    plain = objective(scores[:6], replace(pairs, turned=None), torch.tensor(14.0), said[:6]).losses
    assert torch.equal(both[6:], plain[6:])
    assert not torch.equal(both[:6], plain[:6])


@pytest.mark.parametrize("lock", [[], ["training.lock=[image,text]", "training.unlock=3"]])
def test_a_stopped_run_ends_in_the_same_weights(
    options: list[str], tmp_path: Path, lock: list[str]
) -> None:
    chosen = [*options, "training.steps=6", "training.hard_sentences=[mirrored,denied]", *lock]
    check_stopped_run(chosen, tmp_path, [4])


@pytest.mark.parametrize("name", sorted(OBJECTIVES.keys() - ONE_POSITIVE))
def test_objectives_of_another_form_are_refused(options: list[str], name: str) -> None:
    chosen = [f"objective.{key}={value}" for key, value in section(name).items()]
    says = f"training.hard_sentences: {name} has no sum of negatives that one more could join"
    with pytest.raises(ConfigError, match=says):
        load_config(None, [*options, *chosen, "training.hard_sentences=[mirrored]"])


def test_other_contradictions_are_refused(options: list[str]) -> None:
    hard = [*options, "training.hard_sentences=[denied]"]
    with pytest.raises(ConfigError, match="hard_sentences and mlm_weight do not work together"):
        load_config(None, [*hard, "training.mlm_weight=0.1"])
    with pytest.raises(ConfigError, match="hard_sentences"):
        load_config(None, [*options, "training.hard_sentences=[reversed]"])
