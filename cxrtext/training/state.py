"""What is needed to go on with a stopped run, in a folder of its own."""

from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch

from cxrtext.errors import CheckpointError
from cxrtext.files import replacing
from cxrtext.models import ImageTextModel

STATE = "state.pt"


def save_state(
    folder: Path, step: int, model: ImageTextModel, optimizer: torch.optim.Optimizer, key: str
) -> None:
    """Write the state after ``step`` steps, whole or not at all.

    Args:
        folder: The state folder.
        step: Steps done.
        model: The model.
        optimizer: Its optimizer.
        key: What the run was started with; another key cannot resume it.
    """
    with replacing(folder / STATE) as temporary:
        torch.save(
            {
                "step": step,
                "key": key,
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
            },
            temporary,
        )


def load_state(
    folder: Path, model: ImageTextModel, optimizer: torch.optim.Optimizer, key: str
) -> int:
    """Load a state into a model and its optimizer.

    Returns:
        Steps done; 0 where nothing was saved yet.

    Raises:
        CheckpointError: The state is damaged, or was saved by a run with another configuration
            or other data.
    """
    path = folder / STATE
    if not path.is_file():
        return 0
    try:
        state: dict[str, Any] = torch.load(path, map_location=model.device, weights_only=True)
        if state["key"] != key:
            raise CheckpointError(
                f"{path}: saved by a run with another configuration or other data; resume with "
                "the same ones, or train into a new folder (--set out=…)"
            )
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        return int(state["step"])
    except (OSError, RuntimeError, UnpicklingError, EOFError, KeyError, ValueError) as error:
        reason = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
        raise CheckpointError(
            f"{path}: not a readable training state ({reason}); remove it to start afresh"
        ) from None
