"""``python gradients_of_a_step.py FOLDER``: the gradients of one step of several configurations.

``FOLDER/cases.json`` has ``KEY=VALUE`` settings under the name of each; the gradients go to
``FOLDER/NAME.safetensors``.  Started alone or by the environment of torchrun; the first process
writes.
"""

import json
import sys
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn

from cxrtext.config import Config, load_config
from cxrtext.images.augment import augment
from cxrtext.models import ImageTextModel
from cxrtext.models.regions import standardized
from cxrtext.records import Rejects
from cxrtext.training.data.loader import Examples, Loader
from cxrtext.training.image_text import Tables, gather_examples, look_of, read_tables
from cxrtext.training.initialization import (
    build_head,
    build_model,
    build_optimizer,
    training_arguments,
)
from cxrtext.training.loop.distributed import Processes, connected
from cxrtext.training.loop.optimization import set_training
from cxrtext.training.objectives.shared.objective import as_objective, source_of
from cxrtext.training.step import backward, build_learner

Made = dict[str, tuple[Tables, ImageTextModel, Examples]]
"""Tables, model and examples by what decides them: they serve every objective."""


def prepare(
    config: Config, processes: Processes, made: Made
) -> tuple[Tables, ImageTextModel, Examples]:
    """What a step stands on, all but the objective's."""
    key = f"{config.model} {config.training}"
    if key not in made:
        tables, model = read_tables(config), build_model(config)
        for module in model.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
        examples, _ = processes.in_turn(
            lambda: gather_examples(config, tables, model, Rejects(), look_of(config, model))
        )
        made[key] = tables, model, examples
    tables, model, examples = made[key]
    return tables, deepcopy(model), examples


def gradients(overrides: list[str], processes: Processes, made: Made) -> dict[str, torch.Tensor]:
    """Those of the step 0 of a configuration, without dropout."""
    config = load_config(None, overrides)
    device = torch.device("cpu")
    tables, model, examples = prepare(config, processes, made)
    objective = as_objective(config.objective)
    source = source_of(config, tables.records, tables.sentences, model)
    examples = replace(examples, ask=objective.prepare(source))
    arguments = training_arguments(config, device)
    head = build_head(config, model)
    optimizer = build_optimizer(model, head, config)
    learner = build_learner(model, head, optimizer, precision="float32", processes=processes)
    set_training(model, arguments.lock)
    loader = Loader(model, examples, arguments, (processes.rank, processes.world))
    batch, views = loader.make(0)
    images = augment(batch.images, views, loader.crop)
    images = standardized(images, model.spec.preprocessing)
    terms, _ = backward(learner, objective, batch, images, arguments, step=0)
    learner.average_the_rest()
    tensors = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    tensors["loss"] = terms.losses.detach().mean()
    tensors |= {n: b for n, b in model.named_buffers() if "running" in n}
    return {name: t.contiguous() for name, t in tensors.items()}


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    with connected(torch.device("cpu")) as processes:
        made: Made = {}
        for name, overrides in json.loads((folder / "cases.json").read_text()).items():
            found = gradients(overrides, processes, made)
            if processes.first:
                save_file(found, folder / f"{name}.safetensors")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
