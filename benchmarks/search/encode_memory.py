"""Peak memory of ``cxrtext encode``, and of reading its features, by the rows of the manifest.

    python benchmarks/search/encode_memory.py BACKBONE --work DIR [--rows 1000 100000] [--workers 1]

The images are 64 small PNG files; every row names a link of its own to one of them, in a folder of
its own study.  Peaks are ``VmHWM`` of each process, in MB: of the command, the largest of its
workers, and of a process that goes through ``images.csv`` and reads features of 500 batches at
random places.
"""

import argparse
import csv
import os
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
from PIL import Image

FILES = 64
COMMAND = [sys.executable, "-c", "from cxrtext_cli.main import main; main()", "encode"]
READ = """
import sys, numpy as np
from pathlib import Path
from cxrtext.models.features import open_features
found = open_features(Path(sys.argv[1]))
rows = sum(1 for _ in found.rows())
generator = np.random.default_rng(0)
for _ in range(500):
    found.of(generator.integers(0, rows, 64))
print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))
"""


def write(folder: Path, rows: int) -> Path:
    """A manifest of so many rows."""
    manifest = folder / "manifest.csv"
    if manifest.exists():
        return manifest
    (folder / "files").mkdir(parents=True)
    for i in range(FILES):
        pixels = np.random.default_rng(i).integers(0, 255, (48, 48)).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"files/{i}.png")
    with manifest.open("w", newline="") as handle:
        writer = csv.writer(handle)
        writer.writerow(["image", "study_id", "patient_id", "split"])
        for row in range(rows):
            study = folder / f"studies/{row // 100:04d}/s{row:06d}"
            study.mkdir(parents=True)
            os.link(folder / f"files/{row % FILES}.png", study / "view1_frontal.png")
            name = (study / "view1_frontal.png").relative_to(folder)
            split = ("train", "val", "test", "train")[row // 2 % 4]
            writer.writerow([name, f"s{row:06d}", f"p{row // 2:06d}", split])
    return manifest


def peaks_of(command: list[str]) -> tuple[dict[str, int], float]:
    """VmHWM in KB by kind of process, and the seconds of the command."""
    found: dict[str, int] = defaultdict(int)
    begun = time.perf_counter()
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while running.poll() is None:
        for process, kind in family(running.pid):
            found[kind] = max(found[kind], peak(process))
        time.sleep(0.2)
    assert running.returncode == 0
    return found, time.perf_counter() - begun


def family(driver: int) -> list[tuple[int, str]]:
    """A command and those that work for it."""
    members = {driver: "command"}
    for entry in sorted(Path("/proc").glob("[0-9]*"), key=lambda path: int(path.name)):
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            words = (entry / "cmdline").read_text()
        except (OSError, ValueError):
            continue
        if parent in members:
            kind = "worker" if "spawn_main" in words else "reader"
            members[int(entry.name)] = kind
    return [*members.items()]


def peak(process: int) -> int:
    """VmHWM in KB; 0 where the process is gone."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("backbone", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--rows", type=int, nargs="+", default=[1000, 100_000])
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    print("| rows | features | command | worker | reader | reading | seconds |")
    print("|---|---|---|---|---|---|---|")
    for rows in options.rows:
        folder = options.work / str(rows)
        manifest = write(folder, rows)
        out = folder / "features"
        words = [manifest, "--backbone", options.backbone, "--out", out]
        how = ["--workers", options.workers, "--device", "cpu"]
        found, seconds = peaks_of([*COMMAND, *map(str, [*words, *how])])
        read = subprocess.run(
            [sys.executable, "-c", READ, str(out)], check=True, capture_output=True, text=True
        )
        size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
        columns = [found["command"], found["worker"], found["reader"], int(read.stdout)]
        shown = " | ".join(f"{kilobytes / 1024:.0f} MB" for kilobytes in columns)
        print(f"| {rows:,} | {size / 1e6:.0f} MB | {shown} | {seconds:.0f} |", flush=True)


if __name__ == "__main__":
    main()
