"""A whole training run: from a configuration to a checkpoint."""

import hashlib
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import yaml

from cxrtext.config import Config
from cxrtext.errors import ConfigError
from cxrtext.files import sha256, write_text
from cxrtext.models import ImageTextModel, save_checkpoint
from cxrtext.records import Rejects, read_manifest, read_sentences
from cxrtext.training.build import build_model, choose_device
from cxrtext.training.data import Examples, collect, require_enough
from cxrtext.training.initial import centre_projections
from cxrtext.training.interrupt import StopRequest
from cxrtext.training.loop import Recipe, StepReport, train_steps, validation_loss
from cxrtext.training.metrics_log import MetricsLog
from cxrtext.training.state import load_state, save_state


@dataclass(frozen=True, slots=True)
class Listener:
    """Who hears how a run goes.

    Args:
        say: Takes a line of text.
        decoding: Takes (done, total) while images are decoded.
        step: Takes (report, total) after every step.
    """

    say: Callable[[str], None] = lambda _: None
    decoding: Callable[[int, int], None] = lambda _done, _total: None
    step: Callable[[StepReport, int], None] = lambda _report, _total: None


@dataclass(frozen=True, slots=True)
class TrainSummary:
    """What a run came to.

    Args:
        checkpoint: The folder of the model.
        steps: Steps done in all.
        images: Training images.
        validation: The last validation's numbers; empty without a validation split.
        rejected: Where the images set aside are listed, or None.
    """

    checkpoint: Path
    steps: int
    images: int
    validation: dict[str, float]
    rejected: Path | None


def _recipe(config: Config, device: torch.device) -> Recipe:
    training, objective = config.training, config.objective
    bfloat16 = training.precision == "bfloat16" or (
        training.precision == "auto" and device.type == "cuda" and torch.cuda.is_bf16_supported()
    )
    return Recipe(
        objective=objective.name,
        eta=objective.eta,
        symmetric=objective.symmetric,
        steps=training.steps,
        batch=training.batch,
        sentences=training.sentences,
        lr=training.lr,
        warmup=training.warmup,
        clip=training.clip,
        brightness=training.brightness,
        contrast=training.contrast,
        seed=training.seed,
        bfloat16=bfloat16,
    )


def _data_fingerprint(config: Config) -> str:
    parts = (sha256(config.data.manifest), sha256(config.data.sentences))
    return hashlib.sha256(";".join(parts).encode()).hexdigest()


def _plain(config: Config) -> dict[str, Any]:
    return config.model_dump(mode="json")


def _run_key(config: Config, data: str) -> str:
    """What must be equal for a run to go on: all but its places and how often it logs."""
    plain = _plain(config)
    del plain["out"], plain["data"]["manifest"], plain["data"]["sentences"]
    for name in ("log_every", "validate_every", "save_every", "device"):
        del plain["training"][name]
    return hashlib.sha256(f"{plain};{data}".encode()).hexdigest()


def _examples(
    config: Config, model: ImageTextModel, rejects: Rejects, listener: Listener
) -> tuple[Examples, Examples]:
    records = read_manifest(config.data.manifest, allow_outside=config.data.allow_outside)
    sentences = read_sentences(config.data.sentences)
    if config.data.sections is not None:
        sentences = [s for s in sentences if s.section in config.data.sections]

    def tokenize(texts: list[str]) -> list[list[int]]:
        encoded = model.tokenizer(texts, truncation=True, max_length=model.spec.max_tokens)
        ids: list[list[int]] = encoded["input_ids"]
        return ids

    def of(split: str) -> Examples:
        return collect(
            [record for record in records if record.split == split],
            sentences,
            config.out / "cache" / split,
            model.spec.preprocessing,
            tokenize,
            int(model.tokenizer.pad_token_id),
            rejects,
            threads=os.cpu_count() or 1,
            progress=listener.decoding,
        )

    train = of("train")
    require_enough(train, config.data.manifest, config.data.sentences)
    return train, of("val")


def _optimizer(model: ImageTextModel, config: Config) -> torch.optim.AdamW:
    """AdamW; biases, norms and γ² do not decay."""
    decaying = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    return torch.optim.AdamW(
        [
            {"params": decaying, "weight_decay": config.training.weight_decay},
            {"params": others, "weight_decay": 0.0},
        ],
        lr=config.training.lr,
    )


