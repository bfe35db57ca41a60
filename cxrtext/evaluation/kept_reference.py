"""Reference images for a checkpoint that has none, from the validation split of a data folder."""

from collections.abc import Callable
from pathlib import Path

from cxrtext.errors import DataError
from cxrtext.evaluation.cohort import Embedder
from cxrtext.evaluation.data_folder import manifest_of
from cxrtext.images.cache import DecodedCache
from cxrtext.models import load_model
from cxrtext.models.reference import choose_reference, reference_of, save_reference
from cxrtext.records import Rejects, read_manifest


def keep_reference(
    checkpoint: Path,
    data: Path,
    *,
    device: str = "cpu",
    allow_outside: bool = False,
    cache: DecodedCache | None = None,
    rejects: Rejects | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Path, int]:
    """Embed validation images and keep them with a checkpoint, to verify reports against.

    Training keeps them by itself; this is for checkpoints made before it did, and for another
    archive than the one trained on.

    Args:
        checkpoint: A model's folder; its fingerprint stays as it is.
        data: A data folder with images of split "val".
        device: Where to compute.
        allow_outside: Whether images may lie outside the folder.
        cache: Where decoded images are kept; without it they are decoded each time.
        rejects: Takes images that cannot be read.
        progress: Called with (done, total) images.

    Returns:
        The file written, and how many images it holds.

    Raises:
        DataError: There is no validation image that can be read.
        CheckpointError: The checkpoint is damaged.
    """
    manifest = manifest_of(data)
    records = [r for r in read_manifest(manifest, allow_outside=allow_outside) if r.split == "val"]
    if not records:
        raise DataError(
            f"{manifest}: no image of split 'val'; a reference wants images that the model has "
            "not learned from: name some in column 'split'"
        )
    chosen = choose_reference([r.name for r in records], [r.patient_id for r in records])
    model = load_model(checkpoint, device)
    rejects = rejects or Rejects()
    embedder = Embedder(model, cache, rejects, len(chosen), progress)
    parts = [regions.float() for _, _, regions in embedder.batches([records[i] for i in chosen])]
    if not parts:
        raise DataError(f"{data}: no image of split 'val' can be read: {rejects.rows[-1][1]}")
    reference = reference_of(parts)
    return save_reference(checkpoint, reference, model.fingerprint), len(reference)
