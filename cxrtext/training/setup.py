"""From a configuration to everything that a run needs, checked before work begins."""

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cxrtext.config import Config
from cxrtext.errors import CheckpointError, ConfigError, DataError
from cxrtext.evaluation.prompts import CHEX5_PROMPTS, read_prompts
from cxrtext.images.cache import DecodedCache
from cxrtext.models import ImageTextModel
from cxrtext.records import (
    ImageRecord,
    Rejects,
    Sentence,
    read_labels,
    read_manifest,
    read_sentences,
)
from cxrtext.training.data import Examples, collect, require_enough
from cxrtext.training.distributed import Processes
from cxrtext.training.measures import ZeroShot
from cxrtext.training.objective_extras import objective_files
from cxrtext.training.state import fingerprint, first_difference

FREE = ("device", "log_every", "validate_every", "save_every", "keep")
"""Keys of the training section that a resumed run may have otherwise."""


@dataclass(frozen=True, slots=True)
class Tables:
    """The user's tables.

    Args:
        records: The manifest.
        sentences: Those that are trained on.
        unknown: Sentences left out, because the language model knows too few of their words.
        fingerprint: SHA-256 over what decides the run.
    """

    records: Sequence[ImageRecord]
    sentences: Sequence[Sentence]
    unknown: int
    fingerprint: str


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


def read_tables(config: Config) -> Tables:
    """Read manifest and sentences.

    Raises:
        DataError: A table is wrong, or no sentence is in the chosen sections or has an η.
        ConfigError: The objective or the prompts want a table that is not there, or sections are
            misspelt.
    """
    records = read_manifest(config.data.manifest, allow_outside=config.data.allow_outside)
    sentences = read_sentences(config.data.sentences)
    known = {sentence.section for sentence in sentences}
    for key, names in (
        ("data.sections", config.data.sections or ()),
        ("training.section_weights", config.training.section_weights),
    ):
        for name in names:
            if name not in known:
                raise ConfigError(
                    f"{key}: {config.data.sentences} has no section '{name}'; it has "
                    f"{', '.join(sorted(known))}"
                )
    if config.training.prompts and _labels_of(config) is None:
        raise ConfigError(
            f"training.prompts: is for the AUC of a labels.csv beside {config.data.manifest}, and "
            "there is none; add it, or remove the key"
        )
    if config.data.sections is not None:
        sentences = [s for s in sentences if s.section in config.data.sections]
    readable = [s for s in sentences if s.eta is not None]
    if not readable:
        raise DataError(
            f"{config.data.sentences}: no sentence has an eta: the language model knows too few of "
            "their words; score the reports with a model of such reports"
        )
    vocabulary = [Path(config.model.text) / name for name in ("vocab.txt", "tokenizer.json")]
    files = [
        config.data.manifest,
        config.data.sentences,
        *objective_files(config),
        *(path for path in vocabulary if path.is_file()),
        *([config.training.prompts] if config.training.prompts else []),
    ]
    return Tables(records, readable, len(sentences) - len(readable), fingerprint(files))


def plain(config: Config) -> dict[str, Any]:
    """A configuration as nested dictionaries of numbers and texts."""
    return config.model_dump(mode="json")


def deciding(config: Config) -> dict[str, Any]:
    """What must be equal for a run to go on: all but its places and how often it logs."""
    tree = plain(config)
    del tree["out"]
    # What lies in these files is compared by its digest.
    for section, names in (
        ("data", ("manifest", "sentences", "cache")),
        ("objective", ("labels", "true_probability")),
        ("model", ("image_weights",)),
        ("training", ("prompts",)),
    ):
        for name in names:
            tree[section].pop(name, None)
    if Path(config.model.text).is_dir():
        del tree["model"]["text"]
    kept = set(FREE) - ({"validate_every"} if config.training.patience else set())
    tree["training"] = {k: v for k, v in tree["training"].items() if k not in kept}
    return tree


def check_same(saved: dict[str, Any], config: Config, data: str, state: Path) -> None:
    """Refuse to go on with another configuration or other data.

    Raises:
        CheckpointError: Naming the first key that differs and both values.
    """
    difference = first_difference(saved["configuration"], deciding(config))
    if difference:
        raise CheckpointError(
            f"{state}: saved by a run with another configuration: {difference}; resume with the "
            "old value, or train into a new folder (--set out=…)"
        )
    if saved["data"] != data:
        raise CheckpointError(
            f"{state}: saved by a run on other data: the manifest, the sentences or a table of the "
            "objective has changed; resume with the old ones, or train into a new folder "
            "(--set out=…)"
        )


