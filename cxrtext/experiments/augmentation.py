"""SimCLR's augmentation of a batch of small images, on its own device.

The random amounts are drawn on the CPU (:func:`draw_simclr`), apart from the pixels, as in
:mod:`cxrtext.images.augment`.  The steps have a fixed order: crop and flip, brightness, contrast,
saturation, hue, gray, blur.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from cxrtext.images.augment import sampled

ATTEMPTS = 10  # windows drawn; if none fits, the whole image is used
CHUNK = 64  # images that a CPU changes at once, so that they stay in its cache
_LUMA = (0.299, 0.587, 0.114)


@dataclass(frozen=True, slots=True)
class SimclrSpec:
    """How strongly images are changed; the defaults are SimCLR's for CIFAR-10.

    ``scale`` and ``ratio`` bound a window's share of the area, and its width over height.
    ``flip``, ``jitter`` (of brightness, contrast, saturation and hue), ``gray`` and ``blur`` are
    probabilities.  The amounts are the largest relative changes; the hue's is in turns of the color
    circle, at most 1/2.  Saturation, hue and gray do not change images of one channel.
    ``blur_sigma`` and ``blur_size`` (odd) are in pixels.

    Source: Chen et al. 2020 (SimCLR), sections A and B.9; strength 0.5.
    """

    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: float = 0.5
    jitter: float = 0.8
    brightness: float = 0.4
    contrast: float = 0.4
    saturation: float = 0.4
    hue: float = 0.1
    gray: float = 0.2
    blur: float = 0.0
    blur_sigma: tuple[float, float] = (0.1, 2.0)
    blur_size: int = 3


@dataclass(frozen=True, slots=True)
class SimclrDraws:
    """How to change each of B images; on the CPU.

    ``values`` [10, B], float32: a window's left, top, width and height, as shares of the image's;
    1 or −1 for a mirror image; the factors of brightness, contrast and saturation; the turn of
    the hue; 0 for gray, else 1.  ``sigma`` [B]: deviation of the blur in pixels, 0 for none.
    """

    values: Tensor
    sigma: Tensor

    def __len__(self) -> int:
        return len(self.sigma)

    def __getitem__(self, rows: slice) -> "SimclrDraws":
        return SimclrDraws(self.values[:, rows], self.sigma[rows])

    def pin_memory(self) -> "SimclrDraws":
        """A copy in page-locked memory."""
        return SimclrDraws(self.values.pin_memory(), self.sigma)


def draw_simclr(count: int, spec: SimclrSpec, generator: torch.Generator) -> SimclrDraws:
    """Draw windows, flips and amounts.

    The area of a window is uniform and its width over height log-uniform; its place is uniform and
    not bound to whole pixels.  Windows that do not fit into the (square) image are drawn again.
    """
    width, height = _window_sizes(count, spec, generator)
    u = torch.rand(11, count, generator=generator)
    around = u[4:8] * 2 - 1
    changed = (u[3] < spec.jitter).float()
    amounts = torch.tensor([spec.brightness, spec.contrast, spec.saturation])[:, None]
    rows = [
        u[0] * (1 - width),
        u[1] * (1 - height),
        width,
        height,
        1 - 2 * (u[2] < spec.flip).float(),
        *(1 + around[:3] * amounts * changed),
        around[3] * spec.hue * changed,
        (u[8] >= spec.gray).float(),
    ]
    low, high = spec.blur_sigma
    return SimclrDraws(torch.stack(rows), (low + (high - low) * u[9]) * (u[10] < spec.blur))


def _window_sizes(
    count: int, spec: SimclrSpec, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Width and height of the first window that fits, as shares of the image's."""
    u = torch.rand(2, ATTEMPTS, count, generator=generator)
    area = spec.scale[0] + (spec.scale[1] - spec.scale[0]) * u[0]
    low, high = (math.log(value) for value in spec.ratio)
    ratio = torch.exp(low + (high - low) * u[1])
    width, height = (area * ratio).sqrt(), (area / ratio).sqrt()
    fits = (width <= 1) & (height <= 1)
    first = fits.float().argmax(dim=0, keepdim=True)  # 0 if none fits
    none = ~fits.any(dim=0)
    chosen = (values.gather(0, first)[0].masked_fill(none, 1.0) for values in (width, height))
    return next(chosen), next(chosen)


def simclr(images: Tensor, draws: SimclrDraws, spec: SimclrSpec) -> Tensor:
    """Change 8-bit images [B, 1 or 3, H, W] as drawn, into float32 in [0, 1]."""
    if images.device.type != "cpu" or len(images) <= CHUNK:
        return _changed(images, draws, spec)
    chunks = [slice(first, first + CHUNK) for first in range(0, len(images), CHUNK)]
    return torch.cat([_changed(images[rows], draws[rows], spec) for rows in chunks])


