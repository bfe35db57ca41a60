"""Loading what a service stands on."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from cxrtext.errors import DataError
from cxrtext.evaluation import Prompts
from cxrtext.index import Index, Shards, open_index, open_shards
from cxrtext.index.catalogue import WAIT_S
from cxrtext.models import ImageTextModel, load_model
from cxrtext.models.masked_language_model import load_masked_language_model
from cxrtext.service.service import Service

Folders = str | Path | Sequence[str | Path]


def load_service(
    checkpoint: str | Path | None = None,
    index: Folders | None = None,
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
    model = load_model(checkpoint, device) if checkpoint is not None else None
    opened = _open(folders, model, wait_s)
    if model is None:
        assert opened is not None  # noqa: S101 - one of the two is there
        model = opened.model.to(device)
    try:
        language = (
            load_masked_language_model(language_model, device=device)
            if language_model is not None
            else None
        )
        return Service(model, opened, prompts, language)
    except BaseException:
        if opened is not None:
            opened.close()
        raise


def _open(
    folders: Sequence[str | Path], model: ImageTextModel | None, wait_s: float
) -> Index | Shards | None:
    if len(folders) > 1:
        return open_shards(folders, model, wait_s=wait_s)
    return open_index(folders[0], model, wait_s=wait_s) if folders else None
