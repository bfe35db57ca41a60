"""Authorities and certificates for tests, made by ``openssl``."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

LOOPBACK = "IP:127.0.0.1,DNS:localhost"


@dataclass(frozen=True, slots=True)
class Certificate:
    path: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Certificates:
    ca: Path
    other_ca: Path
    pacs: Certificate
    ours: Certificate
    expired: Certificate
    stranger: Certificate  # by the other authority
    elsewhere: Certificate  # for another host


def make_certificates(folder: Path) -> Certificates:
    hospital, other = _authority(folder / "hospital"), _authority(folder / "other")
    return Certificates(
        hospital.path,
        other.path,
        _signed(hospital, "pacs"),
        _signed(hospital, "ours"),
        _signed(hospital, "expired", days=-1),
        _signed(other, "stranger"),
        _signed(hospital, "elsewhere", hosts="DNS:pacs.example.org"),
    )


def _authority(folder: Path) -> Certificate:
    folder.mkdir()
    made = Certificate(folder / "authority.pem", folder / "authority.key")
    _run(
        *("req", "-x509", *_new(made.key), "-days", "90", "-subj", f"/CN={folder.name}"),
        *("-addext", "keyUsage=critical,keyCertSign,cRLSign", "-out", str(made.path)),
    )
    return made


def _signed(by: Certificate, name: str, *, hosts: str = LOOPBACK, days: int = 60) -> Certificate:
    """A certificate for some hosts; one of negative days has expired."""
    stem = by.path.parent / name
    made = Certificate(Path(f"{stem}.pem"), Path(f"{stem}.key"))
    Path(f"{stem}.ext").write_text(f"subjectAltName={hosts}\nbasicConstraints=CA:FALSE\n")
    _run("req", *_new(made.key), "-subj", f"/CN={name}", "-out", f"{stem}.csr")
    _run(
        *("x509", "-req", "-in", f"{stem}.csr", "-days", str(days), "-extfile", f"{stem}.ext"),
        *("-CA", str(by.path), "-CAkey", str(by.key), "-CAcreateserial", "-out", str(made.path)),
    )
    return made


def _new(key: Path) -> tuple[str, ...]:
    return "-newkey", "rsa:2048", "-nodes", "-keyout", str(key)


def _run(*words: str) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True)
