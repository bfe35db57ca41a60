from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from cxrtext.config import Config, load_config
from cxrtext.language.pretraining.batches import special_ids
from cxrtext.models import ImageTextModel, load_model
from cxrtext.models.image_text import GAMMA_SQ_CAP
from cxrtext.training.data.batches import (
    Batch,
    Tokens,
    mask_tokens,
    span,
    take,
)
from cxrtext.training.data.loader import Examples
from cxrtext.training.initialization import build_head, build_model, build_optimizer
from cxrtext.training.loop.distributed import Processes
from cxrtext.training.loop.job import train_steps
from cxrtext.training.loop.optimization import (
    TrainingArguments,
    decay_groups,
    lock_towers,
    set_training,
)
from cxrtext.training.objectives.shared.objective import Direction, Terms, as_objective
from cxrtext.training.step import PairLearner, backward, build_learner, pair_job, score_batch
from tests.training.conftest import Counting, Gradients, check_equal, examples_of, still


def built(config: Config, change: Callable[[nn.Module], None] | None = None) -> PairLearner:
    model = build_model(config)
    lock_towers(model, config.training.lock)
    if change:
        change(model)
    head = build_head(config, model)
    optimizer = build_optimizer(model, head, config)
    return build_learner(
        model,
        head,
        optimizer,
        precision=config.training.precision if config.training.precision != "auto" else "float32",
        processes=Processes(),
    )


def examples(count: int = 8) -> Examples:
    pixels = np.random.default_rng(0).integers(0, 255, (count, 72, 72)).astype(np.uint8)
    tokens = [[2, 10 + i % 13, 5 + i, 3][: 3 + i % 2] for i in range(2 * count)]
    return examples_of(tokens, np.arange(2 * count).reshape(count, 2).tolist(), pixels=pixels)


def eight() -> Batch:
    return examples().batch(np.arange(8), np.random.default_rng(0), 2)


def masked(model: ImageTextModel, batch: Batch) -> Batch:
    special, generator = special_ids(model.tokenizer), torch.Generator().manual_seed(0)
    return replace(batch, parts=(mask_tokens(batch.tokens, special, generator),))


def in_parts(batch: Batch, count: int) -> Batch:
    own = sum(len(group.input_ids) for group in batch.tokens)
    parts = [take(batch.tokens, span(own, k, count)) for k in range(count)]
    return replace(batch, parts=tuple(parts))


def noise() -> torch.Tensor:
    return torch.randn(8, 1, 64, 64, generator=torch.Generator().manual_seed(1))


def step(config: Config, learner: PairLearner, arguments: TrainingArguments) -> Gradients:
    """Gradients of one step on noise."""
    batch = masked(learner.model, eight()) if arguments.mlm_weight else eight()
    batch = in_parts(batch, arguments.accumulate)
    set_training(learner.model, arguments.lock)
    learner.optimizer.zero_grad(set_to_none=True)
    backward(learner, as_objective(config.objective), batch, noise(), arguments, step=3)
    named = learner.model.named_parameters()
    return {name: p.grad.clone() for name, p in named if p.grad is not None}


def test_dropout_is_the_same_in_both_passes(options: list[str]) -> None:
    config = load_config(None, options)
    learner = built(config)
    seen: list[torch.Tensor] = []

    class Recording(nn.Module):
        def forward(self, images: torch.Tensor, tokens: list[Tokens]) -> Any:
            out = learner.plain_towers(images, tokens)
            seen.append(out[1].detach())
            return out

    learner.towers = Recording()
    first: list[torch.Tensor] = []
    learner.plain_towers.register_forward_hook(
        lambda _module, _inputs, out: None if torch.is_grad_enabled() else first.append(out[1])
    )
    step(config, learner, TrainingArguments(1, 8, accumulate=2))
    assert len(first) == len(seen) == 2
    assert all(torch.equal(a, b) for a, b in zip(first, seen, strict=True))
    learner.model.eval()
    without = learner.plain_towers(noise(), eight().tokens)[1]
    assert not torch.equal(first[0], without[: len(first[0])])


class SumsInAnyOrder(Counting):
    """Counts the sums that threads of a CPU add to in the order they come in."""

    def name_of(self, function: Any, args: Any) -> str:
        if function.overloadpacket not in (torch.ops.aten.index_put, torch.ops.aten.index_put_):
            return ""
        places = torch.stack([place for place in args[1] if place is not None], 1)
        accumulate = len(args) > 3 and args[3] and args[0].is_floating_point()
        return "sum" if accumulate and len(places.unique(dim=0)) < len(places) else ""


