"""A whole training run: from a configuration to a checkpoint."""

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch

from cxrtext.config import Config, with_whole_paths, write_config
from cxrtext.models import ImageTextModel
from cxrtext.records import Rejects
from cxrtext.training.build import (
    build_head,
    build_model,
    build_optimizer,
    build_recipe,
    choose_device,
    load_initial_images,
)
from cxrtext.training.course import Course
from cxrtext.training.distributed import Processes, agreed, connected, local_device
from cxrtext.training.folder import own_folder
from cxrtext.training.initial import centre_projections
from cxrtext.training.listener import Listener
from cxrtext.training.objective import build_objective, gather_extras
from cxrtext.training.pair_learner import PairLearner, build_learner
from cxrtext.training.recipe import Recipe, lock_towers
from cxrtext.training.recompute import recompute_activations
from cxrtext.training.reference import keep_references
from cxrtext.training.setup import (
    Tables,
    check_best,
    check_compiler,
    check_same,
    check_sizes,
    gather_examples,
    plain,
    read_tables,
    zero_shot_of,
)
from cxrtext.training.state import load_newest_state


@dataclass(frozen=True, slots=True)
class TrainSummary:
    """What a run came to.

    Args:
        checkpoint: The folder of the model after the last step.
        steps: Steps done in all.
        images: Training images.
        validation: The last validation's numbers; empty without a validation split.
        rejected: Where the images set aside are listed, or None.
        best: The folder of the model that was best by ``training.best``, or None.
        best_step: After which step that was.
    """

    checkpoint: Path
    steps: int
    images: int
    validation: dict[str, float]
    rejected: Path | None
    best: Path | None = None
    best_step: int = 0


def train(
    config: Config, *, resume: bool = False, listener: Listener | None = None
) -> TrainSummary:
    """Train a model; in several processes where torchrun started them.

    Writes into ``config.out``: ``config.yaml`` (resolved), ``metrics.jsonl``, ``tensorboard/``,
    ``curves.png``, ``cache/`` (decoded images, unless ``data.cache`` names another folder),
    ``state/`` (for resuming), ``checkpoint/`` (the model) and ``checkpoint-best/``.  A run that is
    interrupted (``KeyboardInterrupt``) saves its state before the exception goes on.

    Args:
        config: The configuration.
        resume: Whether to go on from the state in ``config.out``.
        listener: Who hears how it goes.

    Returns:
        What the run came to.

    Raises:
        ConfigError: The folder holds another run, the device is not there, or sizes do not fit.
        DataError: The tables do not fit together, or too many images are bad.
        CheckpointError: The state to resume from is damaged or another run's.
        WorkError: The loss is no longer a number or has diverged, or the disk is full.
    """
    device = choose_device(local_device(config.training.device))
    if device.type == "cuda" and device.index is not None:
        torch.cuda.set_device(device)  # NCCL goes by the current one
    check_compiler(config, device)
    with connected(device) as processes:
        heard = (listener or Listener()) if processes.first else Listener()
        with own_folder(config.out, resume) if processes.first else nullcontext():
            return _train(config, resume, heard, device, processes)


def _train(
    config: Config, resume: bool, listener: Listener, device: torch.device, processes: Processes
) -> TrainSummary:
    check_sizes(config, processes)
    tables = read_tables(config)
    folder = config.out / "state"
    saved = load_newest_state(folder, listener.say) if resume else None
    if saved:
        check_same(saved, config, tables.fingerprint, folder)
    agreed(
        processes, saved["learner"]["progress"]["step"] if saved else 0, "the step to go on from"
    )

    model = build_model(config)
    said = load_initial_images(model, config)
    if said:
        listener.say(said)
    model.to(device)
    extras = gather_extras(config, tables.records, tables.sentences, model, listener.decoding)
    rejects = Rejects(config.data.max_rejected, name="data.max_rejected")
    train_set, val_set = processes.in_turn(
        lambda: gather_examples(config, tables, model, rejects, listener.say, listener.decoding)
    )
    train_set, val_set = extras.attach(train_set), extras.attach(val_set)
    zero_shot = zero_shot_of(config, val_set, listener.say)
    check_best(config, val_set, zero_shot)

    recipe = build_recipe(config, device)
    centre_projections(model, train_set, recipe.seed, recipe.lock)
    learner = _learner(config, model, recipe, processes)
    if saved:
        learner.load(saved["learner"])
    course = Course(
        config=config,
        data=tables.fingerprint,
        learner=learner,
        objective=build_objective(config.objective, extras.kinds),
        recipe=recipe,
        train_set=train_set,
        val_set=val_set,
        zero_shot=zero_shot,
    )
    if processes.first:
        course.require_room_to_start()
        folder.mkdir(parents=True, exist_ok=True)
        write_config(config.out / "config.yaml", plain(with_whole_paths(config)))
    _greet(course, tables, listener)
    validation = course.run(listener)
    if processes.first:
        keep_references(config.out, val_set, str(device))
    return TrainSummary(
        checkpoint=config.out / "checkpoint",
        steps=learner.progress.step,
        images=len(train_set),
        validation=validation,
        rejected=rejects.write(config.out / "images") if processes.first else None,
        best=config.out / "checkpoint-best" if learner.progress.best is not None else None,
        best_step=learner.progress.best_step,
    )


def _learner(
    config: Config, model: ImageTextModel, recipe: Recipe, processes: Processes
) -> PairLearner:
    training = config.training
    model.image_encoder.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    lock_towers(model, recipe.lock)
    if training.checkpointing:
        recompute_activations(model)
    if training.compile:
        model.image_encoder.compile()
        model.text_encoder.compile(dynamic=True)
    head = build_head(config, model)
    if head is not None:
        head.to(model.device)
    return build_learner(
        model,
        head,
        build_optimizer(model, head, config),
        precision=recipe.precision,
        ema=recipe.ema,
        processes=processes,
    )


def _greet(course: Course, tables: Tables, listener: Listener) -> None:
    processes, start = course.learner.processes, course.learner.progress.step
    listener.say(
        f"{len(course.train_set)} training and {len(course.val_set)} validation images with text, "
        f"{len(tables.sentences)} sentences, on {course.learner.model.device}"
        + (f", {processes.world} processes" if processes.world > 1 else "")
        + (f", from step {start}" if start else "")
    )
    if tables.unknown:
        listener.say(
            f"{course.config.data.sentences}: {tables.unknown} sentences are left out: they have "
            "no eta, because the language model knows too few of their words"
        )
