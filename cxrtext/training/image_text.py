"""A whole training run: from a configuration to a checkpoint."""

import os
import shutil
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from cxrtext.config import Config, with_whole_paths, write_config
from cxrtext.errors import ConfigError
from cxrtext.models import ImageTextModel
from cxrtext.models.image_weights import load_image_weights
from cxrtext.records import Rejects
from cxrtext.training.distributed import Processes, agreed, connected, local_device
from cxrtext.training.folder import own_folder
from cxrtext.training.initialization import (
    build_head,
    build_model,
    build_optimizer,
    center_projections,
    choose_device,
    recompute_activations,
    training_arguments,
)
from cxrtext.training.loss_data import gather_extras
from cxrtext.training.objective import build_objective
from cxrtext.training.optimization import TrainingArguments, lock_towers
from cxrtext.training.resume import check_same, load_newest_state, plain
from cxrtext.training.step import PairLearner, build_learner, pair_job
from cxrtext.training.tables import Tables, gather_examples, read_tables
from cxrtext.training.trainer import Listener, Trainer
from cxrtext.training.validation import check_best, keep_references, zero_shot_of


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
        resume: Whether to resume from the state in ``config.out``.
        listener: Who hears how it goes.

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
    if config.model.image_weights:
        listener.say(load_image_weights(model.image_encoder, config.model.image_weights))
    model.to(device)
    extras = gather_extras(config, tables.records, tables.sentences, model, listener.decoding)
    objective = build_objective(config.objective, extras.kinds)
    rejects = Rejects(config.data.max_rejected, name="data.max_rejected")
    train_set, val_set = (
        replace(extras.attach(examples), relate=objective.relate)
        for examples in processes.in_turn(
            lambda: gather_examples(config, tables, model, rejects, listener.say, listener.decoding)
        )
    )
    zero_shot = zero_shot_of(config, val_set, listener.say)
    check_best(config, val_set, zero_shot)

    arguments = training_arguments(config, device)
    if config.training.center_projections:
        center_projections(model, train_set, arguments.seed, arguments.lock)
    learner = _learner(config, model, arguments, processes)
    if saved:
        learner.load(saved["learner"])
        saved = None  # as large as all that is trained
    trainer = Trainer(
        config=config,
        data=tables.fingerprint,
        job=pair_job(learner, train_set, objective, arguments),
        train_images=len(train_set),
        val_set=val_set,
        zero_shot=zero_shot,
        listener=listener,
    )
    if processes.first:
        trainer.require_room_to_start()
        folder.mkdir(parents=True, exist_ok=True)
        write_config(config.out / "config.yaml", plain(with_whole_paths(config)))
    _greet(trainer, tables)
    validation = trainer.run()
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
    config: Config, model: ImageTextModel, arguments: TrainingArguments, processes: Processes
) -> PairLearner:
    training = config.training
    model.image_encoder.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    lock_towers(model, arguments.lock)
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
        precision=arguments.precision,
        ema=arguments.ema,
        processes=processes,
    )


def _greet(trainer: Trainer, tables: Tables) -> None:
    learner, config = trainer.job.learner, trainer.config
    processes, start = learner.processes, learner.progress.step
    trainer.listener.say(
        f"{trainer.train_images} training and {len(trainer.val_set)} validation images with text, "
        f"{len(tables.sentences)} sentences, on {learner.model.device}"
        + (f", {processes.world} processes" if processes.world > 1 else "")
        + (f", from step {start}" if start else "")
    )
    if tables.unknown:
        trainer.listener.say(
            f"{config.data.sentences}: {tables.unknown} sentences are left out: they have "
            "no eta, because the language model knows too few of their words"
        )


def check_sizes(config: Config, processes: Processes) -> None:
    """Refuse a batch that cannot be divided.

    Raises:
        ConfigError: Naming the numbers.
    """
    training, world = config.training, processes.world
    if training.batch % (world * training.accumulate):
        raise ConfigError(
            f"training.batch: {training.batch} images cannot be divided among {world} process(es) "
            f"in {training.accumulate} part(s) each; give a multiple of "
            f"{world * training.accumulate}"
        )


def check_compiler(config: Config, device: torch.device) -> None:
    """Refuse ``training.compile`` on a CPU without the compiler that torch calls.

    Raises:
        ConfigError: Naming it.
    """
    compiler = os.environ.get("CXX", "g++")
    if config.training.compile and device.type == "cpu" and shutil.which(compiler) is None:
        raise ConfigError(
            f"training.compile needs a C++ compiler, and there is no '{compiler}'; install it, "
            "name another in CXX, or train without compile"
        )
