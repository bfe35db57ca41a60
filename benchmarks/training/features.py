"""A training step over a backbone's features: 768 and 256 numbers, alignment layers, and live.

    python benchmarks/training/features.py [--studies 256] [--steps 20] [--batch 64]

A ViT-B/14 with random weights (what is measured does not depend on them) at 210 pixels, a grid of
15 x 15, encodes drawn radiographs once by ``cxrtext encode``; then steps of the same training are
timed, with a BERT of 2 layers of 128.  "live" is the plain way: the backbone runs on the images of
each batch before the step, without gradients.  Each kind runs in a process of its own, which tells
the peak of its memory.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from locked import write_data

WARM = 2
LIVE_STEPS = 2
SIZE = 210
KINDS = {  # principal components that are kept, alignment layers
    "768": (None, 0),
    "768, one layer": (None, 1),
    "768, live": (None, 0),
    "256": (256, 0),
    "256, one layer": (256, 1),
    "256, two layers": (256, 2),
}


def write_backbone(folder: Path) -> None:
    """A ViT-B/14 with random weights."""
    from transformers import Dinov2Config, Dinov2Model

    shape = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12}
    Dinov2Model(Dinov2Config(**shape, image_size=SIZE, patch_size=14)).save_pretrained(folder)
    values = {
        "size": {"shortest_edge": SIZE},
        "crop_size": SIZE,
        "resample": 3,
        "image_mean": [0.5307] * 3,
        "image_std": [0.2583] * 3,
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(values))


def measure(kind: str, settings: list[str], steps: int) -> dict[str, float]:
    """Seconds a step, and the peak of memory in MB."""
    from locked import our_steps

    from cxrtext.config import load_config
    from cxrtext.models.features import open_features
    from cxrtext.records import Rejects
    from cxrtext.training.image_text import gather_examples, look_of, read_tables
    from cxrtext.training.initialization import build_model, build_optimizer, training_arguments

    config = load_config(None, settings)
    features = open_features(config.data.features)
    model = build_model(config, features)
    arguments = training_arguments(config, torch.device("cpu"))
    look = look_of(config, model, features)
    examples, _ = gather_examples(config, read_tables(config), model, Rejects(), look)
    live = kind.endswith("live")
    images = torch.rand(config.training.batch, 1, SIZE, SIZE)
    taken = our_steps(model, examples, config, arguments, build_optimizer)
    warm, wanted = (1, LIVE_STEPS) if live else (WARM, steps)
    for number in range(warm + wanted):
        if number == warm:
            begun = time.perf_counter()
        if live:
            model.image_encoder.features(images)
        next(taken)
    spent = (time.perf_counter() - begun) / wanted
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": spent, "memory": peak}


def encode(folder: Path, reduce: int | None) -> Path:
    """Features of the radiographs, by the command."""
    out = folder / f"features-{reduce}"
    command = [
        *("cxrtext", "encode", str(folder / "manifest.csv"), "--out", str(out)),
        *("--backbone", str(folder / "backbone")),
        *(("--reduce", str(reduce)) if reduce else ()),
    ]
    subprocess.run(command, check=True, capture_output=True)
    return out


def main() -> None:
    """Print each kind's milliseconds an image and memory, and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=256)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, json.loads(sys.stdin.read()), options.steps)))
        return
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        drawn = write_data(folder, options.studies)
        of_images = ("data.resize", "data.crop", "model.image")
        settings = [one for one in drawn if not one.startswith(of_images)]
        settings += [f"training.batch={options.batch}", "training.device=cpu"]
        write_backbone(folder / "backbone")
        kept = {reduce: encode(folder, reduce) for reduce in (None, 256)}
        for kind, (reduce, layers) in KINDS.items():
            more = [f"data.features={kept[reduce]}", f"model.alignment={layers}"]
            command = [sys.executable, __file__, "--one", kind, "--steps", str(options.steps)]
            given = json.dumps([*settings, *more, f"out={folder / 'run'}"])
            done = subprocess.run(command, input=given, capture_output=True, text=True, check=True)
            found[kind] = json.loads(done.stdout.splitlines()[-1])
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, batch {options.batch}")
    base = found["768"]["seconds"]
    for kind, one in found.items():
        print(
            f"{kind:16} {1e3 * one['seconds'] / options.batch:8.2f} ms an image, "
            f"{one['memory']:6.0f} MB; over '768': {one['seconds'] / base:6.2f}"
        )


if __name__ == "__main__":
    main()
