"""A pretended GPU: tensors of "cuda" whose values lie on the CPU, so that CUDA's branches run.

As a GPU it refuses operations on tensors of both devices, arrays of its tensors and generators of
the CPU, and it rounds what convolutions read to TF32 unless that is turned off.  It has no streams,
no memory of its own, no NCCL and no kernels: it shows nothing of speed, room or rounding.
"""

import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch.optim import optimizer
from torch.utils import _foreach_utils
from torch.utils._mode_utils import no_dispatch
from torch.utils._pytree import tree_leaves, tree_map_only

HERE = Path(__file__).parent
TORCH = Path(torch.__file__).parent
GIB = 2**30
BACKENDS: Any = torch.backends

properties = SimpleNamespace(major=9, minor=0, name="a pretended GPU", total_memory=80 * GIB)
"""Of the device; tests change ``major``."""
counted: Counter[str] = Counter()
"""Operations that were on the device, by their names."""
waits: Counter[str] = Counter()
"""How often a function of the product waited for the device, by its module and name."""


class MixedDevicesError(RuntimeError):
    """An operation had tensors of both devices."""


class GpuTensor(torch.Tensor):
    """A tensor of the device; ``held`` has its values."""

    held: torch.Tensor
    __torch_function__: Any = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> "GpuTensor":
        made: GpuTensor = torch.Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            layout=held.layout,
            device=torch.device("cuda", 0),
        )
        made.held = held
        return made

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return run(function, args, kwargs or {})

    # With both, a module that is moved keeps its parameters, and those that are tied stay so.
    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["held"], None

    @staticmethod
    def __tensor_unflatten__(held: dict[str, torch.Tensor], *_: Any) -> "GpuTensor":
        return GpuTensor(held["held"])

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.detach().cpu().__reduce_ex__(protocol)

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def numpy(self, *, force: bool = False) -> Any:
        if not force:
            raise TypeError("can't convert cuda:0 device type tensor to numpy")
        return self.detach().cpu().numpy()


COPIES = {"aten::copy_", "aten::_to_copy"}
CONVOLUTIONS = {"aten::convolution", "aten::conv2d"}  # the second in inference mode
READ = {"aten::_local_scalar_dense", "aten::nonzero", "aten::is_nonzero", "aten::equal"}
"""Operations whose result the host needs before it can go on."""
INDEXED = {"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"}


def check(name: str, args: Any, kwargs: Any) -> None:
    """Refuse tensors of both devices; numbers of no dimension and indices may be of the CPU."""
    generator = kwargs.get("generator")
    if generator is not None and generator.device.type == "cpu":
        raise RuntimeError(f"{name}: Expected a 'cuda' device type for generator but found 'cpu'")
    tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
    indices = tree_leaves(args[1]) if name in INDEXED else []
    for tensor in tensors:
        of_cpu = not isinstance(tensor, GpuTensor) and tensor.device.type == "cpu"
        if of_cpu and tensor.dim() and not any(tensor is index for index in indices):
            raise MixedDevicesError(
                f"{name}: Expected all tensors to be on the same device, but found cuda:0 and cpu "
                f"{list(tensor.shape)}"
            )


def note_wait(name: str, args: Any, kwargs: Any) -> None:
    """Count an operation that makes the host wait for the device, by who asked for it."""
    of_device = name == "aten::copy_" and isinstance(args[1], GpuTensor)
    of_device |= name == "aten::_to_copy" and isinstance(args[0], GpuTensor)
    if name == "aten::copy_":
        to_host, blocks = not isinstance(args[0], GpuTensor), not (args[2:] or [False])[0]
    else:
        to_host = torch.device(kwargs.get("device") or "cuda").type == "cpu"
        blocks = not kwargs.get("non_blocking")
    if name not in READ and not (of_device and to_host and blocks):
        return
    frame = sys._getframe()
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if "cxrtext" in path.parts and "tests" not in path.parts:
            inside = path.parts[path.parts.index("cxrtext") + 1 :]
            waits[f"{'/'.join(inside)} {frame.f_code.co_name}"] += 1
            return
        frame = frame.f_back  # type: ignore[assignment]


def tf32(tensor: torch.Tensor) -> torch.Tensor:
    """Rounded to 10 bits, as cuDNN reads float32 from Ampere on."""
    bits = tensor.contiguous().view(torch.int32)
    return ((bits + 0x0FFF + ((bits >> 13) & 1)) & ~0x1FFF).view(torch.float32)


