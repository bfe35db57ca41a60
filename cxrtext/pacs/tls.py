"""TLS for DIMSE, DICOMweb and MLLP: its settings, and what a handshake that fails means.

Nothing older than TLS 1.2 is spoken (DICOM PS3.15, BCP 195 profile), and certificates are verified.
"""

import re
import socket
import ssl
import stat
import time
from contextlib import suppress
from pathlib import Path

from cxrtext.errors import ConfigError

ALERT_S = 0.5
"""With TLS 1.3 a peer says only after the handshake that it does not take our certificate."""

OPENING_S = 10.0  # how long a peer may take from its connection to a port of ours to its request
_TLS = b"\x16"  # the first byte of a handshake
_UNTIMELY = {
    10: "its certificate has expired; have it renewed",
    9: "its certificate is not valid yet; are the clocks right?",
}
_OTHER_NAME = (62, 64)
"""Codes of OpenSSL's verification; the last are of names and of addresses."""

_SAID = (
    (
        ("PEER_DID_NOT_RETURN_A_CERTIFICATE",),
        "shows no certificate; give it one by the authorities named here",
    ),
    (("CERTIFICATE_EXPIRED",), "says that our certificate has expired; have it renewed"),
    (
        (
            *("UNKNOWN_CA", "BAD_CERTIFICATE", "CERTIFICATE_UNKNOWN", "UNSUPPORTED_CERTIFICATE"),
            *("CERTIFICATE_REVOKED", "ACCESS_DENIED", "DECRYPT_ERROR"),
        ),
        "does not take our certificate ({}); have its authority trusted there",
    ),
    (
        ("PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL", "VERSION_TOO_LOW"),
        "speaks no TLS as new as 1.2; have it switched on there",
    ),
    (
        (
            *("NO_SHARED_CIPHER", "NO_SUITABLE_SIGNATURE_ALGORITHM", "INSUFFICIENT_SECURITY"),
            "HANDSHAKE_FAILURE",
        ),
        "has no cipher in common with us, or wants a certificate of ours; have the BCP 195 "
        "profile switched on there, or give certificate and key in the gateway's file",
    ),
    (("ALERT",), "breaks off the handshake ({}); see its log"),
)
"""What is said of a handshake that fails, by the first of OpenSSL's reasons that there is."""


class HandshakeError(Exception):
    """Why there is no TLS with a peer, and what to do; whether it ``lasts`` until a change."""

    def __init__(self, why: str, *, lasts: bool = True) -> None:
        super().__init__(why)
        self.lasts = lasts


def client_context(
    authorities: Path | None = None, certificate: Path | None = None, key: Path | None = None
) -> ssl.SSLContext:
    """What encrypts connections to a peer, whose certificate is verified; ours where it asks."""
    if authorities is None:
        context = ssl.create_default_context()
    else:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        _trust(context, authorities)
    if certificate is not None and key is not None:
        _present(context, certificate, key)
    return _modern(context)


