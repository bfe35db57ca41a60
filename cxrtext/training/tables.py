"""The user's tables, checked before work begins, and the examples of both splits made of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cxrtext.config import Config
from cxrtext.errors import ConfigError, DataError
from cxrtext.images.cache import DecodedCache
from cxrtext.models import ImageTextModel
from cxrtext.records import ImageRecord, Rejects, Sentence, read_manifest, read_sentences
from cxrtext.training.loader import Examples, collect
from cxrtext.training.loss_data import objective_files
from cxrtext.training.resume import fingerprint


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
    if config.training.prompts and labels_beside(config) is None:
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
    if len(train) < 2:
        raise DataError(
            f"{config.data.manifest}: {len(train)} training image(s) have a sentence in "
            f"{config.data.sentences}; check that both tables use the same study_id and that the "
            "manifest has a split 'train'"
        )
    _require_batch(len(train), config)
    weights = config.training.section_weights
    if weights:
        drawn = [weights.get(sentence.section, 1.0) for sentence in train.texts]
        train = replace(train, weights=np.asarray(drawn, dtype=np.float32))
    return train, of("val")


def _check_enough(config: Config, tables: Tables) -> None:
    studies = {sentence.study_id for sentence in tables.sentences}
    count = sum(r.split == "train" and r.study_id in studies for r in tables.records)
    if count >= 2:  # else gather_examples says which tables do not meet
        _require_batch(count, config)


def _require_batch(count: int, config: Config) -> None:
    if count < config.training.batch:
        raise DataError(
            f"{config.data.manifest}: {count} training images have text, fewer than "
            f"training.batch {config.training.batch}; give --set training.batch={count} or fewer"
        )


def labels_beside(config: Config) -> Path | None:
    """The table of labels beside the manifest, or None."""
    beside = [config.data.manifest.parent / f"labels{end}" for end in (".csv", ".parquet")]
    return next((path for path in beside if path.is_file()), None)
