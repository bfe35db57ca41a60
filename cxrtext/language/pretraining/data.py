"""The corpus of a pre-training run: some studies held out, the rest to train on."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import torch

from cxrtext.errors import DataError
from cxrtext.language.corpus import Corpus

HELD_OUT_SHARE, HELD_OUT_MOST = 0.05, 1000
"""Studies held out for validation: this share, and at most so many."""


@dataclass(frozen=True, slots=True)
class HeldOutSplit:
    """Sentences to train on, and sentences of other studies; repeated ones are kept."""

    training: list[str]
    validation: list[str]

    def digest(self) -> str:
        """Return the SHA-256 of both parts."""
        text = "\x00".join([*self.training, "\x01", *self.validation])
        return hashlib.sha256(text.encode()).hexdigest()


def hold_out(reports: Path, corpus: Corpus, seed: int) -> HeldOutSplit:
    """Hold out some studies at random.

    Raises:
        DataError: There are fewer than two reports with text.
    """
    studies = [[sentence.sentence for sentence in study] for study in corpus.studies if study]
    if len(studies) < 2:
        raise DataError(f"{reports}: one report with text is too little to train on")
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(studies), generator=generator).tolist()
    count = min(HELD_OUT_MOST, max(1, round(HELD_OUT_SHARE * len(studies))))
    held = set(order[:count])
    return HeldOutSplit(
        [text for number, study in enumerate(studies) if number not in held for text in study],
        [text for number, study in enumerate(studies) if number in held for text in study],
    )
