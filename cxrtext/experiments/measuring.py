"""What a trained run is worth: the evaluation, and the scores of every image beside it."""

import os
import platform
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch
from numpy.typing import NDArray

from cxrtext import __version__
from cxrtext.errors import DataError
from cxrtext.evaluation import CHEX5_PROMPTS, evaluate, prompt_embeddings, score_differences
from cxrtext.evaluation.data_folder import read_data_folder
from cxrtext.experiments.runs import METRICS, SCORES
from cxrtext.files import replacing, write_json
from cxrtext.images.cache import DecodedCache
from cxrtext.models import load_model
from cxrtext.models.embedding import embed_files

UNKNOWN = -2
"""Label of an image of which nothing is known; -1 is uncertain."""


@dataclass(frozen=True, slots=True)
class ImageScores:
    """Zero-shot scores of the images of a split.

    Args:
        images: [n], names as the manifest has them.
        patients: [n].
        findings: [F].
        differences: [F, n], positive prompt less negative one, scaled.
        labels: [F, n], 1, 0, -1 (uncertain) or -2 (unknown).
    """

    images: NDArray[np.str_]
    patients: NDArray[np.str_]
    findings: tuple[str, ...]
    differences: NDArray[np.float64]
    labels: NDArray[np.int8]


@torch.inference_mode()
def image_scores(
    checkpoint: Path, data: Path, split: str, device: str, cache: DecodedCache
) -> ImageScores:
    """Score every image of a split with the CheX5 prompts.

    Args:
        checkpoint: A model's folder.
        data: A data folder.
        split: "train", "val", "test" or "all".
        device: Where to compute.
        cache: Decoded images.

    Returns:
        The scores; images that cannot be read are left out.
    """
    folder = read_data_folder(data)
    records = [r for r in folder.records if split in ("all", r.split)]
    model = load_model(checkpoint, device)
    prompts = prompt_embeddings(model, CHEX5_PROMPTS)
    rows: list[int] = []
    parts = []
    for batch in embed_files(model, [record.path for record in records], cache=cache):
        if batch.rows:
            rows += batch.rows
            parts.append(score_differences(model, batch.regions.float(), prompts).cpu().double())
    if not parts:
        raise DataError(f"{data}: no image of split '{split}' can be read")
    used = [records[row] for row in rows]
    known = folder.labels or {}
    labels = [
        [known.get(record.study_id, {}).get(finding) for record in used]
        for finding in CHEX5_PROMPTS
    ]
    return ImageScores(
        images=np.array([record.name for record in used]),
        patients=np.array([record.patient_id for record in used]),
        findings=tuple(CHEX5_PROMPTS),
        differences=torch.cat(parts, dim=1).numpy(),
        labels=np.array(
            [[UNKNOWN if one is None else one for one in row] for row in labels], dtype=np.int8
        ),
    )


def write_scores(path: Path, scores: ImageScores) -> None:
    """Write scores as an ``.npz`` file, whole or not at all."""
    with replacing(path) as temporary:
        np.savez_compressed(
            temporary,
            images=scores.images,
            patients=scores.patients,
            findings=np.array(scores.findings),
            differences=scores.differences,
            labels=scores.labels,
        )


def read_scores(path: Path) -> ImageScores:
    """Read what :func:`write_scores` wrote.

    Raises:
        DataError: The file is damaged.
    """
    try:
        # Opened here: NumPy leaves a file that is no archive open.
        with path.open("rb") as handle, np.load(handle, allow_pickle=False) as held:
            return ImageScores(
                images=held["images"],
                patients=held["patients"],
                findings=tuple(str(name) for name in held["findings"]),
                differences=held["differences"],
                labels=held["labels"],
            )
    except (OSError, ValueError, KeyError, EOFError, BadZipFile, zlib.error) as error:
        raise DataError(
            f"{path}: not readable ({type(error).__name__}); remove its folder's {METRICS}, and "
            "the command measures again"
        ) from None


def machine(device: str) -> str:
    """The machine in words, without its name: "2 cores, CPU"."""
    cores = f"{os.cpu_count() or 1} cores"
    if torch.device(device).type == "cuda":
        return f"{cores}, {torch.cuda.get_device_name(device)}"
    return f"{cores}, CPU"


def versions() -> dict[str, str]:
    """Versions of what computed."""
    return {
        "cxrtext": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def measure(
    folder: Path, checkpoint: Path, job: Mapping[str, Any], device: str, noted: Mapping[str, Any]
) -> None:
    """Evaluate a checkpoint and write ``scores.npz``, then ``metrics.json``.

    Args:
        folder: The run's folder.
        checkpoint: The model's folder.
        job: ``data``, ``cache`` and ``split``.
        device: Where to compute.
        noted: Goes into ``metrics.json`` beside the evaluation.
    """
    data, split, cache = Path(job["data"]), str(job["split"]), DecodedCache(Path(job["cache"]))
    evaluation = evaluate(checkpoint, data, split=split, device=device, cache=cache)
    write_scores(folder / SCORES, image_scores(checkpoint, data, split, device, cache))
    write_json(
        folder / METRICS,
        {
            "evaluation": evaluation.to_dict(),
            **noted,
            "machine": machine(device),
            "threads": torch.get_num_threads(),
            "versions": versions(),
        },
    )
