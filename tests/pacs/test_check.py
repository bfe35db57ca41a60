"""``gateway check``: the layer that fails, and what to do about it."""

import socket
import ssl
from collections.abc import Callable
from typing import Any

import pytest

from cxrtext.errors import ConfigError
from cxrtext.pacs import check as module
from cxrtext.pacs.check import SEARCH, Step, check_peer
from cxrtext.pacs.faults import TlsError
from tests.pacs.certificates import Certificates
from tests.pacs.odd_peer import OddPeer, served
from tests.pacs.orthanc import PASSWORD, PASSWORD_ENV, Known, Orthanc, absent, follow_into
from tests.pacs.studies import BEGIN, study

Check = Callable[..., list[Step]]


@pytest.fixture
def check(orthanc: Orthanc, known: Known) -> Check:
    """Checks the Orthanc with some keys of its DICOMweb changed."""

    def look(**changed: Any) -> list[Step]:
        entry = orthanc.peer()
        steps = check_peer(known({**entry, "dicomweb": {**entry["dicomweb"], **changed}}))
        assert PASSWORD not in str(steps)
        return steps

    return look


def failed(steps: list[Step]) -> tuple[str, str]:
    """The one layer that failed, which is the last, and what it said."""
    assert [step.ok for step in steps] == [True] * (len(steps) - 1) + [False]
    return steps[-1].layer, steps[-1].said


def test_a_wrong_password(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD_ENV, "another")
    layer, said = failed(check())
    assert layer == "login"
    assert said.startswith("does not take the login (401); check user and the variable of password")


def test_a_peer_that_hangs(known: Known, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STEP_S", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/dicom-web"
        layer, said = failed(check_peer(known(absent(dicomweb={"url": url}))))
    assert layer == SEARCH
    assert "silent too long" in said


def test_certificates(known: Known, certificates: Certificates, tmp_path: Any) -> None:
    def entry(ca: str | None) -> Any:
        web = {"url": url, **({"ca": ca} if ca else {})}
        return known(absent(dicomweb=web, follow={"from": BEGIN.isoformat()}))

    with served(OddPeer(study(1)), certificate=certificates.pacs) as url:
        assert url.startswith("https")
        layer, said = failed(check_peer(entry(None)))
        assert layer == "TLS"
        assert "its certificate is not trusted (unable to get local issuer cert" in said
        assert "name the hospital's authority as ca in the gateway's file" in said
        with pytest.raises(TlsError, match="is not trusted"):
            follow_into(tmp_path / "none", entry(None))
        assert all(step.ok for step in check_peer(entry(str(certificates.ca))))
        found = follow_into(tmp_path / "inbox", entry(str(certificates.ca)))
        assert found.counts["new"] == 1
        with pytest.raises(ConfigError, match="no: No such file"):
            follow_into(tmp_path / "inbox", entry(str(tmp_path / "no")))
    assert ssl.create_default_context().minimum_version >= ssl.TLSVersion.TLSv1_2
