"""Batch normalisation over the batch of all processes, on the CPU and on CUDA.

torch's ``SyncBatchNorm`` runs on CUDA only, and a batch divided among processes would otherwise be
normalised part by part: another function than one process computes.
"""

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from cxrtext.training.gather import sum_over_processes


class SyncedBatchNorm(_BatchNorm):
    """A batch norm, [B, C, ...], whose batch statistics are those of all processes."""

    def _check_input_dim(self, input: Tensor) -> None:
        pass

    def forward(self, input: Tensor) -> Tensor:
        """Normalise; in evaluation as any batch norm."""
        if not self.training:
            normalised: Tensor = super().forward(input)
            return normalised
        x = input.float()
        axes = [axis for axis in range(x.ndim) if axis != 1]
        shape = [-1 if axis == 1 else 1 for axis in range(x.ndim)]
        local = torch.cat([x.sum(axes), x.new_tensor([x.numel() / x.shape[1]])])
        totals = sum_over_processes(local)
        count = totals[-1].detach()
        mean = totals[:-1] / count
        centred = x - mean.view(shape)
        # The mean first, then the squares about it: E[x²] − E[x]² loses digits.
        variance = sum_over_processes(centred.square().sum(axes)) / count
        self._learn(mean.detach(), variance.detach(), count)
        y = centred * (variance + self.eps).rsqrt().view(shape)
        if self.affine:
            y = y * self.weight.view(shape) + self.bias.view(shape)
        return y.to(input.dtype)

    @torch.no_grad()
    def _learn(self, mean: Tensor, variance: Tensor, count: Tensor) -> None:
        if self.running_mean is None or self.running_var is None:
            return
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
        momentum = 0.1 if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean, momentum)
        self.running_var.lerp_(variance * (count / (count - 1)), momentum)


def synchronise(module: nn.Module) -> None:
    """Replace the batch norms of a module; parameters, buffers and their names stay."""
    for name, child in module.named_children():
        if isinstance(child, _BatchNorm):
            synced = SyncedBatchNorm(
                child.num_features, child.eps, child.momentum, child.affine, True
            )
            synced.weight, synced.bias = child.weight, child.bias
            synced.running_mean, synced.running_var = child.running_mean, child.running_var
            synced.num_batches_tracked = child.num_batches_tracked
            synced.train(child.training)
            setattr(module, name, synced)
        else:
            synchronise(child)
