"""Memory and seconds of a training step on an A100 and an H100: an estimate, no GPU is measured.

    python benchmarks/training/gpu_estimate.py [--batches 16 64 256] [--size 480]

Counts operations and saved activations of the image encoder and BERT-base on meta tensors,
in bfloat16, without computing anything.  Seconds are operations over the rate that NVIDIA published
for training ResNet-50 at 224 pixels with mixed precision on one A100: 2,470 images a second (Deep
Learning Examples, PyTorch 21.03).  An H100 is taken to be faster by its memory bandwidth, 3.35
against 2.04 TB/s, since convolutions with batch norms wait for memory.  Memory is weights,
gradients and AdamW's moments in float32, and the saved activations; kernels take some more.
"""

import argparse
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from cxrtext.models.image_encoder import ImageEncoder
from cxrtext.models.text_encoder import TextEncoder, text_config

A100_IMAGES, A100_SIZE, H100_FACTOR = 2470.0, 224, 3.35 / 2.04
SENTENCES, PIECES = 1, 40  # an image, and of each
STATE_BYTES = 16  # a weight: itself, its gradient and two moments
BERT_BASE = {
    "model_type": "bert",
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
}


def count(module: nn.Module, forward: Callable[[], Tensor]) -> tuple[float, int]:
    """Operations of a step, forward and backward, and bytes that it saves between them."""
    own = {parameter.untyped_storage()._cdata for parameter in module.parameters()}
    saved: dict[int, tuple[int, Tensor]] = {}  # tensors are kept, so that no address is used twice

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in own:
            saved[storage._cdata] = storage.nbytes(), tensor
        return tensor

    hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
    with FlopCounterMode(display=False) as counter, hooks:
        forward().float().sum().backward()
    return float(counter.get_total_flops()), sum(size for size, _ in saved.values())


def image_step(architecture: str, batch: int, size: int) -> tuple[float, int, int]:
    """Operations, saved bytes and weights of the image encoder."""
    encoder = ImageEncoder(architecture, 128).to("meta", torch.bfloat16).train()
    images = torch.empty(batch, 1, size, size, device="meta", dtype=torch.bfloat16)
    operations, saved = count(encoder, lambda: encoder(images))
    return operations, saved, sum(p.numel() for p in encoder.parameters())


def text_step(sentences: int) -> tuple[float, int, int]:
    """The same of the text encoder."""
    encoder = TextEncoder(text_config(BERT_BASE), 128).to("meta", torch.bfloat16).train()
    pieces = torch.zeros(sentences, PIECES, dtype=torch.long, device="meta")
    operations, saved = count(encoder, lambda: encoder(pieces, None))
    return operations, saved, sum(p.numel() for p in encoder.parameters())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, nargs="+", default=[16, 64, 256])
    parser.add_argument("--size", type=int, default=480)
    options = parser.parse_args()
    rate = A100_IMAGES * image_step("resnet50", 1, A100_SIZE)[0]  # operations a second
    print(f"Estimates from operations on meta tensors; {options.size} px, bfloat16, BERT-base")
    print("\n| image encoder | batch | TFLOP a step | memory GB | A100 s | H100 s |")
    print("|---|---|---|---|---|---|")
    for architecture in ("resnet18", "resnet50"):
        for batch in options.batches:
            parts = image_step(architecture, batch, options.size), text_step(batch * SENTENCES)
            operations, saved, weights = map(sum, zip(*parts, strict=True))
            memory = (saved + weights * STATE_BYTES) / 1e9
            seconds = operations / rate
            print(
                f"| {architecture} | {batch} | {operations / 1e12:.1f} | {memory:.0f} "
                f"| {seconds:.3f} | {seconds / H100_FACTOR:.3f} |"
            )


if __name__ == "__main__":
    main()
