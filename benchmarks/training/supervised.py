"""How much a supervised ResNet learns from a data folder's labels: what zero-shot is held against.

    cxrtext phantom data --studies 4000 --size 128
    python benchmarks/training/supervised.py data --size 128

Trains on the "train" split with binary cross-entropy, one output a label, and prints the area under
the ROC curve on the "test" split by finding.  With ``--zero-shot metrics.json``, as ``cxrtext
evaluate`` writes it, that is printed beside.
"""

import argparse
import json
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cxrtext.errors import ImageError
from cxrtext.evaluation.data import read_data_folder
from cxrtext.evaluation.metrics import area_under_curve
from cxrtext.images import Preprocessing, ReaderPool
from cxrtext.images.augment import center_crop, change_gray, crops, draw_views
from cxrtext.models.image_encoder import ARCHITECTURES, ImageEncoder
from cxrtext.records import ImageRecord

CHEX5 = ("Cardiomegaly", "Edema", "Pleural Effusion", "Pneumonia", "Pneumothorax")


class Classifier(nn.Module):
    """A ResNet, the mean of its regions, and one logit a finding."""

    def __init__(self, architecture: str, findings: int) -> None:
        super().__init__()
        encoder = ImageEncoder(architecture)
        self.backbone = encoder.backbone
        self.head = nn.Linear(encoder.projection.in_features, findings)

    def forward(self, images: Tensor) -> Tensor:
        """[B, 1, H, W] -> logits [B, F]."""
        states = self.backbone(images).last_hidden_state.mean(dim=(2, 3))
        logits: Tensor = self.head(states)
        return logits


def read_pixels(records: Sequence[ImageRecord], size: int) -> Tensor:
    """The images as 8-bit squares, [n, 1, size, size]."""
    square = Preprocessing(resize=size, crop=size)
    pixels = []
    with ReaderPool() as pool:
        for image in pool.map([record.path for record in records], square=square):
            if isinstance(image, ImageError):
                raise SystemExit(str(image))
            pixels.append(image.pixels)
    return torch.from_numpy(np.stack(pixels))


def read_labels(
    records: Sequence[ImageRecord],
    labels: Mapping[str, Mapping[str, int | None]],
    findings: Sequence[str],
) -> Tensor:
    """[n, F]: 1, 0, or NaN where uncertain or unknown."""
    rows = [[labels[r.study_id].get(finding) for finding in findings] for r in records]
    return torch.tensor([[math.nan if v not in (0, 1) else float(v) for v in row] for row in rows])


def prepared(images: Tensor) -> Tensor:
    """Gray values of 8 bits to about zero mean and unit variance."""
    return ((images - 0.5) / 0.25).contiguous(memory_format=torch.channels_last)


def train(
    model: Classifier, pixels: Tensor, truth: Tensor, options: argparse.Namespace, crop: int
) -> None:
    """AdamW with a cosine schedule; random crops, brightness and contrast."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr, weight_decay=0.05)
    generator = torch.Generator().manual_seed(options.seed)
    batches = len(pixels) // options.batch
    total, done = options.epochs * batches, 0
    for epoch in range(options.epochs):
        begun, sum_loss = time.perf_counter(), 0.0
        for rows in torch.randperm(len(pixels), generator=generator)[
            : batches * options.batch
        ].split(options.batch):
            for group in optimizer.param_groups:
                warm = min(1.0, (done + 1) / 30)
                group["lr"] = options.lr * warm * (1 + math.cos(math.pi * done / total)) / 2
            places = draw_views(len(rows), pixels.shape[-1], crop, generator)
            images = crops(pixels[rows], places, crop).float() / 255
            amounts = draw_views(len(rows), 1, 1, generator, brightness=0.1, contrast=0.1)
            images = prepared(change_gray(images, amounts))
            model.train()
            with torch.autocast("cpu", torch.bfloat16, enabled=not options.float32):
                logits = model(images)
            known = ~truth[rows].isnan()
            loss = F.binary_cross_entropy_with_logits(logits.float()[known], truth[rows][known])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            done, sum_loss = done + 1, sum_loss + loss.item()
        spent = time.perf_counter() - begun
        print(f"epoch {epoch + 1}: loss {sum_loss / batches:.4f}, {spent:.0f} s", flush=True)


@torch.inference_mode()
def predict(model: Classifier, pixels: Tensor, crop: int) -> Tensor:
    """Logits of the center crops, [n, F]."""
    model.eval()
    images = center_crop(pixels, crop).float() / 255
    return torch.cat([model(prepared(part)) for part in images.split(128)])


def areas(logits: Tensor, truth: Tensor) -> list[float | None]:
    """Area under the curve of each finding; None where a class is missing."""
    found: list[float | None] = []
    for values, labels in zip(logits.T, truth.T, strict=True):
        known = ~labels.isnan()
        sides = labels[known].unique()
        found.append(area_under_curve(values[known], labels[known]) if len(sides) == 2 else None)
    return found


def main() -> None:
    """Train and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--architecture", choices=ARCHITECTURES, default="resnet18")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--float32", action="store_true")
    parser.add_argument("--zero-shot", type=Path, help="metrics.json of cxrtext evaluate")
    options = parser.parse_args()
    folder = read_data_folder(options.data)
    if folder.labels is None:
        raise SystemExit(f"{options.data}: has no labels.csv")
    findings = list(next(iter(folder.labels.values())))
    parts = {s: [r for r in folder.records if r.split == s] for s in ("train", "test")}
    truth = {split: read_labels(r, folder.labels, findings) for split, r in parts.items()}
    pixels = {split: read_pixels(records, options.size) for split, records in parts.items()}
    torch.manual_seed(options.seed)
    model = Classifier(options.architecture, len(findings)).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    crop = options.size * 7 // 8 // 16 * 16
    train(model, pixels["train"], truth["train"], options, crop)
    found = dict(
        zip(findings, areas(predict(model, pixels["test"], crop), truth["test"]), strict=True)
    )
    zero = json.loads(options.zero_shot.read_text()) if options.zero_shot else {}
    print_table(found, {k: v["auc"] for k, v in zero.get("classification", {}).items()})


def print_table(supervised: Mapping[str, float | None], zero_shot: Mapping[str, float]) -> None:
    """Print both by finding, CheX5 first with their mean."""
    print("| finding | supervised | zero-shot |\n|---|---|---|")

    def cell(value: float | None) -> str:
        return "" if value is None else f"{value:.3f}"

    for finding in (*CHEX5, *(name for name in supervised if name not in CHEX5)):
        print(f"| {finding} | {cell(supervised.get(finding))} | {cell(zero_shot.get(finding))} |")
    means = [
        [values[name] for name in CHEX5 if values.get(name) is not None]
        for values in (supervised, zero_shot)
    ]
    cells = [cell(float(np.mean(known)) if known else None) for known in means]
    print(f"| mean of CheX5 | {cells[0]} | {cells[1]} |")


if __name__ == "__main__":
    main()
