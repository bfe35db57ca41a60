"""An encoder with the mean and deviation of the images that it was trained on."""

from pathlib import Path

import torch
from torch import Tensor, nn

from cxrtext.errors import CheckpointError
from cxrtext.models.small_encoders import build_small_encoder
from cxrtext.models.weight_files import load_sealed, save_sealed

FILE = "encoder.safetensors"


class ViewEncoder(nn.Module):
    """A small encoder that standardises its images by itself.

    Args:
        name: See :func:`~cxrtext.models.small_encoders.build_small_encoder`.
        channels: C.
        width: Channels of the first stage.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, name: str, channels: int, width: int) -> None:
        super().__init__()
        self.shape = {"name": name, "channels": channels, "width": width}
        self.body = build_small_encoder(name, channels=channels, width=width)
        self.features = self.body.features
        self.register_buffer("mean", torch.zeros(channels, 1, 1))
        self.register_buffer("deviation", torch.ones(channels, 1, 1))

    def forward(self, images: Tensor) -> Tensor:
        """Embed images in [0, 1], [B, C, H, W] -> [B, ``features``]."""
        standard = (images - self.mean) / self.deviation
        features: Tensor = self.body(standard.contiguous(memory_format=torch.channels_last))
        return features


def channel_statistics(images: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and deviation of each channel, in [0, 1].

    Args:
        images: [n, C, H, W], 8-bit.

    Returns:
        Twice [C, 1, 1], float32; a channel that is the same everywhere has deviation 1.
    """
    channels = images.shape[1]
    levels = torch.arange(256, dtype=torch.float64)
    means, deviations = [], []
    for channel in range(channels):
        count = torch.bincount(images[:, channel].flatten().int(), minlength=256).cpu().double()
        mean = (count * levels).sum() / count.sum()
        deviation = ((count * (levels - mean) ** 2).sum() / count.sum()).sqrt()
        means.append(mean / 255)
        deviations.append(deviation / 255 if deviation > 0 else torch.ones_like(deviation))
    return tuple(torch.stack(v).float().view(-1, 1, 1) for v in (means, deviations))  # type: ignore[return-value]


def save_encoder(encoder: ViewEncoder, out: Path) -> Path:
    """Write ``encoder.safetensors`` into a folder, whole or not at all; returns the file."""
    save_sealed(out / FILE, encoder.state_dict(), encoder.shape)
    return out / FILE


def load_encoder(out: Path, *, device: str | torch.device = "cpu") -> ViewEncoder:
    """Read the encoder of a run.

    Args:
        out: The run's folder.
        device: Where to put it.

    Returns:
        The encoder, in evaluation mode.

    Raises:
        CheckpointError: There is none, or it is damaged.
    """
    path = out / FILE
    if not path.is_file():
        raise CheckpointError(f"{path}: not there; train the encoder to its last step first")
    try:
        shape, tensors = load_sealed(path)
        encoder = ViewEncoder(**shape)
        encoder.load_state_dict(tensors)
    except (OSError, ValueError, TypeError, KeyError, RuntimeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:120]
        raise CheckpointError(
            f"{path}: not an encoder as it was written ({reason}); train it again"
        ) from None
    return encoder.to(device, memory_format=torch.channels_last).eval()  # type: ignore[call-overload, no-any-return]


@torch.no_grad()
def encode(encoder: nn.Module, images: Tensor, *, batch: int = 512) -> Tensor:
    """Features of images, in evaluation mode; the encoder's mode stays as it was.

    Args:
        encoder: From :func:`load_encoder` or a run.
        images: [n, C, H, W], 8-bit, on any device.
        batch: Images at once.

    Returns:
        [n, F], float32, on the encoder's device.
    """
    device = next(encoder.parameters()).device
    training = encoder.training
    encoder.eval()
    try:
        parts = [encoder(part.to(device).float().div_(255)) for part in images.split(batch)]
    finally:
        encoder.train(training)
    return torch.cat(parts).float()
