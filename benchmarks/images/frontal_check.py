"""The check of what a picture is (`cxrtext.images.frontal`): train it, and count its errors.

    python benchmarks/images/frontal_check.py train --frontals DATA/manifest.csv
    python benchmarks/images/frontal_check.py evaluate frontal=DATA/images lateral=DIR other=DIR
    python benchmarks/images/frontal_check.py drawn

The first draws phantoms and foreign pictures, takes the images of split "train" of manifests that
are named as well, and writes the weights into the package.  The second counts, of image files by
what they are, how each kind is called, and what it takes; frontals are also turned, mirrored and
inverted.  The third does so on drawn pictures of other seeds.  Training needs torch.
"""

import argparse
import csv
import math
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from foreign import FOREIGN, LATERALS, draw_foreign
from PIL import Image
from torch import Tensor, nn

from cxrtext.errors import ImageError
from cxrtext.images import read_image
from cxrtext.images.frontal import FRONTAL, KINDS, SIDE, Network, look
from cxrtext.phantom import write_phantoms

WEIGHTS = Path(__file__).parents[2] / "cxrtext/images/frontal/weights.npz"
DRAWN = 96  # side of what is trained on
CHANNELS = (16, 32, 64, 96)
HIDDEN = 64
BATCH = 160
# How often each kind is shown.
SHARES = {"frontal": 0.26, "lateral": 0.16, "turned": 0.1, "mirrored": 0.1, "inverted": 0.1}
ODDS = {"frontal": 3.0, "mirrored": 0.1}


def phantoms(count: int, seed: int) -> Tensor:
    """Draw frontal phantoms, [count, 96, 96] in [0, 1]."""
    with tempfile.TemporaryDirectory() as folder:
        write_phantoms(Path(folder) / "set", studies=count, size=DRAWN, seed=seed, workers=1)
        return pictures(sorted((Path(folder) / "set/images").iterdir()))


def pictures(paths: Sequence[Path]) -> Tensor:
    """Read images, squeezed to [n, 96, 96] in [0, 1]."""
    read = [Image.fromarray((read_image(path)[0] * 255).astype(np.uint8)) for path in paths]
    small = [np.asarray(one.resize((DRAWN, DRAWN), Image.Resampling.BOX)) for one in read]
    return torch.from_numpy(np.stack(small)).float() / 255


def training_images(manifest: Path) -> list[Path]:
    """Name the images of split "train"."""
    with manifest.open(newline="") as handle:
        rows = list(csv.DictReader(handle))
    return [manifest.parent / row["image"] for row in rows if row["split"] == "train"]


def drawings(kinds: Sequence[str], count: int, seed: int) -> Tensor:
    """Draw as many pictures of each kind, [n, 96, 96]."""
    made = [
        draw_foreign(kind, np.random.default_rng([seed, place, number]), DRAWN)
        for place, kind in enumerate(kinds)
        for number in range(count)
    ]
    return torch.from_numpy(np.stack(made))


class Model(nn.Module):
    """The network of `cxrtext.images.frontal`, to be trained."""

    def __init__(self) -> None:
        super().__init__()
        sizes = (1, *CHANNELS)
        self.convolutions = nn.ModuleList(
            nn.Conv2d(a, b, 3, stride=2, padding=1) for a, b in zip(sizes, CHANNELS, strict=False)
        )
        self.norms = nn.ModuleList(nn.BatchNorm2d(b) for b in CHANNELS)
        flat = CHANNELS[-1] * (SIDE >> len(CHANNELS)) ** 2
        self.hidden = nn.Linear(flat, HIDDEN)
        self.last = nn.Linear(HIDDEN, len(KINDS))

    def forward(self, x: Tensor) -> Tensor:
        """Give logits, [n, 64, 64] -> [n, 6]."""
        x = x[:, None]
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = F.relu(norm(convolution(x)))
        x = F.dropout(x.permute(0, 2, 3, 1).flatten(1), 0.3, self.training)
        return self.last(F.dropout(F.relu(self.hidden(x)), 0.2, self.training))

    def plain(self, bias: Tensor) -> Network:
        """Give its weights in NumPy, the norms merged; ``bias`` is added to the logits."""
        layers = []
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
            weights = convolution.weight * scale[:, None, None, None]
            biases = (convolution.bias - norm.running_mean) * scale + norm.bias
            layers.append((weights.permute(2, 3, 1, 0).detach().numpy(), biases.detach().numpy()))
        dense = [
            (self.hidden.weight.T.detach().numpy(), self.hidden.bias.detach().numpy()),
            (self.last.weight.T.detach().numpy(), (self.last.bias + bias).detach().numpy()),
        ]
        return Network(layers, dense)