def test_a_step_of_several_threads_can_be_repeated(options: list[str]) -> None:
    config = load_config(None, options)
    learner, batch = built(config), eight()
    batch = replace(batch, text_of=torch.arange(len(batch.text_of)) % 3)
    regions = F.normalize(torch.randn(8, 16, 16), dim=-1).requires_grad_()
    texts = F.normalize(torch.randn(3, 16), dim=-1).requires_grad_()
    with SumsInAnyOrder() as sums:
        scores, _, said = score_batch(learner.model, regions, texts, batch, Processes())
        scores.square().sum().backward()
    assert not sums.found
    assert said.shape == (16, 16)
    assert torch.equal(said[4], texts[1])
    assert texts.grad is not None
    assert texts.grad.any()


def test_a_language_model_loss_in_parts_is_that_of_the_whole(options: list[str]) -> None:
    config = load_config(None, [*options, "training.mlm_weight=0.5", "training.lock=[image]"])
    one, other = (
        step(
            config,
            built(config, still),
            TrainingArguments(1, 8, accumulate=parts, mlm_weight=0.5, lock=("image",)),
        )
        for parts in (1, 4)
    )
    check_equal(one, other, tolerance=1e-5)
    without = step(config, built(config, still), TrainingArguments(1, 8, lock=("image",)))
    name = "text_encoder.backbone.embeddings.word_embeddings.weight"
    assert not torch.allclose(without[name], one[name])


def test_a_language_model_loss_is_the_mean_of_its_masked_pieces(options: list[str]) -> None:
    config = load_config(None, [*options, "training.mlm_weight=0.5"])
    learner = built(config, still)
    name = "text_encoder.backbone.embeddings.word_embeddings.weight"
    whole = masked(learner.model, eight())
    set_training(learner.model, ())
    *_, guesses = learner.plain_towers(noise(), whole.tokens)
    guessed = sum(len(g.masked_at) for g in whole.tokens if g.masked_at is not None)
    assert guessed > 8
    words = dict(learner.model.named_parameters())[name]
    (alone,) = torch.autograd.grad(guesses / guessed, [words])
    both = step(config, learner, TrainingArguments(1, 8, mlm_weight=0.5))[name]
    without = step(config, learner, TrainingArguments(1, 8))[name]
    torch.testing.assert_close(both - without, 0.5 * alone, rtol=1e-3, atol=1e-6)

    objective = as_objective(config.objective)
    chosen = TrainingArguments(1, 8, mlm_weight=0.5)
    terms, measures = backward(learner, objective, whole, noise(), chosen, step=3)
    loss, _, gamma_sq, _, _, mlm = measures.tolist()
    assert mlm == pytest.approx(float(guesses.detach()) / guessed, rel=1e-5)
    losses = float(terms.losses.detach().mean())
    assert loss == pytest.approx(losses + 0.5 * mlm, rel=1e-5)
    assert gamma_sq == pytest.approx(14.0)


def test_spans_divide_in_order_and_are_never_empty() -> None:
    assert [span(7, k, 3) for k in range(3)] == [slice(0, 2), slice(2, 4), slice(4, 7)]
    assert [span(2, k, 3) for k in range(3)] == [slice(0, 1), slice(1, 2), slice(0, 1)]
    groups = [Tokens(torch.arange(n)[:, None], torch.ones(n, 1), (1,) * n) for n in (3, 4)]
    assert [g.input_ids.flatten().tolist() for g in take(groups, slice(2, 5))] == [[2], [0, 1]]


def test_masking_hides_words_and_never_special_pieces(checkpoint: Path) -> None:
    model = load_model(checkpoint)
    encoded = model.tokenize(["Left pleural effusion.", "The lungs are clear."] * 20)
    ids, attention = encoded["input_ids"], encoded["attention_mask"]
    group = Tokens(ids, attention, tuple(attention.sum(dim=1).tolist()))
    (made,) = mask_tokens([group], special_ids(model.tokenizer), torch.Generator().manual_seed(0))
    assert made.masked_at is not None
    assert made.masked_ids is not None
    masked = torch.zeros(ids.numel(), dtype=torch.bool)
    masked[made.masked_at] = True
    masked = masked.view(ids.shape)
    (part,) = take([made], slice(1, 3))
    assert part.masked_at is not None
    assert part.masked_at.tolist() == masked[1:3].flatten().nonzero().flatten().tolist()
    special = torch.isin(group.input_ids, torch.tensor(model.tokenizer.all_special_ids))
    assert not (masked & special).any()
    assert masked.any(dim=1).all()
    assert torch.equal(made.masked_ids[~masked], ids[~masked])
    assert (made.masked_ids[masked] == model.tokenizer.mask_token_id).float().mean() > 0.5


