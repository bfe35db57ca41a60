"""DIMSE over TLS with a real Orthanc, and with peers whose TLS is wrong; every fault is named."""

import gc
import logging
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import date
from pathlib import Path
from socketserver import BaseRequestHandler

import pytest

pytest.importorskip("pynetdicom")

from pynetdicom import build_context

from cxrtext.errors import ConfigError, WorkError
from cxrtext.pacs import throttle, tls
from cxrtext.pacs.check import check_peer
from cxrtext.pacs.dimse.association import ECHO, Associations
from cxrtext.pacs.faults import GoneError, PeerError, TlsError
from cxrtext.pacs.peers import Peer
from cxrtext.pacs.results.folder import ResultsFolder
from cxrtext.pacs.results.making import make_results
from cxrtext.pacs.results.sending import send_results
from cxrtext.pacs.retrieval.follow import follow_peer
from cxrtext.pacs.throttle import is_there
from cxrtext.pacs.tls import client_context, server_context
from cxrtext.service import Service
from tests.pacs.certificates import Certificate, Certificates
from tests.pacs.odd_peer import OddPeer, http_server, served
from tests.pacs.orthanc import Known, Orthanc, started
from tests.pacs.studies import BEGIN, PLANTED, archive, instance, study, wanted
from tests.pacs.test_check import failed
from tests.waiting import until

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


def test_every_layer_of_a_good_peer(peer: AsPeer) -> None:
    steps = check_peer(peer())
    assert [(step.layer, step.ok) for step in steps] == [
        ("name", True), ("TCP", True), ("TLS", True), ("AET", True),
        ("right to search (C-FIND)", True), ("right to fetch and syntaxes (C-GET)", True),
        ("right to store (C-STORE)", True),
    ]  # fmt: skip
    assert steps[2].said in ("TLSv1.2", "TLSv1.3")


@pytest.mark.parametrize("way", ["get", "move"])
def test_an_archive_is_pulled_over_tls(
    way: str, peer: AsPeer, secure: Orthanc, tmp_path: Path
) -> None:
    secure.store(archive(8))
    found = follow_peer(peer(retrieve=way), tmp_path, lambda _: None, once=True)
    assert str(found) == "7 new, 0 corrected, 0 gone, 7 left out, 0 failed"
    assert len(list((tmp_path / "objects").iterdir())) == len(wanted(8))


def test_a_peer_is_followed_and_given_results_over_tls(
    peer: AsPeer,
    secure: Orthanc,
    tmp_path: Path,
    service: Service,
    results: ResultsFolder,
    effusion: Path,
) -> None:
    secure.store(study(1, day=date.today()))
    found = follow_peer(peer(), tmp_path / "inbox", lambda _: None, once=True)
    assert found.counts["new"] == 1
    made = make_results(service, effusion, "Left pleural effusion.", results).results
    assert send_results(results, made, peer()).sent == len(made)
    assert {one.instance for one in made} < set(secure.instances())


