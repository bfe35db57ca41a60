"""A real Orthanc on loopback for tests, with a configuration and a storage of its own."""

import json
import secrets
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import which
from typing import Any

import httpx2
import pytest
import yaml

from cxrtext.pacs.inbox.queue import Inbox
from cxrtext.pacs.peers import Peer
from cxrtext.pacs.retrieval.follow import Tally, follow_peer

Known = Callable[[Mapping[str, Any]], Peer]

PROGRAM = "/usr/sbin/Orthanc"
PLUGIN = Path("/usr/share/orthanc/plugins/libOrthancDicomWeb.so")
SHIPPED = Path(__file__).parents[2] / "docker/orthanc/orthanc.json"
USER, PASSWORD = "cxrtext", "a-password-that-must-not-be-shown"
PASSWORD_ENV = "CXRTEXT_TEST_PACS_PASSWORD"


def free_port() -> int:
    """A port that is free until it is taken by its number: below those that are given out."""
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


class Orthanc:
    """An Orthanc in a folder; it keeps its ports and its images over stops and kills."""

    aet = "CXRTEXT"

    def __init__(
        self,
        folder: Path,
        *,
        modalities: Mapping[str, int] | None = None,
        **settings: Any,
    ) -> None:
        """Make its folder.

        Args:
            modalities: Titles that may ask over DIMSE, and the port where each listens.
            settings: Of its configuration.
        """
        self.folder = folder
        self.http_port, self.dimse_port = free_port(), free_port()
        self.rest = f"http://127.0.0.1:{self.http_port}"
        self.url = f"{self.rest}/dicom-web"
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self._config = folder / "orthanc.json"
        known = {
            name: {"AET": name, "Host": "127.0.0.1", "Port": port}
            for name, port in (modalities or {}).items()
        }
        own = {
            "StorageDirectory": str(folder / "storage"),
            "IndexDirectory": str(folder / "storage"),
            "HttpPort": self.http_port,
            "DicomPort": self.dimse_port,
            "DicomAlwaysAllowStore": True,
            **dict.fromkeys(("DicomScuTimeout", "DicomScpTimeout"), 600),  # 10 and 30 by default
            "DicomModalities": known,
            "RegisteredUsers": {USER: PASSWORD},
            "RemoteAccessAllowed": False,
            "OverwriteInstances": False,  # as other PACS have it
            "StableAge": 1,
            "DicomAssociationCloseDelay": 0,
        }
        shipped = json.loads(SHIPPED.read_text())
        self._config.write_text(json.dumps({**shipped, **own, **settings}))
        self._http = httpx2.Client(
            base_url=self.rest,
            auth=(USER, PASSWORD),
            timeout=600,
            trust_env=False,
            limits=httpx2.Limits(max_keepalive_connections=0),  # none outlives a kill or a test
        )

    def start(self) -> "Orthanc":
        """Start it, and wait until it answers (3 to 4 seconds)."""
        with (self.folder / "orthanc.log").open("ab") as log:
            self._process = subprocess.Popen(
                [PROGRAM, str(self._config)],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        for _ in range(6000):
            if self._process.poll() is not None:
                raise RuntimeError((self.folder / "orthanc.log").read_text()[-2000:])
            try:
                if self._http.get("/system").status_code == 200:
                    return self
            except httpx2.HTTPError:
                time.sleep(0.1)
        raise RuntimeError("Orthanc did not start within ten minutes")

    def kill(self) -> None:
        """End it at once, as a power cut does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(600)
            self._process = None

    def ask(self, method: str, path: str, **content: Any) -> httpx2.Response:
        return self._http.request(method, path, **content).raise_for_status()

    def store(self, objects: Iterable[bytes]) -> list[str]:
        return [self.ask("POST", "/instances", content=one).json()["ID"] for one in objects]

    def delete(self, uid: str) -> None:
        (found,) = self.ask("POST", "/tools/lookup", content=uid).json()
        self.ask("DELETE", found["Path"])

    def delete_of(self, instance: str, patient: str) -> None:
        """Delete the object of a patient where several have one UID."""
        query = {"SOPInstanceUID": instance, "PatientID": patient}
        asked = {"Level": "Instance", "Query": query}
        (found,) = self.ask("POST", "/tools/find", json=asked).json()
        self.ask("DELETE", f"/instances/{found}")

    def clear(self) -> None:
        if patients := self.ask("GET", "/patients").json():
            self.ask("POST", "/tools/bulk-delete", json={"Resources": patients})
        self.ask("DELETE", "/changes")

    def instances(self) -> list[str]:
        found = self.ask("GET", "/instances?expand").json()
        return sorted(one["MainDicomTags"]["SOPInstanceUID"] for one in found)

    def peer(self, name: str = "archive", **more: Any) -> dict[str, Any]:
        """Its entry in the gateway's file; a key given as None is left out."""
        entry = {
            "name": name,
            "dicomweb": {
                "url": self.url, "user": USER, "password_env": PASSWORD_ENV, "orthanc": self.rest
            },
            "limits": {"parallel": 2, "requests_per_second": 1000, "timeout_s": 600},
            **more,
        }  # fmt: skip
        return {key: value for key, value in entry.items() if value is not None}


@contextmanager
def started(folder: Path, **more: Any) -> Iterator[Orthanc]:
    """An Orthanc, killed with the block; what wants one is skipped where there is none."""
    if which(PROGRAM) is None or not PLUGIN.exists():
        pytest.skip("needs Orthanc: apt-get install orthanc orthanc-dicomweb (a test peer only)")
    orthanc = Orthanc(folder, **more).start()
    try:
        yield orthanc
    finally:
        orthanc.kill()


def web_peer(name: str, url: str, follow: Mapping[str, Any] | None = None, **limits: Any) -> Peer:
    said = {"name": name, "dicomweb": {"url": url}, "follow": follow}
    return Peer.model_validate({**said, "limits": {"requests_per_second": 1000, **limits}})


def absent(name: str = "archive", **more: Any) -> dict[str, Any]:
    """The entry of a peer that is not there."""
    return {"name": name, "dicomweb": {"url": "http://127.0.0.1:1/dicom-web"}, **more}


def follow_into(
    folder: Path, peer: Peer, say: Callable[[str], None] = lambda _: None, **more: Any
) -> Tally:
    """Follow a peer once into the inbox in a folder."""
    with Inbox(folder, reserve=0) as box:
        return follow_peer(peer, box, say, **{"once": True, **more})


def write_gateway(path: Path, *entries: Mapping[str, Any], **more: Any) -> Path:
    """Write a gateway's file that its owner alone may read."""
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump({"peers": [dict(entry) for entry in entries], **more}))
    return path
