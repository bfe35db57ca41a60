"""An authority and a certificate for tests, made by ``openssl``."""

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Certificates:
    ca: Path
    pacs: tuple[Path, Path]  # a certificate by the authority for this machine, and its key


def make_certificates(folder: Path) -> Certificates:
    ca, ca_key, pacs, key = (folder / name for name in ("ca.pem", "ca.key", "pacs.pem", "pacs.key"))
    _run(
        *("req", "-x509", *_new(ca_key), "-days", "90", "-subj", "/CN=hospital"),
        *("-addext", "keyUsage=critical,keyCertSign,cRLSign", "-out", str(ca)),
    )
    _run(
        *("req", "-x509", *_new(key), "-days", "60", "-subj", "/CN=pacs", "-out", str(pacs)),
        *("-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=CA:FALSE"),
        *("-CA", str(ca), "-CAkey", str(ca_key)),
    )
    return Certificates(ca, (pacs, key))


def _new(key: Path) -> tuple[str, ...]:
    return "-newkey", "rsa:2048", "-nodes", "-keyout", str(key)


def _run(*words: str) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True)
