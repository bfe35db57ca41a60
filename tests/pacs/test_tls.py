"""DIMSE over TLS with a real Orthanc, and with peers whose TLS is wrong; every fault is named."""

import logging
import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from socketserver import BaseRequestHandler

import pytest

pytest.importorskip("pynetdicom")

from cxrtext.errors import ConfigError
from cxrtext.pacs import tls
from cxrtext.pacs.check import check_peer
from cxrtext.pacs.faults import PeerError, TlsError
from cxrtext.pacs.peers import Peer
from cxrtext.pacs.retrieval.follow import follow_peer
from cxrtext.pacs.tls import client_context, server_context
from tests.pacs.certificates import Certificate, Certificates
from tests.pacs.odd_peer import OddPeer, http_server, served
from tests.pacs.orthanc import Known, Orthanc, started
from tests.pacs.studies import BEGIN, PLANTED, archive, study, wanted
from tests.pacs.test_check import failed

FOLLOW = {"from": BEGIN.isoformat()}
AsPeer = Callable[..., Peer]


@pytest.fixture(scope="module")
def secure(
    tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[Orthanc]:
    """An Orthanc that speaks TLS alone, to whoever has a certificate by its authority."""
    with started(tmp_path_factory.mktemp("secure"), certificates=certificates) as orthanc:
        yield orthanc


@pytest.fixture
def peer(secure: Orthanc, certificates: Certificates, known: Known) -> AsPeer:
    """It as a peer, with its `tls` (None leaves it out) and its way to retrieve changed."""
    secure.clear()
    own = {"ca": str(certificates.ca), **_shown(certificates.ours)}

    def make(tls: dict[str, str] | None = own, retrieve: str = "get") -> Peer:
        entry = secure.peer(dicomweb=None, write=True, follow=FOLLOW)
        entry["dimse"] |= {} if tls is None else {"tls": tls}
        if retrieve == "move":
            port = secure.modalities["CXRTEXT"]
            entry["dimse"] |= {"retrieve": "move", "our_port": port, "our_host": "127.0.0.1"}
        return known(entry)

    return make


def _shown(certificate: Certificate) -> dict[str, str]:
    return {"certificate": str(certificate.path), "key": str(certificate.key)}


def fails_with(says: str, peer: Peer) -> None:
    """Its layer of TLS is found wrong, with what is to be said of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tls, "ALERT_S", 60.0)
        layer, said = failed(check_peer(peer))
    assert (layer, says in said) == ("TLS", True), said


# --- with a real Orthanc ---


@pytest.mark.parametrize("way", ["get", "move"])
def test_an_archive_is_pulled_over_tls(
    way: str, peer: AsPeer, secure: Orthanc, tmp_path: Path
) -> None:
    secure.store(archive(8))
    found = follow_peer(peer(retrieve=way), tmp_path, lambda _: None, once=True)
    assert str(found) == "7 new, 0 corrected, 0 gone, 7 left out, 0 failed"
    assert len(list((tmp_path / "objects").iterdir())) == len(wanted(8))


@pytest.mark.parametrize(
    ("tls", "says"),
    [
        (("ca", ""), "wants a certificate of ours; give certificate and key in the gateway's file"),
        (("ca", "stranger"), "does not take our certificate (unknown ca); have its authority"),
        (("other_ca", "ours"), "its certificate is not trusted (self-signed certificate in"),
        (None, "speaks TLS on this port; give dimse.tls in the gateway's file, such as"),
    ],
)
def test_wrong_certificates_are_named_and_stop_following(
    tls: tuple[str, str] | None,
    says: str,
    peer: AsPeer,
    certificates: Certificates,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    given = None
    if tls is not None:
        ca, shown = tls
        given = _shown(getattr(certificates, shown)) if shown else {}
        given |= {"ca": str(getattr(certificates, ca))}
    fails_with(says, peer(given))
    with caplog.at_level(logging.DEBUG), pytest.raises(PeerError) as caught:
        follow_peer(peer(given), tmp_path / "out", lambda _: None, once=True)
    assert says in str(caught.value)
    assert PLANTED not in caplog.text


# --- with peers of our own making ---


@contextmanager
def listening(context: ssl.SSLContext) -> Iterator[int]:
    """The port of a server that makes handshakes."""

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            self.request.settimeout(600)
            with (
                suppress(OSError),
                context.wrap_socket(self.request, server_side=True) as secured,
            ):
                secured.recv(65536)

    with http_server(Handler) as port:
        yield port


def _old(context: ssl.SSLContext) -> None:
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        context.minimum_version = ssl.TLSVersion.TLSv1
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1


@pytest.mark.parametrize(
    ("peer", "says"),
    [
        ("expired", "its certificate has expired; have it renewed"),
        ("elsewhere", "its certificate is not valid for '127.0.0.1'; write its name"),
        ("stranger", "its certificate is not trusted (unable to get local issuer certificate)"),
        (_old, "speaks no TLS as new as 1.2; have it switched on there"),
    ],
)
def test_what_a_peer_shows_and_speaks(
    peer: str | Callable[[ssl.SSLContext], None], says: str, certificates: Certificates
) -> None:
    shown = getattr(certificates, peer) if isinstance(peer, str) else certificates.pacs
    context = server_context(shown.path, shown.key, certificates.ca)
    context.verify_mode = ssl.CERT_NONE
    if callable(peer):
        peer(context)
    with listening(context) as port:
        dimse = {"host": "127.0.0.1", "port": port, "aet": "PACS"}
        dimse["tls"] = {"ca": str(certificates.ca)}
        fails_with(says, Peer.model_validate({"name": "archive", "dimse": dimse}))


# --- files and settings ---


def test_files_that_cannot_be_used_are_said(certificates: Certificates, tmp_path: Path) -> None:
    ours, pacs = certificates.ours, certificates.pacs
    opened, locked = tmp_path / "opened.key", tmp_path / "locked.key"
    opened.write_bytes(ours.key.read_bytes())
    opened.chmod(0o644)
    words = ["openssl", "pkey", "-aes256", "-passout", "pass:x", "-in", str(ours.key)]
    subprocess.run([*words, "-out", str(locked)], check=True, capture_output=True)
    for given, says in (
        ((None, ours.path, pacs.key), f"{pacs.key}: is not the key of {ours.path}; give both"),
        ((None, ours.key, ours.path), f"{ours.key}: holds no certificate; give it as PEM"),
        ((None, ours.path, locked), f"{locked}: is locked by a passphrase; give it without"),
        ((None, ours.path, opened), f"the key; run: chmod 600 {opened}"),
        ((tmp_path / "no", None, None), f"{tmp_path / 'no'}: no such file or directory"),
    ):
        with pytest.raises(ConfigError) as caught:
            client_context(*given)
        assert says in str(caught.value)
        assert "\n" not in str(caught.value)


def test_dicomweb_with_certificates_of_servers_and_of_clients(
    certificates: Certificates, known: Known, tmp_path: Path
) -> None:
    pacs, ours, stranger = certificates.pacs, certificates.ours, certificates.stranger
    own = pacs.path, pacs.key

    def entry(shown: Certificate | None, ca: Path | None = certificates.ca) -> Peer:
        files = {"ca": str(ca)} if ca else {}
        files |= _shown(shown) if shown else {}
        web = {"url": url, **files}
        return known({"name": "archive", "dicomweb": web, "follow": FOLLOW})

    with served(OddPeer(study(1)), certificate=own) as url:
        layer, said = failed(check_peer(entry(None, ca=None)))
        assert layer == "TLS"
        assert said.startswith("its certificate is not trusted (unable to get local issuer cert")
        assert "; name the hospital's authority as dicomweb.ca in the gateway's file" in said
        steps = check_peer(entry(None))
        assert all(step.ok for step in steps)
        assert [step.said for step in steps if step.layer == "TLS"] == ["TLSv1.3"]
    with served(OddPeer(study(1)), certificate=own, clients=certificates.ca) as url:
        good = entry(ours)
        assert [step for step in check_peer(good) if not step.ok] == []
        assert follow_peer(good, tmp_path / "out", lambda _: None, once=True).counts["new"] == 1
        for shown, says in ((None, "wants a certificate of ours"), (stranger, "does not take")):
            fails_with(says, entry(shown))
            with pytest.raises(TlsError, match=says):
                follow_peer(entry(shown), tmp_path / "none", lambda _: None, once=True)