def test_sections_are_drawn_by_weight() -> None:
    weights = np.asarray([1.0, 3.0] * 8, dtype=np.float32)
    made = replace(examples(), weights=weights)
    generator = np.random.default_rng(0)
    drawn = [int(made.draw(0, generator, 1)[0]) for _ in range(2000)]
    assert np.mean(drawn) == pytest.approx(0.75, abs=0.03)
    assert sorted(made.draw(0, generator, 5).tolist()) == [0, 1]


def pushed(learner: PairLearner, *, until: int, steps: int) -> list[float]:
    """γ² before each step of a loss that raises it until a step, and lowers it from there on."""

    def loss(d: Direction) -> Terms:
        sign = -1 if learner.progress.step < until else 1
        return Terms(sign * d.gamma_sq.expand(len(d.scores)) + 0 * d.scores.sum(dim=1))

    arguments = TrainingArguments(steps, 8, lr=0.5, decay="constant", clip=1e6)
    return [r.gamma_sq for r in train_steps(pair_job(learner, examples(), loss, arguments))]


def test_gamma_comes_back_from_its_cap(options: list[str]) -> None:
    config = load_config(None, [*options, "model.gamma_sq=80"])
    learner = built(config)
    seen = pushed(learner, until=4, steps=4)
    assert seen[0] == pytest.approx(80)
    assert seen[1:] == pytest.approx([GAMMA_SQ_CAP] * 3)
    resumed = built(config)
    resumed.load(deepcopy(learner.state()))
    for each in (learner, resumed):
        # AdamW's first moment still points up for a step or two.
        back = pushed(each, until=4, steps=16)
        assert back[0] == pytest.approx(GAMMA_SQ_CAP)
        assert float(each.model.gamma_sq.detach()) < 0.5 * GAMMA_SQ_CAP
    assert torch.equal(learner.model.log_gamma_sq, resumed.model.log_gamma_sq)


def test_findings_are_learned_as_differences_of_their_prompts(options: list[str]) -> None:
    """The loss of a step is the objective's, and .3 times a plain cross-entropy beside it."""
    config = load_config(None, options)
    learner, arguments = built(config), TrainingArguments(1, 8)
    targets = np.random.default_rng(2).integers(-1, 2, (8, 2)).astype(np.int8)
    plain = examples()
    said = [[2, 30, 3], [2, 31, 32, 3], [2, 33, 3], [2, 34, 35, 3]]
    first = len(plain.tokens)
    asking = replace(
        plain,
        tokens=[*plain.tokens, *said],
        prompts=range(first, first + len(said)),
        findings=targets,
    )
    losses = []
    for one in (plain, asking):
        batch = one.batch(np.arange(8), np.random.default_rng(0), 2)
        set_training(learner.model.eval(), ("image", "text"))
        learner.optimizer.zero_grad(set_to_none=True)
        objective = as_objective(config.objective)
        _, numbers = backward(learner, objective, batch, noise(), arguments, step=3)
        losses.append(float(numbers[0]))
    model = learner.model
    with torch.no_grad():
        regions = model.embed_images(noise()).flatten(1, 2)
        texts = torch.cat(
            [model.embed_tokens(torch.tensor([p]), torch.ones(1, len(p))) for p in said]
        )
        scores = (model.gamma_sq * model.scores(regions, texts)).tolist()
    wanted, known = 0.0, 0
    for image in range(8):
        for finding in range(2):
            if (target := targets[image, finding]) >= 0:
                z = scores[2 * finding][image] - scores[2 * finding + 1][image]
                wanted += float(np.log1p(np.exp(-z if target else z)))
                known += 1
    assert losses[1] - losses[0] == pytest.approx(0.3 * wanted / known, rel=1e-3)


def test_matrices_decay_and_biases_do_not() -> None:
    layer = nn.Linear(2, 3)
    groups = decay_groups(list(layer.parameters()), 0.05)
    assert [group["weight_decay"] for group in groups] == [0.05, 0.0]
    assert groups[0]["params"] == [layer.weight]
    assert groups[1]["params"] == [layer.bias]