def server_context(certificate: Path, key: Path, authorities: Path | None) -> ssl.SSLContext:
    """What encrypts a port of ours; with ``authorities`` a peer needs a certificate by one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION
    _present(context, certificate, key)
    if authorities is not None:
        _trust(context, authorities)
        context.verify_mode = ssl.CERT_REQUIRED
    return _modern(context)


class _Socket(ssl.SSLSocket):
    """Can be shut down after its peer is gone: who shuts it down first may not come to close it."""

    def shutdown(self, how: int) -> None:
        with suppress(OSError):
            super().shutdown(how)


def _modern(context: ssl.SSLContext) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.sslsocket_class = _Socket
    # Who names the peer's own certificate instead of an authority means that one.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def _trust(context: ssl.SSLContext, authorities: Path) -> None:
    _holds(authorities, b"CERTIFICATE-----", "certificates")
    try:
        context.load_verify_locations(authorities)
    except ssl.SSLError as error:
        raise ConfigError(
            f"{authorities}: its certificates cannot be read ({_reason(error)})"
        ) from None


def _present(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    _holds(certificate, b"CERTIFICATE-----", "certificate")
    _holds(key, b"PRIVATE KEY-----", "private key")
    _check_private(key)

    def ask() -> str:
        raise ConfigError(
            f"{key}: is locked by a passphrase; give it without: openssl pkey -in {key} -out NEW"
        )

    try:
        context.load_cert_chain(certificate, key, password=ask)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise ConfigError(f"{key}: is not the key of {certificate}; give both of one") from None
        raise ConfigError(
            f"{certificate}: it or its key {key} cannot be used ({_reason(error)})"
        ) from None


def _holds(path: Path, mark: bytes, what: str) -> None:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: {(error.strerror or 'cannot be read').lower()}") from None
    if mark not in data:
        raise ConfigError(f"{path}: holds no {what}; give it as PEM")


def _check_private(key: Path) -> None:
    """Refuse a key that others may read (ConfigError); a group may, where root owns the file."""
    found = key.stat()
    if stat.S_IMODE(found.st_mode) & (0o027 if found.st_uid == 0 else 0o077):
        raise ConfigError(f"{key}: others than its owner may read the key; run: chmod 600 {key}")


def shake_hands(
    host: str, port: int, context: ssl.SSLContext, seconds: float, *, ca: str, plain: str
) -> str:
    """Make a handshake, and nothing else; the version (HandshakeError; OSError: no connection).

    ``ca``: how the setting of authorities is called; ``plain``: what to do if it speaks no TLS.
    """
    raw = socket.create_connection((host, port), timeout=seconds)
    with context.wrap_socket(
        raw, server_hostname=host, do_handshake_on_connect=False
    ) as connection:
        try:
            connection.do_handshake()
            if connection.version() == "TLSv1.3":
                connection.settimeout(ALERT_S)
                with suppress(TimeoutError):
                    connection.recv(1)
            return connection.version() or "TLS"
        except OSError as error:
            agreed = connection.cipher() is not None
            raise _failed(error, host, agreed=agreed, ca=ca, plain=plain) from None


def _failed(error: OSError, host: str, *, agreed: bool, ca: str, plain: str) -> HandshakeError:
    """Why a handshake with a peer failed, ``agreed`` where both had agreed on a cipher."""
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in _OTHER_NAME:
            return HandshakeError(
                f"its certificate is not valid for '{host}'; write its name in the gateway's file, "
                "or have one made for this name"
            )
        authority = f"name the hospital's authority as {ca} in the gateway's file"
        return HandshakeError(_distrusted(error, f"{authority}, or have the certificate renewed"))
    if isinstance(error, TimeoutError):
        return HandshakeError(
            f"took the connection and is silent; is this a port of TLS? If not, {plain}",
            lasts=False,
        )
    if not isinstance(error, ssl.SSLError) or isinstance(error, ssl.SSLEOFError):
        return HandshakeError(
            f"ended the connection during the handshake; if this is no port of TLS, {plain}",
            lasts=False,
        )
    reason = error.reason or ""
    if "CERTIFICATE_REQUIRED" in reason or ("HANDSHAKE_FAILURE" in reason and agreed):
        return HandshakeError(
            "wants a certificate of ours; give certificate and key in the gateway's file"
        )
    return HandshakeError(_said(error) or f"does not speak TLS on this port; {plain}")


def _distrusted(error: ssl.SSLCertVerificationError, mend: str) -> str:
    untrusted = f"its certificate is not trusted ({error.verify_message}); {mend}"
    return _UNTIMELY.get(error.verify_code, untrusted)


def is_spoken(host: str, port: int, seconds: float) -> bool:
    """Whether TLS is spoken at a port, whoever is there."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host, port), timeout=seconds) as raw,
            context.wrap_socket(raw, server_hostname=host),
        ):
            return True
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "")
    except OSError:
        return False


class RefusedError(Exception):
    """Says why a connection is not taken; "" where nothing came of it."""


def admit(
    connection: socket.socket, tls: ssl.SSLContext | None, begin: bytes, seconds: float = OPENING_S
) -> socket.socket:
    """Wait for a peer's first byte, to be ``begin``; encrypted with a context (RefusedError)."""
    end = time.monotonic() + seconds
    connection.settimeout(seconds)
    try:
        first = connection.recv(1, socket.MSG_PEEK)
    except TimeoutError:
        raise RefusedError(f"it said nothing for {seconds:.0f} s") from None
    except OSError:
        raise RefusedError("") from None
    if not first:  # a look whether the port is open
        raise RefusedError("")
    if tls is None:
        if first != begin:
            raise RefusedError(of_another_protocol(first))
        return connection
    if first == begin:
        raise RefusedError("it speaks no TLS, and this port does; switch it on there")
    if first != _TLS:
        raise RefusedError(of_another_protocol(first))
    connection.settimeout(max(end - time.monotonic(), 0.1))
    secured = tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
    try:
        secured.do_handshake()
    except OSError as error:
        secured.close()
        raise RefusedError(_why_refused(error)) from None
    return secured


def of_another_protocol(first: bytes) -> str:
    """What is said of a peer that begins as none of this port does."""
    if first[:1] == _TLS:
        return (
            "it speaks TLS, and this port does not; switch it off there, or give this port a "
            "certificate and a key (tls)"
        )
    return "it sent something else than this port is for; is it a peer, or a scan?"


def _why_refused(error: OSError) -> str:
    """Why a handshake at a port of ours failed, and what to do; nothing of what was sent."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _distrusted(error, "it needs one by the authorities named here")
    if isinstance(error, TimeoutError):
        return "it was silent during the handshake of TLS"
    if said := _said(error):
        return f"it {said}"
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
        return f"it sent no TLS that can be read ({_reason(error)})"
    return "it ended the connection during the handshake of TLS; does it trust our certificate?"


def _said(error: OSError) -> str:
    reason = (error.reason or "") if isinstance(error, ssl.SSLError) else ""
    found = (said for words, said in _SAID if any(word in reason for word in words))
    return next(found, "").format(_reason(error))


def _reason(error: OSError) -> str:
    """OpenSSL's word for it, such as "unknown ca"."""
    word = (error.reason or "") if isinstance(error, ssl.SSLError) else ""
    word = re.sub(r"^(TLSV1|SSLV3|TLSV13)_ALERT_", "", word)
    return word.replace("_", " ").lower() or "no reason given"
