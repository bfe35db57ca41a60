"""The state of a pre-training run in memory and on disk, for resuming after a stop."""

import json
import pickle
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from cxrtext.errors import CheckpointError
from cxrtext.files import (
    file_problems,
    is_as_named,
    read_sealed,
    remove_folder,
    replacing_folder,
    write_named,
    write_sealed,
)
from cxrtext.models.bert import MaskedBert
from cxrtext.text import load_tokenizer, save_tokenizer
from cxrtext.text.tokenizer import TextTokenizer

DAMAGED = (
    *(pickle.UnpicklingError, RuntimeError, OSError, EOFError),
    *(ValueError, LookupError, TypeError, AttributeError),
)
"""Errors from reading a damaged state."""
SETTINGS = "settings.json"


@dataclass(slots=True)
class History:
    """Measurements on held-out sentences after each epoch, and the best epoch's weights."""

    # Mean cross-entropy of masked word pieces, in nats.
    validation_loss: list[float] = field(default_factory=list)
    # Weights of the epoch with the lowest loss, on the CPU; empty before the first epoch.
    best: dict[str, Tensor] = field(default_factory=dict)

    @property
    def epochs(self) -> int:
        return len(self.validation_loss)

    @property
    def best_epoch(self) -> int:
        """The first epoch with the lowest loss, counted from 1; 0 before the first epoch."""
        if not self.validation_loss:
            return 0
        return self.validation_loss.index(min(self.validation_loss)) + 1

    def add(self, model: nn.Module, loss: float) -> None:
        self.validation_loss.append(loss)
        if self.best_epoch == self.epochs:
            self.best = {name: value.cpu().clone() for name, value in model.state_dict().items()}


@dataclass(frozen=True, slots=True)
class PretrainState:
    """A folder beside the output, with the vocabulary and the last saved step."""

    folder: Path  # removed when the run is done
    settings: dict[str, Any]  # what the run depends on; the state of another run is discarded

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("state-*.pt"))

    def tokenizer(self) -> TextTokenizer | None:
        """The tokenizer of the stopped run; None, and an empty state, if there is none."""
        try:
            noted = read_sealed(self.folder / SETTINGS)
            same = noted == json.loads(json.dumps(self.settings))
        except (OSError, ValueError):
            same = False
        if same and not file_problems(self.folder):
            return load_tokenizer(self.folder)
        self.remove()
        return None

    def begin(self, tokenizer: TextTokenizer) -> None:
        """Start a state: the vocabulary and the settings that make it valid, in one step."""
        with replacing_folder(self.folder) as folder:
            save_tokenizer(tokenizer, folder)
            write_sealed(folder / SETTINGS, self.settings)

    def save(
        self, model: MaskedBert, optimizer: torch.optim.Optimizer, step: int, history: History
    ) -> None:
        content = {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "step": step,
            "history": {item.name: getattr(history, item.name) for item in fields(history)},
        }
        kept = write_named(self.folder, "state", ".pt", lambda path: torch.save(content, path))
        for old in self._files():
            if old != kept:
                old.unlink()

    def restore(self, model: MaskedBert, optimizer: torch.optim.Optimizer, history: History) -> int:
        """Put a saved state into model, optimizer and history; return the steps done, or 0."""
        # If a run was killed before it removed the older file, the later state counts.
        if not (files := self._files()):
            return 0
        try:
            states = [
                torch.load(path, map_location="cpu", weights_only=True)
                for path in files
                if is_as_named(path)
            ]
            state = max(states, key=lambda state: state["step"])
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            for name, value in state["history"].items():
                setattr(history, name, value)
            return int(state["step"])
        except DAMAGED:
            raise CheckpointError(
                f"{files[0]}: the state of the stopped run is damaged; remove {self.folder} to "
                "start again"
            ) from None

    def remove(self) -> None:
        remove_folder(self.folder, inside=self.folder.parent, note=self.folder / SETTINGS)
