"""A whole training run, from a configuration to a checkpoint."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cxrtext.config import Config, with_whole_paths, write_config
from cxrtext.device import choose_device, enough_memory
from cxrtext.errors import ConfigError, CxrTextError, DataError
from cxrtext.evaluation.data import find_table
from cxrtext.images.cache import DecodedCache
from cxrtext.models import ImageTextModel
from cxrtext.models.features.folder import FEATURES, FeatureFolder, open_features
from cxrtext.models.folders import POOLING, TOKENIZER_FILES
from cxrtext.models.image_encoder import ImageEncoder
from cxrtext.models.image_weights import load_image_weights, sample_images, set_norms
from cxrtext.records import (
    ImageRecord,
    Rejects,
    Sentence,
    read_labels,
    read_manifest,
    read_sentences,
    read_table,
)
from cxrtext.text.finding_words import read_words
from cxrtext.training.data.drawn import Ask
from cxrtext.training.data.loader import Examples, Looked, ReadImages, collect, word_pieces
from cxrtext.training.data.locked_features import (
    Keeping,
    StoredFeatures,
    lock_images,
    lock_sentences,
)
from cxrtext.training.data.sentences import SECTION, short_sentences, study_words
from cxrtext.training.initialization import (
    build_head,
    build_model,
    build_optimizer,
    center_projections,
    training_arguments,
)
from cxrtext.training.loop.distributed import Processes, connected, local_device
from cxrtext.training.loop.folder import OUT, check_folder, own_folder
from cxrtext.training.loop.optimization import TrainingArguments, lock_towers
from cxrtext.training.loop.resume import check_same, deciding, fingerprint, load_newest_state
from cxrtext.training.loop.steps import Listener
from cxrtext.training.objectives.shared.objective import as_objective, source_of
from cxrtext.training.step import PairLearner, build_learner, pair_job
from cxrtext.training.trainer import Trainer, keep_references
from cxrtext.training.validation import check_best, not_learned, training_prompts, zero_shot_of


@dataclass(frozen=True, slots=True)
class TrainSummary:
    """The result of a run.

    ``checkpoint`` is the folder of the model after the last of ``steps``; ``best`` is the folder of
    the best model by ``training.best``, after ``best_step``.  ``images`` counts training images,
    ``rejected`` lists images that could not be read.  ``validation`` has the last validation's
    numbers, none without a validation split; ``warning`` says if they show no learning.
    """

    checkpoint: Path
    steps: int
    images: int
    validation: dict[str, float]
    rejected: Path | None
    best: Path | None = None
    best_step: int = 0
    warning: str = ""


def train(
    config: Config, *, resume: bool = False, listener: Listener | None = None
) -> TrainSummary:
    """Train a model, or resume; in several processes if torchrun started them.

    Writes into ``config.out``: ``config.yaml`` (resolved), ``metrics.jsonl``, ``tensorboard/``,
    ``cache/`` (decoded images, unless ``data.cache`` names another folder), ``state/`` (for
    resuming), ``checkpoint/`` (the model) and ``checkpoint-best/``.  An interrupted run
    (``KeyboardInterrupt``) saves its state first.
    """
    device = choose_device(local_device(config.training.device), training=True)
    if device.type == "cuda" and device.index is not None:
        torch.cuda.set_device(device)  # NCCL uses the current device
    with connected(device) as processes, enough_memory(_less_memory(config)):
        heard = (listener or Listener()) if processes.first else Listener()
        if processes.first:
            check_folder(config.out, resume)
        with own_folder(config.out) if processes.first else nullcontext():
            return _train(config, resume, heard, device, processes)


def _less_memory(config: Config) -> str:
    """Advice for running out of memory."""
    training = config.training
    return (
        f"train into a new folder ({OUT}) with training.accumulate={2 * training.accumulate}, "
        "which gives the same gradients in smaller parts, or a lower "
        f"training.batch (now {training.batch}); and end what else uses it"
    )


def _train(
    config: Config, resume: bool, listener: Listener, device: torch.device, processes: Processes
) -> TrainSummary:
    check_sizes(config, processes)
    features = open_features(config.data.features) if config.data.features else None
    tables = read_tables(config)
    saved = _saved_state(config, resume, tables, listener, processes)
    model = build_model(config, features)
    started = None
    if config.model.image_weights and isinstance(model.image_encoder, ImageEncoder):
        started = load_image_weights(model.image_encoder, config.model.image_weights)
        model.feed(started.prepared(config.data.resize, config.data.crop))
        listener.say(started.line)
    model.to(device)
    rejects = Rejects(config.data.max_rejected, name="data.max_rejected")
    look = look_of(config, model, features, listener)
    objective = as_objective(config.objective)
    source = source_of(config, tables.records, tables.sentences, model, listener.decoding)
    # Without training images or sentences, gather_examples says which tables do not match.
    meet = source.training and source.sentences
    ask: Ask = objective.prepare(source) if meet else lambda _: {}
    train_set, val_set = (
        replace(examples, ask=ask)
        for examples in processes.in_turn(
            lambda: gather_examples(config, tables, model, rejects, look)
        )
    )
    if started and not started.is_own:
        sample = sample_images(
            train_set.pixels, train_set.rows, model.spec.preprocessing, model.device
        )
        set_norms(model.image_encoder.trunk, sample)
    zero_shot = zero_shot_of(config, val_set, listener.say)
    check_best(config, zero_shot)

    arguments = training_arguments(config, device)
    if config.training.center_projections and not config.model.init:
        center_projections(model, train_set, arguments.seed, arguments.lock)
    start = saved["learner"]["progress"]["step"] if saved else 0
    learner = _learner(config, model, arguments, processes, arguments.locked(start))
    if saved:
        learner.load(saved["learner"])
        saved = None  # frees as much memory as the trained weights take
    if learner.locked:
        sets = train_set, val_set
        train_set, val_set = processes.in_turn(
            lambda: [_locked(one, config, learner, arguments, listener) for one in sets]
        )
    trainer = Trainer(
        learner=learner,
        out=config.out,
        configuration=deciding(config),
        data=tables.fingerprint,
        config=config,
        job=pair_job(learner, train_set, objective, arguments),
        train_set=train_set,
        val_set=val_set,
        zero_shot=zero_shot,
        listener=listener,
    )
    if processes.first:
        trainer.require_room_to_start()
        # In this order, because resuming a folder with a state reads its configuration.
        write_config(config.out / "config.yaml", with_whole_paths(config).model_dump(mode="json"))
        (config.out / "state").mkdir(parents=True, exist_ok=True)
    _greet(trainer, tables)
    validation = trainer.to_the_end()
    if processes.first:
        if config.training.unlock:  # features of the locked encoder are outdated
            train_set, val_set = train_set.unlocked(), val_set.unlocked()
        keep_references(config.out, train_set, val_set, zero_shot, str(device))
    progress = learner.progress
    return TrainSummary(
        checkpoint=config.out / "checkpoint",
        steps=progress.step,
        images=len(train_set),
        validation=validation,
        rejected=rejects.write(config.out / "images") if processes.first else None,
        best=config.out / "checkpoint-best" if progress.best is not None else None,
        best_step=progress.best_step,
        warning=not_learned(validation, val_set, zero_shot, config),
    )


def _saved_state(
    config: Config, resume: bool, tables: "Tables", listener: Listener, processes: Processes
) -> dict[str, Any] | None:
    """The state to resume from, the same in all processes; None to begin a run."""
    folder = config.out / "state"
    if saved := load_newest_state(folder, listener.say) if resume else None:
        read = "the manifest, the sentences or a table of the objective"
        check_same(saved, deciding(config), tables.fingerprint, folder, read=read)
    steps = processes.gather(saved["learner"]["progress"]["step"] if saved else 0)
    if len(set(steps)) > 1:
        raise CxrTextError(
            f"the processes do not agree on the step to resume from: {steps}; give them the same "
            "files and an 'out' folder that all of them see"
        )
    return saved


@dataclass(frozen=True, slots=True)
class Tables:
    """The user's tables: the manifest, and the sentences to train on.

    ``unknown`` counts sentences left out because the language model knows too few of their words;
    the fingerprint is a SHA-256 over the files that decide the run.
    """

    records: Sequence[ImageRecord]
    sentences: Sequence[Sentence]
    unknown: int
    fingerprint: str


def read_tables(config: Config) -> Tables:
    records = read_manifest(config.data.manifest, allow_outside=config.data.allow_outside)
    sentences = read_sentences(config.data.sentences)
    known = {sentence.section for sentence in sentences}
    known |= {SECTION} if config.data.words else set()
    for name in config.training.section_weights:
        if name not in known:
            raise ConfigError(
                f"training.section_weights: {config.data.sentences} has no section '{name}'; it "
                f"has {', '.join(sorted(known))}"
            )
    if config.training.prompts and find_table(config.data.manifest.parent, "labels") is None:
        raise ConfigError(
            f"training.prompts: is for the AUC of a labels.csv beside {config.data.manifest}, and "
            "there is none; add it, or remove the key"
        )
    if not (readable := [s for s in sentences if s.eta is not None]):
        raise DataError(
            f"{config.data.sentences}: no sentence has an eta: the language model knows too few of "
            "their words; score the reports with a model of such reports"
        )
    unknown = len(sentences) - len(readable)
    if config.data.words:
        training = {record.study_id for record in records if record.split == "train"}
        own = [sentence for sentence in readable if sentence.study_id in training]
        studies = study_words(own)
        words = read_words(config.data.words, list(studies.values()))
        readable += short_sentences(studies, words, own)
    text = Path(config.model.init or config.model.text)
    files = [
        config.data.manifest,
        config.data.sentences,
        *as_objective(config.objective).files(config),
        *(text / name for name in (*TOKENIZER_FILES, POOLING) if (text / name).is_file()),
        *(p for p in (config.training.prompts, config.data.words, config.data.findings) if p),
        *([config.data.features / FEATURES] if config.data.features else []),
    ]
    return Tables(records, readable, unknown, fingerprint(files))


def look_of(
    config: Config,
    model: ImageTextModel,
    features: FeatureFolder | None = None,
    listener: Listener | None = None,
) -> ReadImages:
    """How to read images: from features if given, else decoded into the cache."""
    heard = listener or Listener()
    cache = DecodedCache(config.data.cache or config.out / "cache", heard.say)

    def decoded(records: Sequence[ImageRecord], rejects: Rejects) -> Looked:
        read = cache.fill(
            [record.path for record in records],
            model.spec.preprocessing,
            reject=lambda row, reason: rejects.add(records[row].name, reason),
            progress=heard.decoding,
        )
        usable = np.flatnonzero(read.slots >= 0)
        return usable, {"pixels": read.pixels, "rows": read.slots[usable]}

    def stored(records: Sequence[ImageRecord], rejects: Rejects) -> Looked:
        assert features is not None  # noqa: S101 - chosen below
        places = features.places([record.name for record in records])
        for row in np.flatnonzero(places < 0).tolist():
            rejects.add(records[row].name, features.why_not(records[row].name))
        usable = np.flatnonzero(places >= 0)
        return usable, {
            "pixels": np.empty((0, 0, 0), dtype=np.uint8),
            "rows": np.arange(len(usable)),
            "features": StoredFeatures(features, places[usable]),
        }

    return stored if features else decoded


def gather_examples(
    config: Config, tables: Tables, model: ImageTextModel, rejects: Rejects, look: ReadImages
) -> tuple[Examples, Examples]:
    """Read the images of the training and validation splits and join them with their sentences."""

    def of(split: str) -> Examples:
        records = [record for record in tables.records if record.split == split]
        return collect(records, tables.sentences, look, model, rejects)

    studies = {sentence.study_id for sentence in tables.sentences}
    count = sum(r.split == "train" and r.study_id in studies for r in tables.records)
    if count >= 2:  # before hours of decoding; fewer images have their own message below
        _require_batch(count, config)
    train = of("train")
    if config.data.findings is not None:
        train = with_findings(train, config, model)
    if len(train) < 2:
        raise DataError(
            f"{config.data.manifest}: {len(train)} training image(s) have a sentence in "
            f"{config.data.sentences}; check that both tables use the same study_id and that the "
            "manifest has a split 'train'"
        )
    _require_batch(len(train), config)
    if weights := config.training.section_weights:
        drawn = [weights.get(sentence.section, 1.0) for sentence in train.texts]
        train = replace(train, weights=np.asarray(drawn, dtype=np.float32))
    return train, of("val")


def with_findings(examples: Examples, config: Config, model: ImageTextModel) -> Examples:
    """Training examples with the findings of ``data.findings`` as a second task.

    A finding is used if at least one training study has it and one does not; its first positive and
    first negative prompts ask for it.
    """
    path = config.data.findings
    assert path is not None  # noqa: S101 - checked by the caller
    prompts = training_prompts(config)
    columns = set(read_table(path).columns)
    prompts = {name: one for name, one in prompts.items() if name in columns}
    labels = read_labels(path, tuple(prompts))
    of_studies = [labels.get(record.study_id, {}) for record in examples.records]
    table = np.asarray(
        [
            [cell if (cell := own.get(name)) in (0, 1) else -1 for name in prompts]
            for own in of_studies
        ],
        dtype=np.int8,
    ).reshape(len(of_studies), len(prompts))
    used = np.flatnonzero((table == 1).any(axis=0) & (table == 0).any(axis=0))
    if not len(used):
        raise DataError(
            f"{path}: no finding of the prompts is present in one training study and absent from "
            "another; take data.findings out, or give a table with labels of these studies"
        )
    chosen = [list(prompts.values())[column] for column in used]
    texts = [text for one in chosen for text in (one.positive[0], one.negative[0])]
    pieces = word_pieces(model, texts)
    first = len(examples.tokens)
    return replace(
        examples,
        tokens=[*examples.tokens, *pieces],
        asked=[list(prompts)[column] for column in used],
        prompts=range(first, first + len(pieces)),
        findings=np.ascontiguousarray(table[:, used]),
    )


def _require_batch(count: int, config: Config) -> None:
    if count < config.training.batch:
        raise DataError(
            f"{config.data.manifest}: {count} training images have text, fewer than "
            f"training.batch {config.training.batch}; give --set training.batch={count} or fewer"
        )


def _locked(
    examples: Examples,
    config: Config,
    learner: PairLearner,
    arguments: TrainingArguments,
    listener: Listener,
) -> Examples:
    model = learner.model
    keeping = Keeping(config.data.cache or config.out / "cache", arguments.precision, listener)
    if "image" in learner.locked and examples.features is None:
        features = lock_images(model, examples.pixels, examples.rows, keeping)
        examples = replace(examples, features=features)
    if "text" in learner.locked:
        examples = replace(examples, states=lock_sentences(model, examples.tokens, keeping))
    return examples


def _learner(
    config: Config,
    model: ImageTextModel,
    arguments: TrainingArguments,
    processes: Processes,
    locked: tuple[str, ...],
) -> PairLearner:
    model.image_encoder.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    # An encoder that is unlocked later is in the optimizer from the beginning.
    lock_towers(model, () if arguments.unlock else arguments.lock)
    if (head := build_head(config, model)) is not None:
        head.to(model.device)
    optimizer = build_optimizer(model, head, config)
    lock_towers(model, locked)
    return build_learner(
        model,
        head,
        optimizer,
        precision=arguments.precision,
        processes=processes,
        locked=locked,
    )


def _greet(trainer: Trainer, tables: Tables) -> None:
    learner, config = trainer.job.learner, trainer.config
    processes, start = learner.processes, learner.progress.step
    trainer.listener.say(
        f"{len(trainer.train_set)} training and {len(trainer.val_set)} validation images "
        f"with text, {len(tables.sentences)} sentences, on {learner.model.device} in "
        f"{trainer.job.schedule.precision}"
        + (f", {processes.world} processes" if processes.world > 1 else "")
        + (f", from step {start}" if start else "")
    )
    if tables.unknown:
        trainer.listener.say(
            f"{config.data.sentences}: {tables.unknown} sentences are left out: they have "
            "no eta, because the language model knows too few of their words"
        )


def check_sizes(config: Config, processes: Processes) -> None:
    """Refuse a batch that cannot be divided into equal parts."""
    training, world = config.training, processes.world
    if training.batch % (world * training.accumulate):
        raise ConfigError(
            f"training.batch: {training.batch} images cannot be divided among {world} process(es) "
            f"in {training.accumulate} part(s) each; give a multiple of "
            f"{world * training.accumulate}"
        )
