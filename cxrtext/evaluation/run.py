"""``cxrtext evaluate``: what a checkpoint is worth on a data folder."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path

from cxrtext.errors import DataError
from cxrtext.evaluation.cohort import Embedder
from cxrtext.evaluation.data_folder import DataFolder, read_data_folder
from cxrtext.evaluation.prompts import CHEX5_PROMPTS, Prompts
from cxrtext.evaluation.result import Details, Evaluation
from cxrtext.evaluation.settings import Settings
from cxrtext.evaluation.steps import classify, ground, retrieve
from cxrtext.images.cache import DecodedCache
from cxrtext.models import load_model
from cxrtext.records import ImageRecord, Rejects


def evaluate(
    checkpoint: Path,
    data: Path,
    *,
    split: str = "test",
    prompts: Mapping[str, Prompts] | None = None,
    device: str = "cpu",
    allow_outside: bool = False,
    cache: DecodedCache | None = None,
    rejects: Rejects | None = None,
    progress: Callable[[int, int], None] | None = None,
    settings: Settings | None = None,
) -> Evaluation:
    """Measure a checkpoint: zero-shot classification, grounding and retrieval.

    Args:
        checkpoint: A model's folder.
        data: A data folder; what needs a file that is not there is left out, and said.
        split: "train", "val", "test" or "all".
        prompts: Prompts by finding; CheX5's by default.
        device: Where to compute.
        allow_outside: Whether images may lie outside the folder.
        cache: Where decoded images are kept; without it they are decoded each time.
        rejects: Takes images that cannot be read.
        progress: Called with (done, total) images.
        settings: How to measure.

    Returns:
        What was measured.

    Raises:
        DataError: The folder has no such split, or no image of it can be read.
        CheckpointError: The checkpoint is damaged.
    """
    how, asked = settings or Settings(), dict(prompts or CHEX5_PROMPTS)
    folder = read_data_folder(
        data, allow_outside=allow_outside, findings=tuple(asked), boxes=how.boxes
    )
    records = _usable(folder, split)
    others = _others(folder, split, how)
    model = load_model(checkpoint, device)
    rejects = rejects or Rejects()
    total = len(records) + sum(len(some) for some in others.values())
    embedder = Embedder(model, cache, rejects, total, progress)
    cohort = embedder.cohort(records)
    if not cohort.records:
        raise DataError(f"{data}: no image of split '{split}' can be read: {rejects.rows[-1][1]}")
    result = Evaluation(
        checkpoint=str(checkpoint),
        fingerprint=model.fingerprint,
        data=str(data),
        split=split,
        images=len(cohort.records),
        patients=len(set(cohort.patients)),
        settings={**asdict(how), "boxes": str(how.boxes) if how.boxes else None},
        details=Details(model, cohort, asked, how),
    )
    classify(result, folder, embedder, others)
    ground(result, folder)
    retrieve(result, folder)
    return result


def _usable(folder: DataFolder, split: str) -> list[ImageRecord]:
    if split == "all":
        return folder.records
    records = [record for record in folder.records if record.split == split]
    if not records:
        counts = {r.split for r in folder.records}
        raise DataError(
            f"{folder.path}: no image of split '{split}' (found: {', '.join(sorted(counts))}); "
            "choose another with --split"
        )
    return records


def _others(folder: DataFolder, split: str, settings: Settings) -> dict[str, list[ImageRecord]]:
    """Images of other splits that are needed: to calibrate, and to fit probes."""
    wanted = ["val"] if settings.calibrate or settings.probe else []
    wanted += ["train"] if settings.probe else []
    if folder.labels is None or split == "all" or split in wanted:
        return {}
    found = {name: [r for r in folder.records if r.split == name] for name in wanted}
    return {name: some for name, some in found.items() if some}
