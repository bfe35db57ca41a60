"""Does a warm start help on real radiographs?  Locked training from features of different origins.

    cxrtext pretrain-text REPORTS.csv --out LM --size demo
    cxrtext pretrain-image PHANTOMS/manifest.csv --out PHANTOM_ENCODER --image resnet-narrow \
        --resize 128 --crop 112
    python benchmarks/training/real_radiographs.py CXR --boxes CXR/lung_boxes.csv \
        --language-model LM \
        --phantoms PHANTOM_ENCODER/encoder.safetensors --out WORK [--seeds 3] [--steps 150]

CXR is a data folder whose manifest has reports.  Its validation and test images together are held
out.  The image encoder is locked: random weights; weights learned on phantoms; weights learned on
the words of findings that the training images' own notes affirm, and on views of these images
(SimCLR).  Printed, for each seed: retrieval between images and sentences, and contrast to noise of
"left lung" and "right lung" in the boxes, with 95 % intervals over patients.
"""

import argparse
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cxrtext.config import load_config
from cxrtext.evaluation import evaluate
from cxrtext.evaluation.settings import Settings
from cxrtext.images.cache import DecodedCache
from cxrtext.language.scoring.reports import score_reports
from cxrtext.records import read_table, write_table
from cxrtext.training import Listener, train
from cxrtext.training.image_pretraining import ImagePretrainSettings, pretrain_image

SIZE = {"resize": 128, "crop": 112}
IMAGE = "resnet-narrow"


def held_out(source: Path, folder: Path) -> Path:
    """The manifest with its images' own paths, validation and test images as one split."""
    table = read_table(source / "manifest.csv")
    rows = [
        {
            **row,
            "image": str((source / row["image"]).resolve()),
            "split": "train" if row["split"] == "train" else "test",
        }
        for row in table.rows
    ]
    folder.mkdir(parents=True, exist_ok=True)
    write_table(folder / "manifest.csv", list(table.columns), rows)
    return folder / "manifest.csv"


def boxes_of(source: Path, boxes: Path, folder: Path) -> Path:
    """The boxes, by the images' own paths."""
    table = read_table(boxes)
    rows = [{**row, "image": str((source / row["image"]).resolve())} for row in table.rows]
    write_table(folder / "boxes.csv", list(table.columns), rows)
    return folder / "boxes.csv"


def encoder(kind: str, seed: int, manifest: Path, options: argparse.Namespace) -> Path | None:
    """The weights to start from; None for random ones."""
    if kind == "random":
        return None
    if kind == "phantoms":
        return options.phantoms.resolve()
    settings = ImagePretrainSettings(image=IMAGE, batch=32, lr=3e-3, seed=seed, **SIZE)
    summary = pretrain_image(
        manifest,
        options.out / f"{kind}-{seed}",
        settings=settings,
        views=kind == "views",
        cache=options.out / "cache",
        allow_outside=True,
        device="cpu",
        listener=Listener(say=print),
    )
    return summary.encoder


def shown(value: float, interval: Any) -> str:
    """A number with its interval."""
    return f"{value:.2f} [{interval[0]:.2f}, {interval[1]:.2f}]"


def measured(checkpoint: Path, data: Path, cache: Path, seed: int) -> Mapping[str, Any]:
    """All measures of a checkpoint on what is held out."""
    found = evaluate(
        checkpoint,
        data,
        cache=DecodedCache(cache),
        allow_outside=True,
        settings=Settings(calibrate=False, seed=seed),
    )
    return {
        "retrieval": found.retrieval,
        "intervals": found.retrieval_intervals,
        "grounding": found.grounding,
    }


def main() -> None:
    """Train and print a line for each start and seed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--boxes", type=Path, required=True)
    parser.add_argument("--language-model", type=Path, required=True)
    parser.add_argument("--phantoms", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--starts", nargs="*", default=["random", "phantoms", "words", "views"])
    options = parser.parse_args()
    options.out = options.out.resolve()
    source, data = options.folder.resolve(), options.out / "data"
    manifest = held_out(source, data)
    boxes_of(source, options.boxes, data)
    sentences = options.out / "sentences.csv"
    if not sentences.exists():
        score_reports(manifest, sentences, model=options.language_model)
    for seed in range(options.seeds):
        for start in options.starts:
            begun = time.process_time()
            weights = encoder(start, seed, manifest, options)
            made = time.process_time() - begun
            run = options.out / f"run-{start}-{seed}"
            config = load_config(
                None,
                [
                    f"data.manifest={manifest}",
                    f"data.sentences={sentences}",
                    f"data.cache={options.out / 'cache'}",
                    "data.allow_outside=true",
                    *(f"data.{name}={value}" for name, value in SIZE.items()),
                    f"model.image={IMAGE}",
                    f"model.text={options.language_model}",
                    *([f"model.image_weights={weights}"] if weights else []),
                    f"training.steps={options.steps}",
                    "training.batch=32",
                    "training.sentences=4",
                    "training.lr=1e-3",
                    "training.warmup=20",
                    "training.lock=[image]",
                    f"training.seed={seed}",
                    "training.device=cpu",
                    f"out={run}",
                ],
            )
            train(config)
            found = measured(run / "checkpoint", data, options.out / "cache", seed)
            print(f"{start:9} seed {seed}, {made:.0f} + {time.process_time() - begun - made:.0f} s")
            for direction, numbers in found["retrieval"].items():
                around = found["intervals"][direction]
                line = ", ".join(
                    f"{name} {shown(numbers[name], around[name])}"
                    for name in ("R@1", "R@5", "R@10", "MedR", "MRR")
                    if name in numbers
                )
                print(f"    {direction}: {line}")
            grounding = found["grounding"]
            for name, one in {**grounding["by finding"], "both": grounding["mean"]}.items():
                line = ", ".join(
                    f"{measure} {shown(one[measure], one['intervals'][measure])}"
                    for measure in ("CNR", "signed CNR", "pointing game")
                )
                print(f"    {name}: {line}", flush=True)


if __name__ == "__main__":
    main()