def train(
    config: Config, *, resume: bool = False, listener: Listener | None = None
) -> TrainSummary:
    """Train a model.

    Writes into ``config.out``: ``config.yaml`` (resolved), ``metrics.jsonl``, ``tensorboard/``,
    ``cache/`` (decoded images), ``state/`` (for resuming) and ``checkpoint/`` (the model).  A run
    that is interrupted (``KeyboardInterrupt``) saves its state before the exception goes on.

    Args:
        config: The configuration.
        resume: Whether to go on from the state in ``config.out``.
        listener: Who hears how it goes.

    Returns:
        What the run came to.

    Raises:
        ConfigError: The folder holds another run, or the device is not there.
        DataError: The tables do not fit together, or too many images are bad.
        CheckpointError: The state to resume from is damaged or another run's.
        WorkError: The loss is no longer a number.
    """
    listener = listener or Listener()
    device = choose_device(config.training.device)
    if not resume and (config.out / "state").exists():
        raise ConfigError(
            f"{config.out}: holds a training run already; go on with it with --resume "
            f"{config.out}, or train into a new folder with --set out=…"
        )
    rejects = Rejects(config.data.max_rejected)
    model = build_model(config)
    train_set, val_set = _examples(config, model, rejects, listener)
    data = _data_fingerprint(config)
    key = _run_key(config, data)
    model.to(device)
    model.image_encoder.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    centre_projections(model, train_set, config.training.seed)
    optimizer = _optimizer(model, config)
    state = config.out / "state"
    start = load_state(state, model, optimizer, key) if resume else 0
    state.mkdir(parents=True, exist_ok=True)
    write_text(config.out / "config.yaml", yaml.safe_dump(_plain(config), sort_keys=False))
    listener.say(
        f"{len(train_set)} training and {len(val_set)} validation images with text, on {device}"
        + (f", from step {start}" if start else "")
    )
    run = _Run(config, model, optimizer, _recipe(config, device), train_set, val_set, key, data)
    validation = run.go(start, listener)
    rejected = rejects.write(config.out / "images")
    return TrainSummary(
        config.out / "checkpoint", config.training.steps, len(train_set), validation, rejected
    )


@dataclass(frozen=True, slots=True)
class _Run:
    """The pieces of a run that is under way."""

    config: Config
    model: ImageTextModel
    optimizer: torch.optim.Optimizer
    recipe: Recipe
    train_set: Examples
    val_set: Examples
    key: str
    data: str

    def go(self, start: int, listener: Listener) -> dict[str, float]:
        """Train to the end, logging, validating and saving on the way."""
        every, total = self.config.training, self.recipe.steps
        done = start
        validation: dict[str, float] = {}
        steps = train_steps(self.model, self.optimizer, self.train_set, self.recipe, start)
        with MetricsLog(self.config.out, start) as log, StopRequest() as stop:
            for report in steps:
                done = report.step
                listener.step(report, total)
                last = done == total
                if done % every.log_every == 0 or last:
                    log.write("train", done, {**asdict(report), "epoch": self.epoch(done)})
                if done % every.validate_every == 0 or last:
                    validation = self.validate()
                    if validation:
                        log.write("val", done, validation)
                if done % every.save_every == 0 or last or stop.requested:
                    self.save(done, validation)
                if stop.requested and not last:
                    raise KeyboardInterrupt
        if done == start:  # resumed after the last step: the checkpoint may still be missing
            validation = self.validate()
            self.save(done, validation)
        return validation

    def epoch(self, step: int) -> float:
        """How often the training images have been seen after ``step`` steps."""
        size = min(self.recipe.batch, len(self.train_set))
        return step / (len(self.train_set) // size)

    def validate(self) -> dict[str, float]:
        """Loss and accuracy on the validation split; empty where it has no pair to tell apart."""
        if len(self.val_set) < 2:
            return {}
        return validation_loss(self.model, self.val_set, self.recipe)

    def save(self, step: int, validation: dict[str, float]) -> None:
        """Write the state and the checkpoint."""
        save_state(self.config.out / "state", step, self.model, self.optimizer, self.key)
        save_checkpoint(
            self.config.out / "checkpoint",
            self.model,
            {
                "configuration": _plain(self.config),
                "data_fingerprint": self.data,
                "step": step,
                "validation": validation,
            },
        )