@pytest.mark.parametrize(
    ("tls", "says"),
    [
        (("ca", ""), "wants a certificate of ours; give certificate and key in the gateway's file"),
        (("ca", "expired"), "says that our certificate has expired; have it renewed"),
        (("ca", "stranger"), "does not take our certificate (unknown ca); have its authority"),
        (("other_ca", "ours"), "its certificate is not trusted (self-signed certificate in"),
        (("", "ours"), "name the hospital's authority as dimse.tls.ca in the gateway's file"),
        (
            None,
            "speaks TLS on this port; give dimse.tls in the gateway's file, such as",
        ),
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
        given |= {"ca": str(getattr(certificates, ca))} if ca else {}
    fails_with(says, peer(given))
    with caplog.at_level(logging.DEBUG), pytest.raises(PeerError) as caught:
        follow_peer(peer(given), tmp_path / "out", lambda _: None, once=True)
    assert says in str(caught.value)
    assert PLANTED not in caplog.text


def test_a_push_to_our_port_that_speaks_no_tls_is_said(
    certificates: Certificates,
    tmp_path: Path,
    peer: AsPeer,
    secure: Orthanc,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """C-MOVE: what a peer does wrong at our_port stands in the reason why no image came."""
    monkeypatch.setattr(throttle, "FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(throttle, "TRIES", 1)
    secure.store([instance(number) for number in range(8)])  # one of them is told in time
    asking = peer({"ca": str(certificates.other_ca), **_shown(certificates.ours)}, "move")
    # The port asks for certificates of another authority; the association itself is good.
    good = client_context(certificates.ca, certificates.ours.path, certificates.ours.key)
    monkeypatch.setattr("cxrtext.pacs.peers.client_context", lambda *_: good)
    said: list[str] = []
    with pytest.raises(WorkError, match="studies could not be looked at"):
        follow_peer(asking, tmp_path / "out", said.append, once=True)
    reason = "our_port: a connection from 127.0.0.1 was refused: its certificate is not"
    assert any(reason in line for line in said)


# --- with peers of our own making ---


@contextmanager
def listening(
    context: ssl.SSLContext | None, answer: bytes = b"", *, silent: bool = False
) -> Iterator[int]:
    """The port of a server that makes handshakes, and answers the first bytes."""
    ended = threading.Event()

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            self.request.settimeout(600)
            with suppress(OSError):
                if silent:
                    ended.wait(600)
                elif context is None:
                    self.request.recv(65536)
                    self.request.sendall(answer)
                else:
                    with context.wrap_socket(self.request, server_side=True) as secured:
                        secured.recv(65536)

    with http_server(Handler) as port:
        yield port
        ended.set()


def asked(port: int, certificates: Certificates, **tls: str) -> Peer:
    where = {"host": "127.0.0.1", "port": port, "aet": "PACS"}
    files = {"ca": str(certificates.ca), **tls}
    return Peer.model_validate({"name": "archive", "dimse": {**where, "tls": files}})


def _old(context: ssl.SSLContext) -> None:
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        context.minimum_version = ssl.TLSVersion.TLSv1
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1


def _other_ciphers(context: ssl.SSLContext) -> None:
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("AES128-SHA:@SECLEVEL=0")


def _asks_as_1_2(context: ssl.SSLContext) -> None:
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED


@pytest.mark.parametrize(
    ("peer", "says"),
    [
        ("expired", "its certificate has expired; have it renewed"),
        ("elsewhere", "its certificate is not valid for '127.0.0.1'; write its name"),
        ("stranger", "its certificate is not trusted (unable to get local issuer certificate)"),
        (_old, "speaks no TLS as new as 1.2; have it switched on there"),
        (_other_ciphers, "has no cipher in common with us, or wants a certificate of ours"),
        (
            _asks_as_1_2,
            "wants a certificate of ours; give certificate and key in the gateway's file",
        ),
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
        fails_with(says, asked(port, certificates))


def test_a_port_without_tls(certificates: Certificates, orthanc: Orthanc) -> None:
    leave_out = "correct dimse.port, or leave dimse.tls out"
    abort = b"\x07\0\0\0\0\x04\0\0\2\0"
    with listening(None, abort) as port:
        assert failed(check_peer(asked(port, certificates))) == (
            "TLS", f"does not speak TLS on this port; {leave_out}"
        )  # fmt: skip
    with listening(None, silent=True) as port:
        layer, said = failed(check_peer(asked(port, certificates)))
        assert (layer, said.partition(";")[0]) == ("TLS", "took the connection and is silent")
    layer, said = failed(check_peer(asked(orthanc.dimse_port, certificates)))
    assert layer == "TLS"
    assert said.endswith(leave_out)


def test_nothing_stays_open_of_associations_that_fail() -> None:
    where = {"host": "127.0.0.1", "aet": "PACS"}
    open_files = Path("/proc/self/fd")
    gc.disable()
    try:
        with listening(None, b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
            peer = Peer.model_validate({"name": "archive", "dimse": {**where, "port": port}})
            before = len(list(open_files.iterdir()))
            for _ in range(3):
                with pytest.raises(GoneError, match="ended the association at once"):
                    Associations(peer).open([build_context(ECHO)])
            until(lambda: len(list(open_files.iterdir())) <= before)  # the server's close, too
    finally:
        gc.enable()


@pytest.mark.parametrize("host", ["no.such.host.invalid", ".."])
@pytest.mark.parametrize("tls", [None, {}])
def test_a_name_that_nothing_has(host: str, tls: dict[str, str] | None) -> None:
    dimse = {"host": host, "port": 2762, "aet": "PACS"} | ({} if tls is None else {"tls": tls})
    peer = Peer.model_validate({"name": "archive", "dimse": dimse})
    with pytest.raises(GoneError, match="archive: nothing has the name of its host; correct dim"):
        Associations(peer).open([build_context(ECHO)])
    assert not is_there(peer)


# --- files and settings ---


def test_files_that_cannot_be_used_are_said(certificates: Certificates, tmp_path: Path) -> None:
    ours, pacs = certificates.ours, certificates.pacs
    empty, damaged = tmp_path / "empty.pem", tmp_path / "damaged.pem"
    empty.touch(0o600)
    damaged.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    opened, locked = tmp_path / "opened.key", tmp_path / "locked.key"
    opened.write_bytes(ours.key.read_bytes())
    opened.chmod(0o644)
    words = ["openssl", "pkey", "-aes256", "-passout", "pass:x", "-in", str(ours.key)]
    subprocess.run([*words, "-out", str(locked)], check=True, capture_output=True)
    for given, says in (
        ((None, ours.path, pacs.key), f"{pacs.key}: is not the key of {ours.path}; give both"),
        ((None, ours.key, ours.path), f"{ours.key}: holds no certificate; give it as PEM"),
        ((None, ours.path, ours.path), f"{ours.path}: holds no private key; give it as PEM"),
        ((None, ours.path, locked), f"{locked}: is locked by a passphrase; give it without"),
        ((None, ours.path, opened), f"the key; run: chmod 600 {opened}"),
        ((None, damaged, ours.key), f"{damaged}: it or its key {ours.key} cannot be used"),
        ((empty, None, None), f"{empty}: holds no certificates; give it as PEM"),
        ((damaged, None, None), f"{damaged}: its certificates cannot be read"),
        ((tmp_path, None, None), f"{tmp_path}: is a directory"),
        ((tmp_path / "no", None, None), f"{tmp_path / 'no'}: no such file or directory"),
    ):
        with pytest.raises(ConfigError) as caught:
            client_context(*given)
        assert says in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_peers_own_certificate_may_be_named_instead_of_an_authority(
    certificates: Certificates,
) -> None:
    context = server_context(certificates.pacs.path, certificates.pacs.key, None)
    with listening(context) as port:
        peer = asked(port, certificates, ca=str(certificates.pacs.path))
        layer, _ = failed(check_peer(peer))
    assert layer == "AET"


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
