"""The Orthanc that is shipped (docker/orthanc): who may send, and that many may at once."""

import json
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import which

import pytest

from tests.pacs.orthanc import PASSWORD, PASSWORD_ENV, SHIPPED, Known, Orthanc, follow_into, started
from tests.pacs.studies import BEGIN, instance, uid

pytestmark = [
    pytest.mark.peers,
    pytest.mark.skipif(which("storescu") is None, reason="needs dcmtk"),
]
SENDERS, EACH = 50, 2


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Orthanc]:
    """It as it is shipped, but for its folder and its ports, where XRAY1 may send."""
    monkeypatch.setenv(PASSWORD_ENV, PASSWORD)
    known = {"xray": {"AET": "XRAY1", "Host": "127.0.0.1", "Port": 104, "AllowStore": True}}
    more = {"DicomAlwaysAllowStore": False, "DicomModalities": known, "DicomScpTimeout": 600}
    with started(tmp_path / "orthanc", OverwriteInstances=True, **more) as orthanc:
        yield orthanc


def send(orthanc: Orthanc, folder: Path, title: str = "XRAY1") -> int:
    return subprocess.run(
        ["storescu", "-ta", "600", "+sd", "-aet", title, "-aec", orthanc.aet, "127.0.0.1",
         str(orthanc.dimse_port), str(folder)],
        capture_output=True, check=False, timeout=900,
    ).returncode  # fmt: skip


def test_fifty_associations_at_once_are_all_stored_and_followed_once(
    shipped: Orthanc, known: Known, tmp_path: Path
) -> None:
    folders = [tmp_path / "sent" / str(number) for number in range(SENDERS)]
    for number, folder in enumerate(folders):
        folder.mkdir(parents=True)
        for place in range(1, EACH + 1):
            data = instance(number, place, size=16)
            (folder / f"{place}.dcm").write_bytes(data)
    assert send(shipped, folders[0], "STRANGER") != 0
    assert shipped.instances() == []
    with ThreadPoolExecutor(SENDERS) as pool:
        assert set(pool.map(lambda folder: send(shipped, folder), folders)) == {0}
    assert len(shipped.instances()) == SENDERS * EACH
    peer = known(shipped.peer(follow={"from": BEGIN.isoformat(), "at": "00:00"}))
    found = follow_into(tmp_path / "inbox", peer)
    assert str(found) == f"{SENDERS * EACH} new, 0 corrected, 0 gone, 0 left out, 0 failed"
    # A correction under the same UID takes the place of what was there, and comes, too.
    corrected = tmp_path / "corrected"
    corrected.mkdir()
    (corrected / "1.dcm").write_bytes(instance(1, 1, size=16, PatientSex="M"))
    assert send(shipped, corrected) == 0
    found = follow_into(tmp_path / "inbox", peer)
    assert str(found) == "0 new, 1 corrected, 0 gone, 0 left out, 0 failed"
    assert uid(1, 1, 1) in shipped.instances()


def test_the_example_for_a_site_fits_what_is_shipped() -> None:
    base = json.loads(SHIPPED.read_text())
    site = json.loads((SHIPPED.parent / "site.example.json").read_text())
    assert site.keys() == {"RegisteredUsers", "DicomModalities"}
    assert not base.keys() & site.keys(), "Orthanc refuses what two of its files say"
    assert base["AuthenticationEnabled"]
    assert not base["DicomAlwaysAllowStore"]
