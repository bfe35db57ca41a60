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
for step in range(6):
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.zeros(16 * 2**20).add(1.0)  # 64 MiB, twice
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the C library is glibc's on Linux alone")
def test_a_tensor_of_the_same_size_takes_the_memory_of_the_one_before() -> None:
    faults = {
        how: int(subprocess.check_output([sys.executable, "-c", PROGRAM, how], text=True))
        for how in ("given back", "kept")
    }
    assert faults["kept"] * 10 < faults["given back"]