def mangled(x: Tensor, generator: np.random.Generator) -> Tensor:
    """Make something of frontals that is none any more, though its texture is theirs."""
    out = []
    for picture in x:
        choice = generator.integers(5)
        if choice == 0:  # a part, far too near
            side = int(generator.integers(DRAWN // 5, int(DRAWN * 0.4)))
            top, left = generator.integers(0, DRAWN - side, 2)
            part = picture[top : top + side, left : left + side]
        elif choice == 1:  # one half, stretched
            half = (
                picture[:, : DRAWN // 2] if generator.random() < 0.5 else picture[:, DRAWN // 2 :]
            )
            part = half[: int(DRAWN * generator.uniform(0.6, 1))]
        elif choice == 2:  # several in one
            count = int(generator.integers(2, 4))
            down = count if generator.random() < 0.5 else 1
            part = picture.repeat(down, count)
        elif choice == 3:  # quarters in another order
            h = DRAWN // 2
            parts = [picture[:h, :h], picture[:h, h:], picture[h:, :h], picture[h:, h:]]
            order = generator.permutation(4)
            while (order == np.arange(4)).sum() > 1:
                order = generator.permutation(4)
            a, b, c, d = (parts[i] for i in order)
            part = torch.cat([torch.cat([a, b], 1), torch.cat([c, d], 1)])
        else:  # small on a page
            part = torch.full((DRAWN, DRAWN), float(generator.random()))
            side = int(generator.integers(DRAWN // 5, int(DRAWN * 0.45)))
            top, left = generator.integers(0, DRAWN - side, 2)
            small = F.interpolate(picture[None, None], (side, side), mode="area")[0, 0]
            part[top : top + side, left : left + side] = small
        out.append(F.interpolate(part[None, None], (DRAWN, DRAWN), mode="bilinear")[0, 0])
    return torch.stack(out)


def turned(x: Tensor, generator: np.random.Generator) -> Tensor:
    """Lay pictures on a side or on their head, some mirrored as well."""
    out = []
    for picture in x:
        quarter = int(generator.integers(1, 4))
        moved = torch.rot90(picture, quarter)
        out.append(moved.flip(1) if generator.random() < 0.25 else moved)
    return torch.stack(out)


def uniform(n: int, low: float, high: float) -> Tensor:
    """Give numbers for n pictures, [n, 1, 1]."""
    return low + (high - low) * torch.rand(n, 1, 1)


def moved(x: Tensor) -> Tensor:
    """Crop, pad, tilt and squeeze, [n, 96, 96] -> [n, 64, 64]."""
    n = len(x)
    angle = torch.randn(n) * 0.07
    wide, high = torch.exp(torch.randn(n) * 0.12), torch.exp(torch.randn(n) * 0.12)
    shift = torch.randn(n, 2) * 0.08
    rows = torch.stack(
        [
            torch.stack([wide * angle.cos(), -angle.sin(), shift[:, 0]], 1),
            torch.stack([angle.sin(), high * angle.cos(), shift[:, 1]], 1),
        ],
        1,
    )
    grid = F.affine_grid(rows, [n, 1, SIDE, SIDE], align_corners=False)
    soft = F.avg_pool2d(x[:, None], 2, 1, padding=0)
    background = (torch.rand(n, 1, 1, 1) < 0.15) * torch.rand(n, 1, 1, 1)
    found = F.grid_sample(soft - background, grid, align_corners=False) + background
    return found[:, 0]


def limits(x: Tensor) -> tuple[Tensor, Tensor]:
    """Give the 1st and 99th percentile of pictures, each [n, 1, 1], of every seventh pixel."""
    values = x.flatten(1)[:, ::7].sort(1).values
    last = values.shape[1] - 1
    return values[:, round(0.01 * last), None, None], values[:, round(0.99 * last), None, None]


def exposed(x: Tensor) -> Tensor:
    """Change contrast, light, sharpness and noise; cover borders and corners."""
    n = len(x)
    low, high = limits(x)
    x = ((x - low) / (high - low).clamp(min=1e-3)).clamp(0, 1)
    x = x ** torch.exp(torch.randn(n, 1, 1) * 0.45)
    bend = uniform(n, 0, 1) * (torch.rand(n, 1, 1) < 0.4)
    x = (1 - bend) * x + bend * torch.sigmoid((x - uniform(n, 0.3, 0.7)) * uniform(n, 4, 12))
    axis = torch.linspace(-1, 1, SIDE)
    light = torch.randn(n, 1, 1) * axis[None, :, None] + torch.randn(n, 1, 1) * axis[None, None]
    x = x + 0.06 * light
    blurred = F.avg_pool2d(F.pad(x[:, None], (1, 1, 1, 1), mode="replicate"), 3, 1)[:, 0]
    x = x + uniform(n, -0.8, 1) * (blurred - x)
    x = x + torch.randn_like(x) * uniform(n, 0, 0.08) * (torch.rand(n, 1, 1) < 0.5)
    rows, columns = axis[None, :, None], axis[None, None, :]
    edges = 1 - 0.3 * torch.rand(4, n, 1, 1) * (torch.rand(4, n, 1, 1) < 0.25)
    inside = (rows > -edges[0]) & (rows < edges[1]) & (columns > -edges[2]) & (columns < edges[3])
    x = torch.where(inside, x, (torch.rand(n, 1, 1) < 0.15).float())
    for _ in range(2):  # markers, plates, words
        center, half = uniform(2 * n, -1, 1).view(2, n, 1, 1), uniform(2 * n, 0.01, 0.13)
        half = half.view(2, n, 1, 1)
        patch = ((rows - center[0]).abs() < half[0]) & ((columns - center[1]).abs() < half[1])
        x = torch.where(patch & (torch.rand(n, 1, 1) < 0.4), torch.rand(n, 1, 1), x)
    return x


def normalized(x: Tensor) -> Tensor:
    """Do what `prepare` does after it has made a picture small."""
    low, high = limits(x)
    x = torch.minimum(torch.maximum(x, low), high)
    mean, deviation = x.mean((1, 2), keepdim=True), x.std((1, 2), keepdim=True, correction=0)
    return (x - mean) / (deviation + 1e-3)


class Source:
    """Batches of pictures, made anew each time."""

    def __init__(self, real: Tensor, drawn: Tensor, lateral: Tensor, other: Tensor) -> None:
        self.real, self.drawn, self.lateral, self.other = real, drawn, lateral, other
        self.generator = np.random.default_rng(0)

    def frontals(self, count: int) -> Tensor:
        """Half of them real where there are any, now and then two of a kind mixed."""
        taken = []
        for part, share in ((self.real, 0.6), (self.drawn, 0.4)):
            wanted = round(count * (share if len(self.real) else float(part is self.drawn)))
            if len(part) and wanted:
                taken.append(part[torch.randint(len(part), (wanted,))])
        x = torch.cat(taken)[:count]
        if len(x) < count:
            x = torch.cat([x, self.drawn[torch.randint(len(self.drawn), (count - len(x),))]])
        x = x[torch.randperm(count)]
        weight = uniform(count, 0, 0.4) * (torch.rand(count, 1, 1) < 0.3)
        return (1 - weight) * x + weight * x[torch.randperm(count)]

    def batch(self) -> tuple[Tensor, Tensor]:
        """Give pictures [n, 64, 64] and their kinds [n]."""
        counts = {kind: round(BATCH * share) for kind, share in SHARES.items()}
        lateral = self.lateral[torch.randint(len(self.lateral), (counts["lateral"],))]
        flip = torch.rand(len(lateral)) < 0.5
        lateral = torch.where(flip[:, None, None], lateral.flip(2), lateral)
        rest = BATCH - sum(counts.values())
        other = self.other[torch.randint(len(self.other), (rest - rest // 3,))]
        dark = torch.rand(len(other), 1, 1) < 0.2
        other = torch.where(dark, 1 - other, other)
        for quarter in (1, 2, 3):
            some = torch.rand(len(other)) < 0.1
            other = torch.where(some[:, None, None], torch.rot90(other, quarter, (1, 2)), other)
        parts = {
            "frontal": self.frontals(counts["frontal"]),
            "lateral": lateral,
            "turned": turned(self.frontals(counts["turned"]), self.generator),
            "mirrored": self.frontals(counts["mirrored"]).flip(2),
            "inverted": 1 - self.frontals(counts["inverted"]),
            "other": torch.cat([other, mangled(self.frontals(rest // 3), self.generator)]),
        }
        x = torch.cat([parts[kind] for kind in KINDS])
        y = torch.cat([torch.full((len(parts[kind]),), n) for n, kind in enumerate(KINDS)])
        return normalized(exposed(moved(x))), y


def train(manifests: Sequence[Path], steps: int, out: Path) -> None:
    torch.manual_seed(0)
    paths = [path for manifest in manifests for path in training_images(manifest)]
    real = pictures(paths) if paths else torch.empty(0, DRAWN, DRAWN)
    source = Source(
        real,
        phantoms(800, seed=20_000),
        drawings(list(LATERALS), 2500, seed=1),
        drawings(list(FOREIGN), 220, seed=2),
    )
    print(f"{len(real)} real frontals, {len(source.drawn)} phantoms, {len(source.other)} others")
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3, weight_decay=0.02)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps)
    started, right = time.monotonic(), 0.0
    for step in range(1, steps + 1):
        x, y = source.batch()
        logits = model(x)
        loss = F.cross_entropy(logits, y, label_smoothing=0.02)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        right = 0.98 * right + 0.02 * float((logits.argmax(1) == y).float().mean())
        if step % 100 == 0:
            seconds = time.monotonic() - started
            save(model, out)
            print(f"step {step}: loss {loss.item():.3f}, right {right:.3f}, {seconds:.0f} s")
    save(model, out)
    print(f"{out}: {out.stat().st_size} bytes")


def write_network(network: Network) -> bytes:
    """Give a network as a file of 16-bit floats."""
    arrays = {}
    for kind, layer in (("conv", network.convolutions), ("dense", network.dense)):
        for number, (weights, biases) in enumerate(layer):
            arrays[f"{kind}{number}.weight"] = weights.astype(np.float16)
            arrays[f"{kind}{number}.bias"] = biases.astype(np.float16)
    buffer = BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def save(model: Model, out: Path) -> None:
    """Write the weights; in archives most images are frontals, and few are mirrored."""
    bias = torch.tensor([math.log(ODDS.get(kind, 1.0)) for kind in KINDS])
    out.write_bytes(write_network(model.plain(bias)))


def variants(pixels: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Give a frontal as it is, and as it should not be."""
    yield FRONTAL, pixels
    yield "mirrored", pixels[:, ::-1]
    yield "inverted", 1 - pixels
    for quarter in (1, 2, 3):
        yield "turned", np.rot90(pixels, quarter)


def table(counts: dict[str, Counter[str]]) -> str:
    """Show how each kind was called."""
    lines = ["| is | images | " + " | ".join(KINDS) + " | not frontal |", "|---" * 9 + "|"]
    for kind, found in counts.items():
        cells = " | ".join(str(found[name]) for name in KINDS)
        missed = 1 - found[FRONTAL] / max(found.total(), 1)
        lines.append(f"| {kind} | {found.total()} | {cells} | {100 * missed:.1f} % |")
    return "\n".join(lines)


def evaluate(folders: Sequence[str]) -> None:
    """Count the answers for folders of images, each named with what it holds."""
    counts: dict[str, Counter[str]] = {}
    seconds = []
    for entry in folders:
        kind, equals, folder = entry.partition("=")
        if not equals or not Path(folder).is_dir():
            raise SystemExit(f"{entry}: give what a folder holds and the folder: frontal=DIR")
        for path in sorted(one for one in Path(folder).rglob("*") if one.is_file()):
            try:
                pixels = read_image(path, frame=0)[0]
            except ImageError:
                continue
            for name, picture in variants(pixels) if kind == FRONTAL else [(kind, pixels)]:
                started = time.perf_counter()
                answer = look(np.ascontiguousarray(picture)).kind
                seconds.append(time.perf_counter() - started)
                counts.setdefault(name, Counter())[answer] += 1
    print(table(counts))
    print(f"{1000 * float(np.median(seconds)):.2f} ms an image (median of {len(seconds)})")


def drawn(count: int) -> None:
    """Count the answers for drawn pictures of other seeds than those trained on."""
    counts: dict[str, Counter[str]] = {}
    for picture in phantoms(count, seed=31_000).numpy():
        for name, one in variants(picture):
            counts.setdefault(name, Counter())[look(np.ascontiguousarray(one)).kind] += 1
    for kind in (*LATERALS, *FOREIGN):
        for picture in drawings([kind], count, seed=77).numpy():
            counts.setdefault(kind, Counter())[look(picture).kind] += 1
    print(table(counts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    training = commands.add_parser("train")
    training.add_argument("--frontals", type=Path, action="append", default=[])
    training.add_argument("--steps", type=int, default=1200)
    training.add_argument("--out", type=Path, default=WEIGHTS)
    commands.add_parser("evaluate").add_argument("folders", nargs="+")
    commands.add_parser("drawn").add_argument("--count", type=int, default=50)
    given = parser.parse_args()
    if given.command == "train":
        train(given.frontals, given.steps, given.out)
    elif given.command == "evaluate":
        evaluate(given.folders)
    else:
        drawn(given.count)


if __name__ == "__main__":
    main()
