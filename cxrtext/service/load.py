"""Loading what a service stands on."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from cxrtext.errors import DataError
from cxrtext.evaluation import Prompts
from cxrtext.index import open_index
from cxrtext.index.store.catalogue import WAIT_S
from cxrtext.models import load_model
from cxrtext.models.masked_lm import load_masked_language_model
from cxrtext.service.service import Service


def load_service(
    checkpoint: str | Path | None = None,
    index: str | Path | Sequence[str | Path] | None = None,
    *,
    prompts: Mapping[str, Prompts] | None = None,
    language_model: str | Path | None = None,
    device: str = "cpu",
    wait_s: float = WAIT_S,
) -> Service:
    """Load a model and, if given, its index.

    Args:
        checkpoint: The model's folder; by default the one noted in the index.
        index: The index's folder, or those of several that are searched as one.
        prompts: Prompts of zero-shot classification; CheX5's by default.
        language_model: Folder or hub id of a masked language model, to score sentences with.
        device: Where to compute.
        wait_s: How long to wait where another process commits a change of the index.

    Raises:
        CheckpointError: A folder is damaged, or the two do not belong together.
        DataError: Neither is given.
        HubError: The language model is not here, and the hub cannot be reached.
    """
    folders = [index] if isinstance(index, str | Path) else list(index or ())
    if checkpoint is None and not folders:
        raise DataError("give a checkpoint, an index, or both")
    model = None if checkpoint is None else load_model(checkpoint, device)
    archive = open_index(folders, model, wait_s=wait_s) if folders else None
    if model is None:
        assert archive is not None  # noqa: S101 - one of the two is there
        model = archive.model.to(device)
    try:
        language = language_model and load_masked_language_model(language_model, device=device)
        return Service(model, archive, prompts, language or None)
    except BaseException:
        if archive is not None:
            archive.close()
        raise
