"""A whole SimCLR step: ours against a plain PyTorch loop that does the same work.

    python benchmarks/training/simclr.py [--batch 128] [--width 64] [--steps 10] [--device auto]

Both train the same ResNet-18 for small images (3×3 stem) with a head of two layers, InfoNCE of
2 · batch views and Adam, on drawn 32×32 images in memory.  Theirs is what one writes first: a
``Dataset`` that crops, flips, jitters and grays each view with PIL (as torchvision's transforms
do), batches put together in this process or in ``--workers``, and a cross-entropy over
similarities.  Ours is ``cxrtext.experiments.simclr``: views are made on the device.  Both are
measured in turns in the same run; on CUDA both use bfloat16.
"""

import argparse
import math
import time
from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageEnhance
from torch import Tensor, nn

WARM = 3
GAMMA_SQ = 2.0


def drawn(count: int) -> Tensor:
    """Smooth noise, [count, 3, 32, 32], 8-bit."""
    coarse = torch.rand(count, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    return (F.interpolate(coarse, size=32, mode="bicubic").clamp(0, 1) * 255).byte()


def ours(images: Tensor, options: argparse.Namespace, device: torch.device) -> Iterator[float]:
    """A step a turn; gives its loss."""
    from cxrtext.config import InfoNce
    from cxrtext.experiments.simclr.losses import ViewSet, ViewSettings
    from cxrtext.experiments.simclr.train import build_view_job
    from cxrtext.training.loop.job import train_steps

    settings = ViewSettings(
        InfoNce(name="info-nce"),
        encoder="resnet18",
        width=options.width,
        head=(512, 128),
        steps=10**6,
        batch=options.batch,
        lr=1e-3,
        gamma_sq=GAMMA_SQ,
        precision="bfloat16" if device.type == "cuda" else "float32",
    )
    for report in train_steps(build_view_job(ViewSet(images), settings, device)):
        yield report.loss


class Pairs(torch.utils.data.Dataset[tuple[Tensor, Tensor]]):
    """Two views of an image, each made by PIL when it is asked for."""

    def __init__(self, images: Tensor) -> None:
        self.pictures = [Image.fromarray(image.permute(1, 2, 0).numpy()) for image in images]

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, row: int) -> tuple[Tensor, Tensor]:
        return view(self.pictures[row]), view(self.pictures[row])


def view(picture: Image.Image) -> Tensor:
    """Crop, flip, jitter and gray one image, [3, 32, 32] in [0, 1], standardised."""
    side = picture.width
    for _ in range(10):
        area = (0.08 + 0.92 * float(torch.rand(()))) * side * side
        ratio = math.exp((2 * float(torch.rand(())) - 1) * math.log(4 / 3))
        width, height = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if width <= side and height <= side:
            break
    else:
        width = height = side
    left, top = (int(torch.randint(side - extent + 1, ())) for extent in (width, height))
    box = (left, top, left + width, top + height)
    picture = picture.resize((side, side), Image.Resampling.BILINEAR, box=box)
    if torch.rand(()) < 0.5:
        picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    if torch.rand(()) < 0.8:
        factors = (1 + 0.4 * (2 * torch.rand(3) - 1)).tolist()
        for enhance, factor in zip(
            (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color),
            factors,
            strict=True,
        ):
            picture = enhance(picture).enhance(factor)
        hue, saturation, value = picture.convert("HSV").split()
        turned = np.asarray(hue).astype(np.int16) + int(25.5 * (2 * float(torch.rand(())) - 1))
        parts = (Image.fromarray((turned % 256).astype(np.uint8)), saturation, value)
        picture = Image.merge("HSV", parts).convert("RGB")
    if torch.rand(()) < 0.2:
        picture = picture.convert("L").convert("RGB")
    return (torch.from_numpy(np.array(picture)).permute(2, 0, 1).float() / 255 - 0.5) / 0.25


def theirs(images: Tensor, options: argparse.Namespace, device: torch.device) -> Iterator[float]:
    """A step a turn; gives its loss."""
    from cxrtext.experiments.simclr.encoders import build_small_encoder

    encoder = build_small_encoder("resnet18", channels=3, width=options.width)
    head = nn.Sequential(nn.Linear(encoder.features, 512), nn.ReLU(), nn.Linear(512, 128))
    model = nn.Sequential(encoder, head).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loader = torch.utils.data.DataLoader(
        Pairs(images),
        batch_size=options.batch,
        shuffle=True,
        drop_last=True,
        num_workers=options.workers,
        persistent_workers=options.workers > 0,
        pin_memory=device.type == "cuda",
    )
    half = device.type == "cuda"
    while True:
        for one, other in loader:
            batch = torch.cat([one, other]).to(device, non_blocking=True)
            with torch.autocast(device.type, dtype=torch.bfloat16, enabled=half):
                embedded = F.normalize(model(batch).float(), dim=1)
            scores = GAMMA_SQ * embedded @ embedded.T
            scores.fill_diagonal_(-torch.inf)
            count = len(one)
            target = torch.arange(2 * count, device=device).roll(count)
            loss = F.cross_entropy(scores, target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield loss.item()


def seconds(steps: Iterator[float], count: int) -> float:
    """Time of so many steps; each ends with its loss on the CPU."""
    begun = time.perf_counter()
    for _ in range(count):
        next(steps)
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--width", type=int, default=64, help="of the ResNet's first stage")
    parser.add_argument("--steps", type=int, default=10, help="measured in each of the rounds")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--workers", type=int, default=0, help="of the plain loop")
    options = parser.parse_args()
    chosen = options.device
    if chosen == "auto":
        chosen = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(chosen)
    images = drawn(max(1024, options.batch))
    runs = {"ours": ours(images, options, device), "plain loop": theirs(images, options, device)}
    times: dict[str, list[float]] = {name: [] for name in runs}
    for steps in runs.values():
        seconds(steps, WARM)
    for _ in range(options.rounds):
        for name, steps in runs.items():
            times[name].append(options.steps / seconds(steps, options.steps))
    print(
        f"torch {torch.__version__}, {device}, {torch.get_num_threads()} threads, "
        f"batch {options.batch}, width {options.width}, {options.workers} workers of the plain loop"
    )
    one, other = (float(np.median(times[name])) for name in runs)
    print(f"ours {one:.2f} steps/s   plain loop {other:.2f} steps/s   ratio {one / other:.2f}")


if __name__ == "__main__":
    main()
