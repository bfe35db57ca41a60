"""How fast an archive is fetched by following, beside DCMTK's movescu; both from one Orthanc here.

    python benchmarks/pacs/follow.py [--studies 100] [--side 2000]

It starts an Orthanc of its own on loopback (packages orthanc, orthanc-dicomweb, dcmtk), fills it
with square radiographs of 16 bits, and prints images a second, three runs of each in turns.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from cxrtext.pacs.gateway.file import read_gateway  # noqa: E402
from tests.pacs.orthanc import (  # noqa: E402
    PASSWORD,
    PASSWORD_ENV,
    Orthanc,
    follow_into,
    free_port,
    write_gateway,
)
from tests.pacs.studies import instance  # noqa: E402

FOLLOW = {"from": "2024-03-01"}


def movescu(orthanc: Orthanc, port: int, out: Path) -> float:
    """Seconds of one C-MOVE of the day's studies to movescu's own port."""
    out.mkdir()
    command = ["movescu", "-S", "-aet", "MOVESCU", "-aec", orthanc.aet, "-aem", "MOVESCU"]
    command += ["--port", str(port), "-od", str(out), "-k", "QueryRetrieveLevel=STUDY"]
    command += ["-k", "StudyInstanceUID", "127.0.0.1", str(orthanc.dimse_port)]
    studies = orthanc.ask("GET", "/studies?expand").json()
    begun = time.monotonic()
    uids = "\\".join(one["MainDicomTags"]["StudyInstanceUID"] for one in studies)
    command[command.index("StudyInstanceUID")] = f"StudyInstanceUID={uids}"
    subprocess.run(command, check=True, capture_output=True)
    return time.monotonic() - begun


def follow(file: Path, out: Path, studies: int) -> float:
    """Seconds to fetch all into an inbox, synced to disk, with the questions and decisions."""
    begun = time.monotonic()
    tally = follow_into(out, read_gateway(file).peer("web"))
    assert tally.counts["new"] == studies
    return time.monotonic() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--studies", type=int, default=100)
    parser.add_argument("--side", type=int, default=2000, help="pixels")
    given = parser.parse_args()
    studies, side = given.studies, given.side
    os.environ[PASSWORD_ENV] = PASSWORD
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        port = free_port()
        orthanc = Orthanc(folder / "orthanc", modalities={"MOVESCU": port}).start()
        try:
            for number in range(studies):
                orthanc.store([instance(number, size=side)])
            limits = {"parallel": 2, "requests_per_second": 1000}
            file = write_gateway(
                folder / "gateway.yaml",
                orthanc.peer("web", limits=limits, follow=FOLLOW),
            )
            megabytes = studies * side * side * 2 / 1e6
            for turn in range(3):
                plain = movescu(orthanc, port, folder / f"movescu{turn}")
                print(f"movescu   {studies / plain:6.1f} images/s {megabytes / plain:6.0f} MB/s")
                seconds = follow(file, folder / f"follow{turn}", studies)
                print(
                    f"follow    {studies / seconds:6.1f} images/s {megabytes / seconds:6.0f} MB/s, "
                    f"{plain / seconds:.2f} of movescu"
                )
        finally:
            orthanc.kill()


if __name__ == "__main__":
    main()
