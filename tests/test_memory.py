"""Memory that is freed and needed again."""

import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
import torch
from cxrtext.memory import keep_memory
if sys.argv[1] == "kept":
    keep_memory()
torch.set_num_threads(1)
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.zeros(16 * 2**20).add(1.0)  # 64 MiB, twice
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print(min(faults() for _ in range(8)))  # now and then the two do not lie side by side
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the C library is glibc's on Linux alone")
def test_a_tensor_of_the_same_size_takes_the_memory_of_the_one_before() -> None:
    faults = {
        how: int(subprocess.check_output([sys.executable, "-c", PROGRAM, how], text=True))
        for how in ("given back", "kept")
    }
    assert faults["kept"] * 10 < faults["given back"]
