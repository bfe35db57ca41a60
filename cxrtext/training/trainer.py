"""An image–text run: validation, the best checkpoint, and what the run leaves for answers."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from cxrtext.config import Config
from cxrtext.evaluation.data import find_table
from cxrtext.images import Preprocessing
from cxrtext.models import ImageTextModel, load_model, save_checkpoint
from cxrtext.models.familiar import (
    FAMILIAR,
    LOOK,
    MOST_DESCRIBED,
    Familiar,
    Rows,
    know_images,
    know_words,
    looks,
    save_familiar,
)
from cxrtext.models.heads import HEADS, save_heads
from cxrtext.models.reference import (
    REFERENCE,
    Reference,
    choose_reference,
    embed_reference,
    reference_of,
    save_reference,
)
from cxrtext.models.regions import Square, embed_features
from cxrtext.records.report_sources import made_of_labels
from cxrtext.training.data.loader import Examples
from cxrtext.training.data.locked_features import StoredFeatures
from cxrtext.training.heads import fit_heads
from cxrtext.training.loop.folder import MetricsLog
from cxrtext.training.loop.job import StepReport, bytes_of
from cxrtext.training.loop.steps import Listener, Run, take_steps
from cxrtext.training.step import PairJob
from cxrtext.training.validation import ZeroShot, validate

LOOKED_AT_ONCE = 64  # images


def keep_references(
    out: Path, train: Examples, validation: Examples, zero_shot: ZeroShot | None, device: str
) -> None:
    """Add what answers are compared with to checkpoints that do not have it yet.

    These are descriptions of familiar images and words from training and validation; heads for
    findings, if training learned any; and reference images from the validation split, if it has
    any.
    """
    familiar: Familiar | None = None  # for both: the models of a run see the same pixels
    references: dict[str, Reference] = {}  # by fingerprint: the best model may be the last one
    for folder in (out / "checkpoint", out / "checkpoint-best"):
        missing = [name for name in (FAMILIAR, HEADS, REFERENCE) if not (folder / name).is_file()]
        if not missing or not folder.is_dir():
            continue
        model = load_model(folder, device)
        if FAMILIAR in missing:
            familiar = familiar or _familiar(train, validation, model.spec.preprocessing)
            save_familiar(folder, familiar, model.fingerprint)
        if HEADS in missing and (heads := fit_heads(model, train, validation, zero_shot)):
            save_heads(folder, heads, model.fingerprint)
        if REFERENCE in missing and validation.records:
            if model.fingerprint not in references:
                references[model.fingerprint] = _reference(model, validation)
            save_reference(folder, references[model.fingerprint], model.fingerprint)


def _familiar(train: Examples, validation: Examples, preprocessing: Preprocessing) -> Familiar:
    train_looks, val_looks = (_looks(one, preprocessing) for one in (train, validation))
    train_said, val_said = (
        [
            (one.texts[i].study_id, one.texts[i].sentence)
            for i in sorted({int(i) for own in one.sentences for i in own})
        ]
        for one in (train, validation)
    )
    return Familiar(
        know_images(train_looks, val_looks),
        know_words(train_said or val_said, (sentence for _, sentence in val_said)),
    )


def _looks(examples: Examples, preprocessing: Preprocessing) -> Rows:
    """Looks [n, 192] of at most :data:`MOST_DESCRIBED` images, first one from each patient."""
    records = examples.records
    names, patients = [r.name for r in records], [r.patient_id for r in records]
    chosen = choose_reference(names, patients, MOST_DESCRIBED)
    if isinstance(examples.features, StoredFeatures):
        return examples.features.folder.looks(examples.features.places[chosen])
    starts = range(0, len(chosen), LOOKED_AT_ONCE)
    parts = (list(_squares(examples, chosen[i : i + LOOKED_AT_ONCE])) for i in starts)
    described = [looks(np.stack(some), preprocessing) for some in parts]
    return np.concatenate([np.empty((0, LOOK)), *described])


def _reference(model: ImageTextModel, validation: Examples) -> Reference:
    records = validation.records
    chosen = choose_reference([r.name for r in records], [r.patient_id for r in records])
    if isinstance(validation.features, StoredFeatures):
        names = [records[place].name for place in chosen]
        embedded = embed_features(model, validation.features.folder, names)
        return reference_of(part.regions for part in embedded)
    return embed_reference(model, _squares(validation, chosen))


def _squares(examples: Examples, chosen: list[int]) -> Iterator[Square]:
    return (examples.pixels[examples.rows[place]][None] for place in chosen)


@dataclass(slots=True, kw_only=True)
class Trainer(Run):
    """An image–text run; ``val_set`` may be empty, ``validation`` has the last numbers."""

    config: Config
    job: PairJob
    train_set: Examples
    val_set: Examples
    zero_shot: ZeroShot | None
    listener: Listener
    validation: dict[str, float] = field(default_factory=dict)

    def to_the_end(self) -> dict[str, float]:
        """Train to the end and return the last validation's numbers."""
        training, start = self.config.training, self.learner.progress.step
        if self.config.model.init and not start:  # training may not improve on the initial model
            self.validation = self._validate()
            self._compare_with_best(0)
        take_steps(
            self.job,
            self,
            self.listener,
            images=len(self.train_set),
            log_every=training.log_every,
            save_every=training.save_every,
        )
        if self.learner.progress.step == start:
            # Resumed after the last step: the checkpoint may still be missing.
            self.validation = self._validate()
            self.save()
        return self.validation

    def after_step(self, report: StepReport, log: MetricsLog | None) -> None:
        """Validate every ``validate_every`` steps and after the last, and keep the best model."""
        training, step = self.config.training, report.step
        if step % training.validate_every and step != training.steps:
            return
        self.validation = self._validate()
        if self.validation and log:
            log.write("val", step, self.validation)
        self._compare_with_best(step)

    def _validate(self) -> dict[str, float]:
        """Numbers on the validation split; none with fewer than two images."""
        if len(self.val_set) < 2:
            return {}
        learner, job = self.job.learner, self.job
        numbers: dict[str, float] = {}
        if learner.processes.first:
            # As in training: on features while the encoder is locked.
            locked = job.schedule.locked(max(0, learner.progress.step - 1))
            examples = self.val_set if locked else self.val_set.unlocked()
            numbers = validate(learner.model, examples, job.loss, job.schedule, self.zero_shot)
        return learner.processes.gather(numbers)[0]

    def _compare_with_best(self, step: int) -> None:
        best, progress = self.config.training.best, self.learner.progress
        if best == "auto":
            best = "val/auc" if "auc" in self.validation else "val/loss"
        if (name := best.removeprefix("val/")) not in self.validation:
            return
        value = -self.validation[name] if name == "loss" else self.validation[name]
        if progress.best is None or value > progress.best:
            progress.best, progress.best_step = value, step
            self._checkpoint("checkpoint-best")

    def save(self) -> None:
        """Write a state and the model."""
        if self.learner.processes.first:
            super(Trainer, self).save()
            self._checkpoint("checkpoint")

    def _checkpoint(self, name: str) -> None:
        if not self.learner.processes.first:
            return
        training = {
            "configuration": self.config.model_dump(mode="json"),
            "data_fingerprint": self.data,
            "reports": made_of_labels(find_table(self.config.data.manifest.parent, "reports")),
            "studies": len({record.study_id for record in self.train_set.records}),
            "step": self.learner.progress.step,
            "validation": self.validation,
        }
        save_checkpoint(self.out / name, self.job.learner.model, training)

    def model_bytes(self) -> int:
        return bytes_of(self.job.learner.model.state_dict())
