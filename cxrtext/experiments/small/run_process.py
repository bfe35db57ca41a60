"""``python -m cxrtext.experiments.small.run_process FOLDER``: train and measure one run."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cxrtext.errors import CxrTextError
from cxrtext.experiments.child import TRAINED, end_with_parent, listener_of, say, seconds_spent
from cxrtext.experiments.measures import write_measures
from cxrtext.experiments.measuring import machine, versions
from cxrtext.experiments.runs import FORMAT, JOB, METRICS, RESAMPLED
from cxrtext.experiments.small.probing import PROBES, Features, resamples_of
from cxrtext.experiments.small.small_set import SmallSet, read_set
from cxrtext.experiments.small.view_run import view_set, view_settings
from cxrtext.experiments.stages import noted_in
from cxrtext.files import replacing, write_sealed
from cxrtext.training.views import ViewSettings, encode, load_encoder, train_views
from cxrtext.training.views.encoder import FILE as ENCODER

FEATURES = "features.npz"
"""Features of test images, for a picture of them."""

MOST_FEATURES = 1000


def _train(folder: Path, held: SmallSet, settings: ViewSettings, device: str) -> torch.nn.Module:
    out = folder / "train"
    if (folder / TRAINED).is_file() and (out / ENCODER).is_file():
        return load_encoder(out, device="cuda" if _on_gpu(device) else "cpu")
    encoder = train_views(
        view_set(held, settings), settings, out, device=device, listener=listener_of(folder)
    )
    seen = settings.steps * settings.batch
    write_sealed(
        folder / TRAINED,
        {"steps": settings.steps, "images": seen, "seconds": seconds_spent(folder)},
    )
    return encoder


def _on_gpu(device: str) -> bool:
    return device.startswith("cuda") or (device == "auto" and torch.cuda.is_available())


def _keep_features(path: Path, features: torch.Tensor, held: SmallSet) -> None:
    """Keep the features of some test images, evenly spread."""
    rows = np.linspace(0, len(features) - 1, min(len(features), MOST_FEATURES)).astype(np.int64)
    with replacing(path) as temporary, temporary.open("wb") as handle:
        np.savez(
            handle,
            features=features[torch.from_numpy(rows)].cpu().numpy().astype(np.float32),
            classes=held.test.targets["class"][rows],
        )


def _measure(
    folder: Path, job: Mapping[str, Any], held: SmallSet, encoder: torch.nn.Module, seed: int
) -> None:
    train, test = (
        encode(encoder, torch.from_numpy(part.images)) for part in (held.train, held.test)
    )
    features = Features(
        train,
        test,
        held,
        resamples_of(held.test, int(job["resamples"])),
        seed,
        int(job["epochs"]),
        int(job["probe_steps"]),
    )
    measures = PROBES[str(job["probe"])](features)
    write_measures(folder / RESAMPLED, measures)
    if job["probe"] == "labels":
        _keep_features(folder / FEATURES, test, held)


def main(arguments: list[str] | None = None) -> int:
    """Train and measure the run of a folder; returns the exit code."""
    folder = Path((arguments if arguments is not None else sys.argv[1:])[0])
    try:
        job = noted_in(folder / JOB)
        settings = view_settings(job["settings"])
        held = read_set(Path(job["data"]))
        encoder = _train(folder, held, settings, str(job["device"]))
        say("measuring")
        _measure(folder, job, held, encoder, settings.seed)
        write_sealed(
            folder / METRICS,
            {
                "format": FORMAT,
                "settings": settings.deciding(),
                "images": len(held.train.images),
                "measured": len(held.test.images),
                "budget": noted_in(folder / TRAINED),
                "machine": machine(str(next(encoder.parameters()).device)),
                "threads": torch.get_num_threads(),
                "versions": versions(),
            },
        )
    except CxrTextError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)  # noqa: T201
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    end_with_parent()
    sys.exit(main())
