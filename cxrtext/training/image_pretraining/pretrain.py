"""A whole pre-training of an image encoder, from a manifest to initial weights."""

import hashlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from cxrtext.device import choose_device, choose_precision
from cxrtext.errors import ConfigError, DataError
from cxrtext.files import sha256, write_json
from cxrtext.images import Preprocessing
from cxrtext.images.cache import DecodedCache
from cxrtext.models.image_encoder import STRIDES
from cxrtext.models.weight_files import save_sealed
from cxrtext.records import ImageRecord, Rejects, read_manifest
from cxrtext.text.finding_words import write_words
from cxrtext.training.image_pretraining.learning import (
    FindingAuc,
    FindingJob,
    ImageSet,
    build_job,
    finding_aucs,
)
from cxrtext.training.image_pretraining.networks import has_layout, start_network, write_backbone
from cxrtext.training.image_pretraining.settings import (
    ImagePretrainSettings,
    Method,
    check_output,
    check_settings,
)
from cxrtext.training.image_pretraining.targets import Targets, targets_of_labels, targets_of_words
from cxrtext.training.loop.folder import MetricsLog, own_folder
from cxrtext.training.loop.job import StepReport
from cxrtext.training.loop.resume import check_same, load_newest_state
from cxrtext.training.loop.steps import Listener, Run, take_steps

KIND = "image-encoder"  # the kind of folder in ``pretraining.json``
ENCODER, WORDS, REPORT = "encoder.safetensors", "words.txt", "pretraining.json"
VALIDATIONS = 4
"""How often a run measures the validation split, at even intervals, the last time at its end."""
MOST_REJECTED = 100  # images that cannot be read before the run stops


@dataclass(frozen=True, slots=True)
class ImagePretrainSummary:
    """The result of a pre-training."""

    encoder: Path  # a file for model.image_weights
    # a folder for cxrtext encode --backbone; None if transformers has no configuration for it
    backbone: Path | None
    method: Method
    findings: list[FindingAuc]  # the learned findings, with the AUC on the validation split
    validation: dict[str, float]  # the last validation's numbers: "loss", "auc"
    images: int  # training images
    validation_images: int
    steps: int
    epochs: int
    rejected: Path | None  # the table of images that could not be read; None without any
    seconds: float  # of this process, with decoding


def pretrain_image(
    manifest: Path,
    out: Path,
    *,
    settings: ImagePretrainSettings | None = None,
    words: Path | None = None,
    labels: Path | None = None,
    cache: Path | None = None,
    resume: bool = False,
    device: str = "auto",
    listener: Listener | None = None,
) -> ImagePretrainSummary:
    """Train an image encoder's network on the training split, or resume the run in a folder.

    It learns the finding words that each study's report affirms, or the findings of a label table.

    Writes into ``out``: ``encoder.safetensors`` for ``model.image_weights``; except for
    ``resnet-narrow``, a folder named like the network for transformers and ``cxrtext encode
    --backbone``; ``words.txt``; ``pretraining.json``, with the AUC of each finding on the
    validation split; ``metrics.jsonl``, ``state/`` and, without ``cache``, ``cache/``.  An
    interrupted run (``KeyboardInterrupt``) saves its state first.

    Args:
        manifest: The images; the split "train" is for training, "val" for measuring.
        words: A file of words that replaces the words found.
        labels: A table of labels to learn instead of words.
        cache: Folder of decoded images, which may be shared with training and others.
    """
    if words and labels:
        raise ConfigError("--words and --labels: give one of them")
    started = time.monotonic()
    heard = listener or Listener()
    place = choose_device(device, training=True)
    chosen = settings or ImagePretrainSettings()
    chosen = replace(chosen, precision=choose_precision(chosen.precision, place))
    check_settings(chosen)
    stride = STRIDES[chosen.image]
    if chosen.crop % stride:
        raise ConfigError(
            f"crop: {chosen.crop} is not a multiple of {stride}, the stride of {chosen.image}; "
            f"{max(1, round(chosen.crop / stride)) * stride} is"
        )
    check_output(out, resume)
    # Wrong weights are refused before images are decoded.
    _, preprocessing = start_network(chosen)
    with own_folder(out, option="--out"):
        records = read_manifest(manifest)
        if labels:
            targets = targets_of_labels(labels, manifest, records)
        else:
            targets = targets_of_words(manifest, records, words)
        heard.say(describe(targets, out))
        own = words is not None and words.resolve() == (out / WORDS).resolve()
        if targets.method == "words" and not (resume or own):
            write_words(out / WORDS, targets.findings)
        saved = load_newest_state(out / "state", heard.say) if resume else None
        rejects = Rejects(MOST_REJECTED)
        known = [record for record in records if record.study_id in targets.of_study]
        splits = {name: [one for one in known if one.split == name] for name in ("train", "val")}
        _check_count(manifest, len(splits["train"]), chosen, targets)
        decoded = DecodedCache(cache or out / "cache", heard.say)
        train, val = (
            _decode(split, targets, preprocessing, decoded, rejects, heard.decoding)
            for split in splits.values()
        )
        _check_count(manifest, len(train), chosen, targets)
        fingerprint = _fingerprint(targets, train, val)
        if saved:
            what = "the images, the words, or what reports or labels say of them"
            check_same(
                saved, chosen.deciding(), fingerprint, out / "state", read=what, option="--out"
            )
        job = build_job(train, targets.findings, chosen, place)
        if saved:
            job.learner.load(saved["learner"])
            saved = None  # frees as much memory as the trained weights take
        run = _Run(
            learner=job.learner,
            out=out,
            configuration=chosen.deciding(),
            data=fingerprint,
            other="--out",
            job=job,
            targets=targets,
            val=val,
        )
        run.to_the_end(heard)
        summary = run.summary(rejects.write(out / "images"), started)
        _write(summary, run)
    return summary


