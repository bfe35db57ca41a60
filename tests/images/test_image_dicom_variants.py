"""Every kind of file of ``benchmarks/images`` is read as the reference reads it."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks/images/dicom_variants.py"


def test_no_kind_of_file_is_read_wrongly() -> None:
    done = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, "\n".join(
        line for line in (done.stdout + done.stderr).splitlines() if "wrong" in line
    )
    assert done.stdout.count("\n| ") >= 140  # more where DCMTK is installed
