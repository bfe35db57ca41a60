"""Images a second a core through backbones of several kinds and sizes, and what features take.

    python benchmarks/training/backbones.py [--images 3] [--batch 1] [--only NAME,NAME]
        [--json FILE]

Networks have the configurations of the published ones and random weights, which cost the same; each
is written as a folder, loaded by `load_backbone`, and runs in a process of its own with one thread.
Time is processor time, so that what else the machine does counts little; the best of some batches
is taken.  An image is prepared from a drawn one of 2,500 x 2,048 pixels in 8 bits, already decoded.
The last columns multiply: they are not measured.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

ARCHIVE = 100_000
SMALL = {"hidden_size": 384, "num_attention_heads": 6, "intermediate_size": 1536}
BASE = {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}
SO400M = {"hidden_size": 1152, "num_attention_heads": 16, "intermediate_size": 4304}
NETWORKS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "vit-small-224": ("vit", 224, {**SMALL, "patch_size": 16}),
    "dinov2-base-224": ("dinov2", 224, {**BASE, "patch_size": 14}),
    "dinov2-base-518": ("dinov2", 518, {**BASE, "patch_size": 14}),
    "dinov2-registers-base-224": ("dinov2_with_registers", 224, {**BASE, "patch_size": 14}),
    "dinov3-base-224": ("dinov3_vit", 224, {**BASE, "num_register_tokens": 4}),
    "clip-base-224": ("clip_vision_model", 224, {**BASE, "patch_size": 16}),
    "siglip-so400m-448": (
        "siglip_vision_model",
        448,
        {**SO400M, "num_hidden_layers": 27, "patch_size": 14, "vision_use_head": False},
    ),
    "resnet-50-480": ("resnet", 480, {}),
    "swin-tiny-224": ("swin", 224, {}),
    "convnext-tiny-224": ("convnext", 224, {}),
}
"""By name: model_type, side of the crop, and what differs from the configuration's defaults."""


def write_folder(folder: Path, model_type: str, size: int, values: dict[str, Any]) -> None:
    """A folder of a network with random weights."""
    from cxrtext.models.backbones.table import BACKBONES

    config_class, model_class = BACKBONES[model_type].classes()
    known = config_class().to_dict()
    values = {name: value for name, value in values.items() if name in known}
    with torch.device("meta"):
        model = model_class(
            config_class(**values, **({"image_size": size} if "image_size" in known else {}))
        )
    model.to_empty(device="cpu")
    for name, tensor in model.state_dict().items():
        if tensor.is_floating_point():
            tensor.uniform_(-0.04, 0.04)
            if name.endswith(("norm.weight", "normalization.weight", "running_var")):
                tensor.fill_(1)
    model.save_pretrained(folder)
    processor = {"image_processor_type": "BitImageProcessor", "size": {"shortest_edge": size}}
    (folder / "preprocessor_config.json").write_text(json.dumps({**processor, "crop_size": size}))


def best(work: Callable[[], object], images: int) -> float:
    """Seconds of the processor that the fastest of ``images`` calls took; one more comes before."""
    taken = []
    for _ in range(images + 1):
        before = time.process_time()
        work()
        taken.append(time.process_time() - before)
    return min(taken[1:])


def measure(name: str, images: int, batch: int) -> dict[str, Any]:
    """What one backbone costs, an image."""
    from cxrtext.models.backbones import load_backbone
    from cxrtext.models.backbones.golden import draw
    from cxrtext.models.precision import has_bfloat16

    torch.set_num_threads(1)
    model_type, size, values = NETWORKS[name]
    with tempfile.TemporaryDirectory() as temporary:
        write_folder(Path(temporary), model_type, size, values)
        backbone = load_backbone(Path(temporary))
    picture = torch.from_numpy(draw()).float()[None]
    large = torch.nn.functional.interpolate(picture, (2500, 2048)).byte()[0].numpy()
    pixels = torch.from_numpy(backbone.preprocessing.prepare(large)).repeat(batch, 1, 1, 1)
    h, w = backbone.grid
    found: dict[str, Any] = {
        "name": name,
        "parameters": sum(p.numel() for p in backbone.parameters()),
        "grid": [h, w],
        "bytes": h * w * backbone.channels * 2,
        "prepare": best(lambda: backbone.preprocessing.prepare(large), 5),
    }
    with torch.inference_mode():
        found["float32"] = best(lambda: backbone(pixels), images) / batch
        if has_bfloat16(pixels.device):
            found["bfloat16"] = best(lambda: backbone(pixels, precision="bfloat16"), images) / batch
    found["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return found


def row(one: dict[str, Any]) -> str:
    """A line of the table."""
    seconds = [one.get(name) for name in ("float32", "bfloat16")]
    rates = [f"{1 / (x + one['prepare']):.2f}" if x else "–" for x in seconds]
    hours = [f"{ARCHIVE * (x + one['prepare']) / 3600:,.0f}" if x else "–" for x in seconds]
    cells = [
        one["name"],
        f"{one['parameters'] / 1e6:.0f} M",
        f"{one['grid'][0]} × {one['grid'][1]}",
        f"{1000 * one['prepare']:.0f}",
        *rates,
        f"{one['memory'] / 1e9:.1f}",
        f"{one['bytes'] / 1e6:.2f}",
        *hours,
        f"{ARCHIVE * one['bytes'] / 1e9:,.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Measure each in its own process and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=3)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--only", default=",".join(NETWORKS))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, options.images, options.batch)))
        return
    print(
        "| backbone | parameters | grid | prepare, ms | images/s float32 | bfloat16 | GB memory "
        "| MB an image | core hours for 100,000, float32 | bfloat16 | GB for 100,000 |\n"
        "|---|---|---|---|---|---|---|---|---|---|---|"
    )
    found = []
    for name in options.only.split(","):
        command = [sys.executable, __file__, "--one", name]
        command += ["--images", str(options.images), "--batch", str(options.batch)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stderr)
        found.append(json.loads(done.stdout.splitlines()[-1]))
        print(row(found[-1]), flush=True)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
