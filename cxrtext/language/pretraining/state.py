"""The state of a pre-training run on disk, so that one that was stopped goes on."""

import json
import pickle
import shutil
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from transformers import BertForMaskedLM, BertTokenizer

from cxrtext.errors import CheckpointError
from cxrtext.files import replacing, write_json
from cxrtext.language.pretraining.history import History
from cxrtext.text import load_tokenizer, save_tokenizer


@dataclass(frozen=True, slots=True)
class PretrainState:
    """A folder beside the output, with the vocabulary and the last saved step.

    Args:
        folder: The folder; removed when the run is done.
        settings: What the run depends on; the state of another run is thrown away.
    """

    folder: Path
    settings: dict[str, Any]

    @property
    def _file(self) -> Path:
        return self.folder / "state.pt"

    def tokenizer(self) -> BertTokenizer | None:
        """Return the tokenizer of the run that was stopped, or None without such a run."""
        try:
            same = json.loads((self.folder / "settings.json").read_text()) == self.settings
        except (OSError, ValueError):
            same = False
        if same:
            return load_tokenizer(self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        return None

    def begin(self, tokenizer: BertTokenizer) -> None:
        """Start a state: the vocabulary first, the settings that make it valid last."""
        self.folder.mkdir(parents=True, exist_ok=True)
        save_tokenizer(tokenizer, self.folder)
        write_json(self.folder / "settings.json", self.settings)

    def save(
        self,
        model: BertForMaskedLM,
        optimizer: torch.optim.Optimizer,
        step: int,
        history: History,
    ) -> None:
        """Keep the weights, the optimiser and what was measured after a step."""
        content = {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "step": step,
            "history": {item.name: getattr(history, item.name) for item in fields(history)},
        }
        with replacing(self._file) as temporary:
            torch.save(content, temporary)

    def restore(
        self, model: BertForMaskedLM, optimizer: torch.optim.Optimizer, history: History
    ) -> int:
        """Put the saved state into the model, the optimiser and the history.

        Returns:
            Steps that are done; 0 where nothing was saved.

        Raises:
            CheckpointError: The file is damaged.
        """
        if not self._file.is_file():
            return 0
        try:
            state = torch.load(self._file, map_location="cpu", weights_only=True)
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            for name, value in state["history"].items():
                setattr(history, name, value)
            return int(state["step"])
        except (
            pickle.UnpicklingError,
            RuntimeError,
            OSError,
            EOFError,
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
        ):
            raise CheckpointError(
                f"{self._file}: the state of the stopped run is damaged; remove {self.folder} to "
                "start again"
            ) from None

    def remove(self) -> None:
        """Remove the state: the output is written."""
        shutil.rmtree(self.folder, ignore_errors=True)