def run(function: Any, args: Any, kwargs: Any) -> Any:
    """Do on the CPU what was asked of the device."""
    name = function._schema.name
    on_device = any(isinstance(t, GpuTensor) for t in tree_leaves((args, kwargs)))
    if on_device and name not in COPIES:
        check(name, args, kwargs)
    if on_device:
        note_wait(name, args, kwargs)
    held_args, held_kwargs = tree_map_only(GpuTensor, lambda t: t.held, (args, kwargs))
    wrap = on_device
    if (target := kwargs.get("device")) is not None:
        wrap = torch.device(target).type == "cuda"
        held_kwargs["device"] = torch.device("cpu")
    held_kwargs.pop("pin_memory", None)
    conv = name in CONVOLUTIONS and held_args[0].dtype == torch.float32
    if wrap and conv and BACKENDS.cudnn.conv.fp32_precision == "tf32":
        held_args = (tf32(held_args[0]), tf32(held_args[1]), *held_args[2:])
    result = function(*held_args, **held_kwargs)
    if not wrap:
        return result
    counted[name] += 1
    if not function._schema.returns:
        return None
    written = written_by(function, args, kwargs)
    if written is not None:
        return written
    aliases = any(one.alias_info is not None for one in function._schema.returns)
    of_plain = aliases and not (isinstance(args[0], GpuTensor) and args[0].is_inference())

    def wrapped(tensor: torch.Tensor) -> torch.Tensor:
        if isinstance(tensor, GpuTensor):
            return tensor
        # A view of a plain tensor is a plain one, also in inference mode.
        with torch.inference_mode(torch.is_inference_mode_enabled() and not of_plain):
            return GpuTensor(tensor)

    return tree_map_only(torch.Tensor, wrapped, result)


def written_by(function: Any, args: Any, kwargs: Any) -> Any:
    """What an operation gives back of its own arguments, which it wrote into; None of others."""
    schema = function._schema
    given = dict(zip((one.name for one in schema.arguments), args, strict=False)) | kwargs
    if not all(one.alias_info is not None and one.alias_info.is_write for one in schema.returns):
        return None
    names = [one.name for one in schema.arguments if one.alias_info and one.alias_info.is_write]
    outs = [given[name] for name in names][: len(schema.returns)]
    for out in outs:
        if isinstance(out, GpuTensor) and (out.size(), out.stride()) != (
            out.held.size(),
            out.held.stride(),
        ):
            with no_dispatch():
                torch.ops.aten.as_strided_(
                    out, out.held.size(), out.held.stride(), out.held.storage_offset()
                )
    return outs[0] if len(outs) == 1 else tuple(outs)


def pinned(tensor: torch.Tensor, *_: Any) -> torch.Tensor:
    assert not isinstance(tensor, GpuTensor), "cannot pin a tensor of the device"
    return tensor.clone()


MADE = ("arange", "linspace", "logspace", "eye", "full", "randperm", "tril_indices", "triu_indices")
"""Made by torch without asking the device's operations, unless these are registered."""
NOTHING = (
    "_lazy_init", "set_device", "synchronize", "manual_seed", "manual_seed_all", "empty_cache",
    "reset_peak_memory_stats",
)  # fmt: skip
ZERO = (
    "current_device", "_exchange_device", "_maybe_exchange_device", "memory_allocated",
    "max_memory_allocated", "memory_reserved",
)  # fmt: skip
_libraries: list[torch.library.Library] = []


def build(folder: Path) -> Path:
    """Compile what is in C++."""
    made = folder / "pretend.so"
    include = TORCH / "include"
    subprocess.run(
        ["g++", "-std=c++20", "-O0", "-fPIC", "-shared", f"-I{include}",
         f"-I{include}/torch/csrc/api/include", HERE / "pretend.cpp", "-o", made,
         f"-L{TORCH}/lib", "-lc10", "-ltorch_cpu"],
        check=True,
    )  # fmt: skip
    return made


def install() -> None:
    """Give this process, which has loaded what :func:`build` made, the device; for good."""
    others = torch.library.Library("_", "IMPL", "CUDA")
    others.fallback(lambda function, *args, **kwargs: run(function, args, kwargs))
    aten = torch.library.Library("aten", "IMPL", "CUDA")
    aten.impl("copy_", lambda *args, **kw: run(torch.ops.aten.copy_.default, args, kw))
    for name in MADE:
        packet = getattr(torch.ops.aten, name)
        for function in (getattr(packet, overload) for overload in packet.overloads()):
            takes = any(one.name == "device" for one in function._schema.arguments)
            if takes and not function._overloadname.endswith("out"):
                aten.impl(function, lambda *args, f=function, **kw: run(f, args, kw))
    _libraries.extend([others, aten])  # they undo their work when they are let go
    pretended: dict[str, Any] = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "is_initialized": lambda: True,
        "get_device_properties": lambda *_: properties,
        "get_device_capability": lambda *_: (properties.major, properties.minor),
        "get_device_name": lambda *_: properties.name,
        # One function a name: Dynamo refuses those of two.
        **{name: (lambda *_, **__: None) for name in NOTHING},
        **{name: (lambda *_: 0) for name in ZERO},
        # What is drawn on the device is drawn by the CPU's generator.
        "get_rng_state": lambda *_: torch.get_rng_state(),
        "set_rng_state": lambda state, *_: torch.set_rng_state(state),
        "_is_in_bad_fork": lambda: False,
    }
    for name, value in pretended.items():
        setattr(torch.cuda, name, value)
        if hasattr(torch.cuda.random, name):
            setattr(torch.cuda.random, name, value)
    torch.cuda._initialized = True
    torch.Tensor.pin_memory = pinned  # type: ignore[method-assign, assignment]
    for module in (_foreach_utils, optimizer):
        types = module._foreach_supported_types
        if GpuTensor not in types:
            types.append(GpuTensor)