def describe(targets: Targets, out: Path) -> str:
    """What will be learned, for people; of reports it has only finding words."""
    shown = ", ".join(f"{one.name} {one.affirmed}/{one.denied}" for one in targets.findings)
    if targets.method == "labels":
        return (
            f"{len(targets.findings)} findings of {targets.source} in {targets.reports} training "
            f"studies (present/absent): {shown}"
        )
    return (
        f"{len(targets.findings)} words of findings in {targets.reports} training reports "
        f"(affirmed/denied): {shown}\n"
        f"to change them, edit {out / WORDS} (for pretrain-image give it with --words)"
    )


def _check_count(manifest: Path, count: int, settings: ImagePretrainSettings, of: Targets) -> None:
    what = {"words": "a report", "labels": "labels"}[of.method]
    if count < settings.batch:
        smaller = f"give --batch {count} or fewer, or " if count > 1 else ""
        raise DataError(
            f"{manifest}: {count} training images have {what}, fewer than a batch of "
            f"{settings.batch}; {smaller}check the splits, and that the tables use the same "
            "study_id"
        )


def _decode(
    records: Sequence[ImageRecord],
    targets: Targets,
    preprocessing: Preprocessing,
    cache: DecodedCache,
    rejects: Rejects,
    decoding: Callable[[int, int], None],
) -> ImageSet:
    decoded = cache.fill(
        [record.path for record in records],
        preprocessing,
        reject=lambda row, reason: rejects.add(records[row].name, reason),
        progress=decoding,
    )
    usable = np.flatnonzero(decoded.slots >= 0)
    read = [records[int(row)] for row in usable]
    rows = np.zeros((len(read), len(targets.findings)), dtype=np.int8)
    for place, record in enumerate(read):
        rows[place] = targets.of_study[record.study_id]
    return ImageSet(decoded.pixels, decoded.slots[usable], rows, [record.name for record in read])


def _fingerprint(targets: Targets, *splits: ImageSet) -> str:
    """SHA-256 over the names of each split's images and their targets."""
    digest = hashlib.sha256(repr([(one.name, one.forms) for one in targets.findings]).encode())
    for split in splits:
        digest.update(repr(split.names).encode())
        digest.update(split.targets.tobytes())
    return digest.hexdigest()


@dataclass(slots=True, kw_only=True)
class _Run(Run):
    job: FindingJob
    targets: Targets
    val: ImageSet
    validation: dict[str, float] = field(default_factory=dict)
    findings: list[FindingAuc] = field(default_factory=list)

    def to_the_end(self, listener: Listener) -> None:
        job, start = self.job, self.learner.progress.step
        listener.say(
            f"{len(job.images)} training and {len(self.val)} validation images, "
            f"{job.schedule.steps} steps, on {self.learner.device}"
            + (f", from step {start}" if start else "")
        )
        self.require_room_to_start()
        if start < job.schedule.steps:
            take_steps(
                job,
                self,
                listener,
                images=len(job.images),
                log_every=10,
                save_every=job.settings.save_every,
            )
        else:
            self._validate()

    def after_step(self, report: StepReport, log: MetricsLog | None) -> None:
        """Measure the validation split at even intervals and after the last step."""
        steps = self.job.schedule.steps
        if report.step % max(1, math.ceil(steps / VALIDATIONS)) and report.step != steps:
            return
        self._validate()
        if self.validation and log:
            log.write("val", report.step, self.validation)

    def _validate(self) -> None:
        if len(self.val):
            self.validation, self.findings = finding_aucs(self.job, self.val, self.targets.findings)
        else:
            self.findings = [FindingAuc(one, 0, 0, None) for one in self.targets.findings]

    def summary(self, rejected: Path | None, started: float) -> ImagePretrainSummary:
        """The result of the run; ``started`` is a time of the monotonic clock."""
        job = self.job
        return ImagePretrainSummary(
            encoder=self.out / ENCODER,
            backbone=self.out / job.settings.image if has_layout(job.settings) else None,
            method=self.targets.method,
            findings=self.findings,
            validation=self.validation,
            images=len(job.images),
            validation_images=len(self.val),
            steps=job.schedule.steps,
            epochs=job.schedule.steps // (len(job.images) // job.settings.batch),
            rejected=rejected,
            seconds=round(time.monotonic() - started, 1),
        )


def _write(summary: ImagePretrainSummary, run: _Run) -> None:
    settings, targets = run.job.settings, run.targets
    network = run.learner.model.get_submodule("backbone")
    size = run.job.preprocessing
    tensors = {f"backbone.{name}": value for name, value in network.state_dict().items()}
    notes = {"kind": KIND, "image": settings.image, "preprocessing": size.to_dict()}
    save_sealed(summary.encoder, tensors, notes)
    if summary.backbone:
        write_backbone(summary.backbone, network, size)
    write_json(
        run.out / REPORT,
        {
            "kind": KIND,
            "method": summary.method,
            "settings": settings.to_dict(),
            "source_sha256": sha256(targets.source) if targets.source else None,
            "reports_or_labels": targets.reports,
            "images": summary.images,
            "validation_images": summary.validation_images,
            "steps": summary.steps,
            "epochs": summary.epochs,
            "validation": {name: round(value, 4) for name, value in summary.validation.items()},
            "findings": [
                one.row() | {"forms": list(one.finding.forms)} for one in summary.findings
            ],
            "seconds": summary.seconds,
        },
    )
