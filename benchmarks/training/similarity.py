"""LSE+NL for a batch: ours against the formula broadcast over all pairs, regions and dimensions.

    python benchmarks/training/similarity.py [--batches 128 512] [--repeat 3] [--threads 1]

Every variant runs in a process of its own and computes the score matrix [S, B] of one batch,
S = B, at N = 225 regions and D = 128, forward and backward.  Theirs is what one writes first:
products [S, B, N, D] of regions and sentences (``broadcast``), where those fit into memory, and
matrix products of one image with all sentences, image after image (``loop``).  Memory is
the rise of the process's peak over what it held with its inputs: resident memory on the CPU,
allocated memory on CUDA, which is measured too where there is one.  Bags have q = r in both.
"""

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import time

REGIONS, DIMENSION, LAM = 225, 128, 10.0
LARGEST_BROADCAST = 128


def worker(variant: str, batch: int, repeat: int, threads: int, device: str) -> None:
    """Run one variant and print its figures as JSON."""
    import torch
    import torch.nn.functional as F
    from torch import Tensor

    from cxrtext.models.similarity import lse_nl

    def broadcast(regions: Tensor, texts: Tensor, lam: float) -> Tensor:
        scores = (regions * texts[:, None, None]).sum(dim=-1)  # [S, B, N], over [S, B, N, D]
        soft = (torch.logsumexp(lam * scores, dim=-1) - math.log(REGIONS)) / lam
        index = scores.argmax(dim=-1)[..., None, None].expand(-1, -1, 1, DIMENSION)
        critical = regions.expand(len(texts), -1, -1, -1).gather(2, index)  # [S, B, 1, D]
        weights = F.softmax((regions * critical).sum(dim=-1) / math.sqrt(DIMENSION), dim=-1)
        bags = F.normalize((weights[..., None] * regions).sum(dim=-2), dim=-1)  # [S, B, D]
        return (soft + (bags * texts[:, None]).sum(dim=-1)) / 2

    def loop(regions: Tensor, texts: Tensor, lam: float) -> Tensor:
        columns = []
        for image in regions:  # [N, D]
            scores = texts @ image.T  # [S, N]
            soft = (torch.logsumexp(lam * scores, dim=-1) - math.log(REGIONS)) / lam
            critical = image[scores.argmax(dim=-1)]  # [S, D]
            weights = F.softmax(critical @ image.T / math.sqrt(DIMENSION), dim=-1)  # [S, N]
            bags = F.normalize(weights @ image, dim=-1)
            columns.append((soft + (bags * texts).sum(dim=-1)) / 2)
        return torch.stack(columns, dim=1)

    torch.set_num_threads(threads)
    generator = torch.Generator().manual_seed(0)

    def unit(*shape: int) -> Tensor:
        drawn = F.normalize(torch.randn(*shape, generator=generator), dim=-1)
        return drawn.to(device).requires_grad_()

    regions, texts = unit(batch, REGIONS, DIMENSION), unit(batch, DIMENSION)
    function = {"ours": lse_nl, "broadcast": broadcast, "loop": loop}[variant]
    # A first call loads what later calls share, and is not measured.
    function(regions[:2], texts[:2], LAM).sum().backward()
    on_gpu = device == "cuda"
    before = torch.cuda.memory_allocated() if on_gpu else resident()
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    forward, backward = [], []
    for _ in range(repeat):
        regions.grad = texts.grad = None
        begun = now(on_gpu)
        loss = (function(regions, texts, LAM) ** 2).sum()
        half = now(on_gpu)
        loss.backward()
        forward.append(half - begun)
        backward.append(now(on_gpu) - half)
    peak = torch.cuda.max_memory_allocated() if on_gpu else peak_resident()
    assert regions.grad is not None
    figures = {
        "forward": min(forward),
        "backward": min(backward),
        "bytes": max(peak - before, 1),
        "loss": float(loss.detach()),
        "grad": float(regions.grad.norm()),
    }
    print(json.dumps(figures))


def now(on_gpu: bool) -> float:
    """Seconds, once the device has done its work."""
    if on_gpu:
        import torch

        torch.cuda.synchronize()
    return time.perf_counter()


def resident() -> int:
    with open("/proc/self/statm") as file:  # noqa: PTH123
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def peak_resident() -> int:
    """The most that there were."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(variant: str, batch: int, repeat: int, threads: int, device: str) -> dict[str, float]:
    """Figures of one variant in a process of its own."""
    arguments = [variant, str(batch), str(repeat), str(threads), device]
    command = [sys.executable, __file__, "--worker", *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def show(title: str, figures: dict[str, float]) -> None:
    print(
        f"{title:28} {figures['forward']:9.3f} {figures['backward']:9.3f} "
        f"{figures['forward'] + figures['backward']:9.3f} {figures['bytes'] / 2**20:9.0f}",
        flush=True,
    )


def compare(batch: int, repeat: int, threads: int, device: str) -> None:
    """Measure and print ours, theirs and the ratios at one size."""
    size = f"{batch} x {batch} {device}"
    ours = measure("ours", batch, repeat, threads, device)
    show(f"{size} ours", ours)
    for other in ("loop", "broadcast") if batch <= LARGEST_BROADCAST else ("loop",):
        theirs = measure(other, batch, repeat, threads, device)
        show(f"{size} {other}", theirs)
        times = [theirs[k] / ours[k] for k in ("forward", "backward")]
        total = (theirs["forward"] + theirs["backward"]) / (ours["forward"] + ours["backward"])
        memory = theirs["bytes"] / ours["bytes"]
        print(f"{size + ' ratio':28} {times[0]:9.2f} {times[1]:9.2f} {total:9.2f} {memory:9.2f}")
        for name in ("loss", "grad"):
            assert math.isclose(ours[name], theirs[name], rel_tol=1e-4), (name, ours, theirs)


def main() -> None:
    if sys.argv[1:2] == ["--worker"]:
        variant, batch, repeat, threads, device = sys.argv[2:]
        worker(variant, int(batch), int(repeat), int(threads), device)
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batches", type=int, nargs="+", default=[128, 512])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    import torch

    load = os.getloadavg()[0]
    print(f"{options.threads} threads; load of the machine {load:.1f} on {os.cpu_count()} cores")
    print(f"{'':28} {'forward s':>9} {'backward':>9} {'both':>9} {'peak MiB':>9}")
    for device in ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]:
        for batch in options.batches:
            compare(batch, options.repeat, options.threads, device)


if __name__ == "__main__":
    main()