def gather_examples(
    config: Config,
    tables: Tables,
    model: ImageTextModel,
    rejects: Rejects,
    say: Callable[[str], None],
    decoding: Callable[[int, int], None],
) -> tuple[Examples, Examples]:
    """Decode the images of both splits and join them with their sentences.

    Raises:
        DataError: The tables do not meet, there are fewer images than a batch takes, or too many
            cannot be decoded.
    """

    def tokenize(texts: list[str]) -> list[list[int]]:
        encoded = model.tokenizer(texts, truncation=True, max_length=model.spec.max_tokens)
        ids: list[list[int]] = encoded["input_ids"]
        return ids

    cache = DecodedCache(config.data.cache or config.out / "cache", say)

    def of(split: str) -> Examples:
        return collect(
            [record for record in tables.records if record.split == split],
            tables.sentences,
            cache,
            model.spec.preprocessing,
            tokenize,
            int(model.tokenizer.pad_token_id),
            rejects,
            progress=decoding,
        )

    _check_enough(config, tables)  # before hours of decoding
    train = of("train")
    require_enough(train, config.data.manifest, config.data.sentences)
    _require_batch(len(train), config)
    weights = config.training.section_weights
    if weights:
        drawn = [weights.get(sentence.section, 1.0) for sentence in train.texts]
        train = replace(train, weights=np.asarray(drawn, dtype=np.float32))
    return train, of("val")


def _check_enough(config: Config, tables: Tables) -> None:
    studies = {sentence.study_id for sentence in tables.sentences}
    count = sum(r.split == "train" and r.study_id in studies for r in tables.records)
    if count >= 2:  # else require_enough says which tables do not meet
        _require_batch(count, config)


def _require_batch(count: int, config: Config) -> None:
    if count < config.training.batch:
        raise DataError(
            f"{config.data.manifest}: {count} training images have text, fewer than "
            f"training.batch {config.training.batch}; give --set training.batch={count} or fewer"
        )


def _labels_of(config: Config) -> Path | None:
    """The table of labels beside the manifest, or None."""
    beside = [config.data.manifest.parent / f"labels{end}" for end in (".csv", ".parquet")]
    return next((path for path in beside if path.is_file()), None)


def zero_shot_of(config: Config, examples: Examples, say: Callable[[str], None]) -> ZeroShot | None:
    """Labels and prompts of the validation split, where labels lie beside the manifest.

    A table that cannot be used is said, and is an error only where the run was told to go by it.

    Raises:
        DataError: The prompts, or labels that are needed, are wrong.
    """
    path = _labels_of(config)
    given = config.training.prompts
    if path is None or not len(examples):
        return None
    prompts = read_prompts(given) if given else CHEX5_PROMPTS
    try:
        labels = read_labels(path, tuple(prompts))
    except DataError as error:
        if given or config.training.best == "val/auc":
            raise
        say(f"no zero-shot AUC in training: {error}")
        return None
    table = [
        [labels.get(record.study_id, {}).get(finding) for record in examples.records]
        for finding in prompts
    ]
    known = np.asarray(
        [[float(cell) if cell in (0, 1) else np.nan for cell in row] for row in table]
    )
    both = ((known == 1).any(axis=1) & (known == 0).any(axis=1)).any()
    return ZeroShot(prompts, known) if both else None


def check_best(config: Config, val_set: Examples, zero_shot: ZeroShot | None) -> None:
    """Refuse to wait for a measure that will never be there.

    Raises:
        ConfigError: Saying what is missing.
    """
    best, patience = config.training.best, config.training.patience
    if best == "val/auc" and zero_shot is None:
        raise ConfigError(
            "training.best: val/auc needs labels of validation images, 1 and 0 of one finding at "
            f"least, in a labels.csv beside {config.data.manifest}; add it, or choose val/loss"
        )
    if patience and len(val_set) < 2:
        raise ConfigError(
            f"training.patience: {config.data.manifest} has {len(val_set)} validation image(s) "
            "with text; give the manifest a split 'val', or set training.patience=0"
        )
