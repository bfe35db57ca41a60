"""LSE+NL for a batch: bags once an image, against the formula written pair by pair.

Prints seconds for one score matrix [S, B] of both, their ratio, and the largest difference.
"""

import argparse
import time

import torch
import torch.nn.functional as F
from torch import Tensor

from cxrtext.models.similarity import lse_nl


def pair_by_pair(regions: Tensor, texts: Tensor, lam: float) -> Tensor:
    """METHOD section 3 as it is written: the bag is computed anew for every pair."""
    scores = torch.empty(len(texts), len(regions))
    for i, text in enumerate(texts):
        for j, image in enumerate(regions):
            h = image @ text
            soft = (torch.logsumexp(lam * h, 0) - torch.log(torch.tensor(float(len(h))))) / lam
            critical = image[h.argmax()]
            weights = F.softmax(image @ critical / image.shape[1] ** 0.5, dim=0)
            scores[i, j] = (soft + F.normalize(weights @ image, dim=0) @ text) / 2
    return scores


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--regions", type=int, default=225)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    generator = torch.Generator().manual_seed(0)
    shape = (options.batch, options.regions, 128)
    regions = F.normalize(torch.randn(*shape, generator=generator), dim=-1)
    texts = F.normalize(torch.randn(options.batch, 128, generator=generator), dim=-1)
    results = {}
    with torch.inference_mode():
        for name, function in (("ours", lse_nl), ("plain", pair_by_pair)):
            times = []
            for _ in range(options.repeat):
                begun = time.perf_counter()
                scores = function(regions, texts, 10.0)
                times.append(time.perf_counter() - begun)
            results[name] = (min(times), scores)
            print(f"{name:6} {min(times):.4f} s for {options.batch} x {options.batch} scores")
    ratio = results["plain"][0] / results["ours"][0]
    difference = float((results["plain"][1] - results["ours"][1]).abs().max())
    print(f"ratio  {ratio:.1f}   largest difference {difference:.1e}")


if __name__ == "__main__":
    main()
