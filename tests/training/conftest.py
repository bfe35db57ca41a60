import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from cxrtext import objectives
from cxrtext.config import objective_class
from cxrtext.records.tables import read_table, write_table
from cxrtext.training.data.drawn import Drawn
from cxrtext.training.data.loader import Examples
from cxrtext.training.objectives.shared.labels import Labelled
from cxrtext.training.objectives.shared.metadata import Clustered, Kind, WithKernel, gram
from cxrtext.training.objectives.shared.objective import Contrast
from cxrtext.training.objectives.shared.texts import ComparingTexts, similarity_to_images


def metrics(folder: Path, *kinds: str) -> list[dict[str, Any]]:
    """The lines of a run's metrics, of some kinds or of all."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if not kinds or line["kind"] in kinds]


def examples_of(
    tokens: list[list[int]], sentences: Sequence[Sequence[int]], **more: Any
) -> Examples:
    """Black images that have these of the tokenized sentences each, unless more is said of them."""
    return Examples(
        **{
            "pixels": np.zeros((len(sentences), 4, 4), dtype=np.uint8),
            "rows": np.arange(len(sentences)),
            "sentences": [np.asarray(own) for own in sentences],
            "tokens": tokens,
            "eta": np.full(len(tokens), 0.1, dtype=np.float32),
            "pad_id": 0,
            **more,
        }
    )


def still(model: nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0


Gradients = dict[str, Tensor]


def check_equal(
    one: Gradients, other: Gradients, tolerance: float, least: Mapping[str, float] | None = None
) -> None:
    """Equal to a small part of each tensor's largest entry, or of the least that it counts as."""
    assert one.keys() == other.keys()
    for name, expected in one.items():
        if not name.endswith("key.bias"):  # the same for all scores of a softmax: noise alone
            largest = expected.abs().max().clamp((least or {}).get(name, 1e-12))
            worst = float((other[name] - expected).abs().max() / largest)
            assert worst < tolerance, (name, worst)


class Counting(TorchDispatchMode):
    """Counts what torch is asked to do, by the name that a test gives it; "" is not counted."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found: Counter[str] = Counter()

    def name_of(self, function: Any, args: Any) -> str:
        raise NotImplementedError

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if name := self.name_of(function, args):
            self.found[name] += 1
        return function(*args, **(kwargs or {}))


OBJECTIVE_KEYS: dict[str, object] = {
    "symmetric": "true",
    "threshold": 0.99,
    "keep": 3,
    "condition": "age",
    "clusters": 2,
    "weight": 0.5,
}
"""What an objective is given in the tests, where it takes it."""


def objective_options(name: str, sentences: Path, truth: Path) -> list[str]:
    """An objective of a name, with the data of the tests; writes true probabilities if need be."""
    given = {"name": name, **OBJECTIVE_KEYS, "true_probability": truth}
    taken = {
        key: value for key, value in given.items() if key in objective_class(name).model_fields
    }
    if "true_probability" in taken:
        rows = [{**row, "rho": "0.05"} for row in read_table(sentences).rows]
        write_table(truth, ["study_id", "section", "position", "rho"], rows)
    return [f"objective.{key}={value}" for key, value in taken.items()]


@dataclass(frozen=True)
class Facts:
    """Images and sentences, and all that an objective may ask of them."""

    image_of: Tensor
    eta: Tensor
    labels: Tensor = field(default_factory=lambda: torch.zeros(0))
    vectors: Tensor = field(default_factory=lambda: torch.zeros(0))
    true: Tensor = field(default_factory=lambda: torch.zeros(0))
    metadata: Tensor = field(default_factory=lambda: torch.zeros(0))


def known_of(objective: Contrast, facts: Facts) -> dict[str, Any]:
    """What an objective asks for, without tables."""
    own = facts.image_of
    match objective:
        case Labelled():
            return {"same": objectives.same_labels(facts.labels[own], facts.labels)}
        case ComparingTexts():
            images = int(own.max()) + 1
            return {"similarity": similarity_to_images(facts.vectors, own, images)}
        case Clustered():
            return {"clusters": facts.metadata[:, 0].long()}
        case WithKernel():
            kinds: tuple[Kind, ...] = ("number", "category")
            with objective.defined():
                kernel = gram(facts.metadata, objective.compared(kinds[: facts.metadata.shape[1]]))
            return {"kernel": kernel, **objective.check(kernel, own)}
    if objective.name == "dcl-eta-true":
        return {"eta": facts.eta}
    if objective.name.startswith("remove-by"):
        return {"same": facts.true}
    return objective.prepare(None)(Drawn(own, (), (), ()))  # type: ignore[arg-type]