def _changed(images: Tensor, draws: SimclrDraws, spec: SimclrSpec) -> Tensor:
    values = draws.values.to(images.device, non_blocking=True)
    seen = resized_crop(images, values[:5]).div_(255.0)
    if spec.jitter:
        seen = jitter_colors(seen, values[5:9], turn_hue=spec.hue > 0)
    if spec.gray and images.shape[1] == 3:
        seen = torch.lerp(_luma(seen), seen, values[9].view(-1, 1, 1, 1))
    return blurred(seen, draws.sigma, spec.blur_size) if spec.blur else seen


def resized_crop(images: Tensor, windows: Tensor) -> Tensor:
    """Cut a window out of each image and enlarge it to full size, in one bilinear pass.

    Windows [5, B] are left, top, width, height, 1 or −1 for a mirror image; see
    :func:`cxrtext.images.augment.sampled`.
    """
    left, top, width, height, side = windows
    zero = torch.zeros_like(left)
    rows = [width * side, zero, 2 * left + width - 1, zero, height, 2 * top + height - 1]
    return sampled(images, rows, (images.shape[-2], images.shape[-1]))


def jitter_colors(images: Tensor, amounts: Tensor, *, turn_hue: bool = True) -> Tensor:
    """Change brightness, contrast, saturation and hue, in this order, each clipped to [0, 1].

    Brightness multiplies; contrast and saturation stretch away from the image's mean gray value,
    and from the pixel's own.  Images of one channel keep saturation and hue.  Amounts [4, B] are
    three factors, and the turn of the hue as part of the circle.  The images, float32 in [0, 1],
    may be changed in place.
    """
    brightness, contrast, saturation, hue = amounts.view(4, -1, 1, 1, 1)
    images = images.mul_(brightness).clamp_(0, 1)
    images = torch.lerp(_luma(images).mean(dim=(2, 3), keepdim=True), images, contrast)
    images = images.clamp_(0, 1)
    if images.shape[1] == 1:
        return images
    images = torch.lerp(_luma(images), images, saturation).clamp_(0, 1)
    return _turned(images, hue[:, 0]) if turn_hue else images


def _luma(images: Tensor) -> Tensor:
    """Gray values, [B, C, H, W] -> [B, 1, H, W]."""
    if images.shape[1] == 1:
        return images
    red, green, blue = images.split(1, dim=1)
    gray: Tensor = red * _LUMA[0]
    return gray.add_(green, alpha=_LUMA[1]).add_(blue, alpha=_LUMA[2])


def _turned(images: Tensor, turn: Tensor) -> Tensor:
    """Turn the hue of RGB images, keeping HSV's saturation and value.

    Let h be the hue in sixths of the circle and c the largest minus the smallest channel; then a
    channel is ``max − c · clip(min(k, 4 − k), 0, 1)``, ``k = (n + h) mod 6``, n = 5, 3, 1 for R, G,
    B.
    """
    red, green, blue = images.unbind(1)
    largest = torch.maximum(torch.maximum(red, green), blue)  # three times as fast as max(dim=1)
    chroma = largest - torch.minimum(torch.minimum(red, green), blue)
    scale = chroma.clamp(min=1e-12).reciprocal_()
    hue = torch.where(green == largest, (blue - red) * scale + 2, (red - green) * scale + 4)
    hue = torch.where(red == largest, (green - blue) * scale, hue) + 6 * turn
    channels = []
    for n in (5, 3, 1):
        k = (hue + n).remainder_(6)
        share = torch.minimum(k, 4 - k).clamp_(0, 1)
        channels.append(torch.addcmul(largest, chroma, share, value=-1))
    return torch.stack(channels, dim=1)


def blurred(images: Tensor, sigma: Tensor, size: int) -> Tensor:
    """Blur some of the images, in place, mirrored at their edges.

    ``sigma`` [B], on the CPU, is a Gaussian's deviation in pixels; 0 leaves an image as it is.
    The window's side is odd, and less than twice the image's.
    """
    rows = sigma.nonzero().flatten()
    if not len(rows) or size == 1:
        return images
    half = size // 2
    weights = torch.exp(-(torch.arange(-half, half + 1) ** 2) / (2 * sigma[rows, None] ** 2))
    weights = (weights / weights.sum(dim=1, keepdim=True)).to(images.device)[:, None, None, None]
    rows = rows.to(images.device)
    chosen = F.pad(images[rows], [half] * 4, mode="reflect")
    height, width = images.shape[-2:]
    for axis, extent in ((-1, width), (-2, height)):
        taps = [chosen.narrow(axis, k, extent) * weights[..., k] for k in range(size)]
        chosen = torch.stack(taps).sum(dim=0)
    return images.index_copy_(0, rows, chosen)
