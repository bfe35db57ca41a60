"""A real Orthanc for the tests of this folder, started once by each worker that needs it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cxrtext.pacs import check, throttle
from cxrtext.pacs.gateway.file import read_gateway
from cxrtext.pacs.inbox.queue import Inbox
from cxrtext.pacs.results.folder import ResultsFolder
from cxrtext.service import Service, load_service
from tests.pacs.certificates import Certificates, make_certificates
from tests.pacs.orthanc import PASSWORD, PASSWORD_ENV, Known, Orthanc, started, write_gateway
from tests.pacs.result_sources import write_effusion
from tests.pacs.studies import PLANTED


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that is gone is waited for a moment, and one that is looked at for long."""
    monkeypatch.setattr(throttle, "FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(check, "STEP_S", 120.0)


@pytest.fixture(scope="session")
def started_orthanc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Orthanc]:
    with started(tmp_path_factory.mktemp("orthanc")) as orthanc:
        yield orthanc


@pytest.fixture
def orthanc(started_orthanc: Orthanc, monkeypatch: pytest.MonkeyPatch) -> Orthanc:
    """An Orthanc without an image, whose password is in the environment."""
    started_orthanc.clear()
    monkeypatch.setenv(PASSWORD_ENV, PASSWORD)
    return started_orthanc


@pytest.fixture(scope="session")
def service(checkpoint: Path, index_folder: Path) -> Iterator[Service]:
    with closing(load_service(checkpoint, index_folder)) as service:
        yield service


@pytest.fixture
def results(tmp_path: Path) -> ResultsFolder:
    return ResultsFolder(tmp_path / "results")


@pytest.fixture
def effusion(tmp_path: Path) -> Path:
    return write_effusion(tmp_path / "source.dcm")


@pytest.fixture
def peers(tmp_path: Path) -> Callable[..., Path]:
    """Writes a gateway's file of entries such as `Orthanc.peer` gives."""

    def write(*entries: Mapping[str, Any], **more: Any) -> Path:
        return write_gateway(tmp_path / "gateway.yaml", *entries, **more)

    return write


@pytest.fixture
def known(peers: Callable[..., Path]) -> Known:
    return lambda entry: read_gateway(peers(entry)).peer(entry["name"])


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """A hospital's authority and the certificate of its PACS."""
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def inbox(tmp_path: Path) -> Iterator[Inbox]:
    """An inbox, whose disk may be nearly full."""
    with Inbox(tmp_path / "inbox", reserve=0) as inbox:
        yield inbox


@pytest.fixture
def said() -> Iterator[list[str]]:
    """Takes lines for the log; no planted name may be in them."""
    lines: list[str] = []
    yield lines
    assert PLANTED not in "\n".join(lines)
