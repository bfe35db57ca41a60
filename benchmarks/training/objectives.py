"""Every objective: its error in float32, its time, and what DCL-eta_LM costs beside InfoNCE.

    python benchmarks/training/objectives.py [--step-ms 900] [--errors 64] [--sizes 64 512]

Errors are the largest relative ones of float32 against the float64 loops of the tests, over random
scores; losses that can be 0 or less are measured against 1 at least.  Times are the least of
several forward and backward passes.  The cost of the correction is a share of a training step: of
one given with ``--step-ms``, or of a narrow ResNet and a compact text encoder timed here.
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

# The loops belong to the tests; a script's own folder is all that Python adds by itself.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from cxrtext import objectives
from cxrtext.models.image_text import ImageTextModel, ModelSpec
from cxrtext.objectives.debiasing import debiased_terms
from cxrtext.objectives.scores import split_rows
from tests.objectives.objective_cases import cases, draw_scores, worst_error

COMPACT = {
    "vocab_size": 2000,
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 512,
    "max_position_embeddings": 128,
}


def print_errors(n: int, seeds: int) -> None:
    """Print the largest relative error of each objective at two scales."""
    scales = (14.0, 200.0)
    print(f"largest relative error of float32, {seeds} draws of {n} x {n} scores")
    print(f"{'objective':26}" + "".join(f"{f'|s| <= {scale:g}':>14}" for scale in scales))
    for name in cases(n, scales[0]):
        worst = [
            max(
                worst_error(cases(n, scale, seed)[name], draw_scores(n, scale, seed))
                for seed in range(seeds)
            )
            for scale in scales
        ]
        print(f"{name:26}" + "".join(f"{error:14.1e}" for error in worst), flush=True)


def least_seconds(function: Callable[[], None], repeat: int) -> float:
    """The least time of several calls, after one to warm up."""
    function()
    times = []
    for _ in range(repeat):
        begun = time.perf_counter()
        function()
        times.append(time.perf_counter() - begun)
    return min(times)


def forward_backward(loss: Callable[[Tensor], Tensor], scores: Tensor) -> Callable[[], None]:
    """One pass and its gradient."""
    leaf = scores.float().requires_grad_()

    def once() -> None:
        leaf.grad = None
        loss(leaf).mean().backward()

    return once


def print_times(sizes: list[int], repeat: int) -> None:
    """Print milliseconds of forward and backward for each objective and size."""
    print("\nmilliseconds, forward and backward")
    print(f"{'objective':26}" + "".join(f"{f'{n} x {n}':>14}" for n in sizes))
    for name in cases(8, 14.0):
        times = []
        for n in sizes:
            case = cases(n, 14.0)[name]
            times.append(least_seconds(forward_backward(case.ours, draw_scores(n, 14.0)), repeat))
        print(f"{name:26}" + "".join(f"{1000 * seconds:14.3f}" for seconds in times), flush=True)


def time_step(batch: int, pixels: int) -> float:
    """Seconds of one training step of small encoders on random images and sentences."""
    model = ImageTextModel(ModelSpec(image="resnet-narrow", text=COMPACT), tokenizer=None)
    model.train()
    images = torch.randn(batch, 1, pixels, pixels).contiguous(memory_format=torch.channels_last)
    ids = torch.randint(5, COMPACT["vocab_size"], (batch, 16))
    mask = torch.ones_like(ids)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        regions = model.embed_images(images).flatten(1, 2)
        scores = model.gamma_sq * model.scores(regions, model.embed_tokens(ids, mask))
        objectives.info_nce(scores).mean().backward()
        optimizer.step()

    return least_seconds(step, 3)


def print_cost(step_seconds: float, batch: int, repeat: int) -> None:
    """Print what DCL-eta_LM and its logged share of floored anchors add to a step."""
    scores = draw_scores(batch, 14.0)
    log_p = -60 * torch.rand(batch)
    gamma_sq = torch.tensor(14.0)

    def logged() -> None:
        rows = split_rows(scores.float(), None)
        debiased_terms(rows, objectives.class_probability(log_p), gamma_sq)[1].float().mean()

    plain = least_seconds(forward_backward(objectives.info_nce, scores), repeat)
    corrected = least_seconds(
        forward_backward(
            lambda s: objectives.debiased(s, objectives.class_probability(log_p), gamma_sq), scores
        ),
        repeat,
    )
    log = least_seconds(logged, repeat)
    print(f"\na training step of {batch} pairs: {1000 * step_seconds:.1f} ms")
    for name, extra in (("DCL-eta_LM over InfoNCE", corrected - plain), ("floored share", log)):
        print(f"{name:26}{1000 * extra:10.3f} ms  {extra / step_seconds:8.3%} of a step")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--errors", type=int, default=64, help="rows of the error table; 0: none")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="+", default=[64, 512])
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--step-ms", type=float, help="time of a training step, if known")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--pixels", type=int, default=128)
    options = parser.parse_args()
    torch.manual_seed(0)
    if options.errors:
        print_errors(options.errors, options.seeds)
    print_times(options.sizes, options.repeat)
    step = options.step_ms / 1000 if options.step_ms else time_step(options.batch, options.pixels)
    print_cost(step, options.batch, 5 * options.repeat)


if __name__ == "__main__":
    main()
