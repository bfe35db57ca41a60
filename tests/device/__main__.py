"""``python -m tests.device LIBRARY FOLDER``: the work of ``on_device`` under the pretended GPU."""

import ctypes
import sys
from importlib.util import find_spec
from pathlib import Path

# PyTorch asks once what CUDA can do, while it is imported: the answer must be there before.
torch = find_spec("torch")
assert torch is not None
assert torch.origin is not None
libraries = Path(torch.origin).parent / "lib"
for library in (libraries / "libc10.so", libraries / "libtorch_cpu.so", Path(sys.argv[1])):
    ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)

from tests.device.on_device import main  # noqa: E402 - it imports PyTorch

main(Path(sys.argv[2]))
