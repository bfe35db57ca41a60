"""Which devices multiply bfloat16 faster than float32."""

import torch


def has_bfloat16(device: torch.device) -> bool:
    """Whether a device has units for bfloat16; others would emulate it, slower than float32.

    Those are GPUs that support it, and processors with AVX-512 BF16 or AMX, as torch reports them.
    """
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    has: dict[str, object] = getattr(torch.cpu, "get_capabilities", dict)()  # not in older ones
    return bool(has.get("avx512_bf16") or has.get("amx_bf16"))
