"""Authorities and certificates for tests, made by ``openssl``."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

LOOPBACK = "IP:127.0.0.1,DNS:localhost"


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate and its key."""

    path: Path
    key: Path


class Authority:
    """Signs certificates; its own is ``path``."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.path, self._key = folder / f"{name}.pem", folder / f"{name}.key"
        _run(
            *("req", "-x509", *_new(self._key), "-days", "2", "-subj", f"/CN={name}"),
            *("-addext", "keyUsage=critical,keyCertSign,cRLSign", "-out", str(self.path)),
        )

    def sign(self, name: str, *, hosts: str = LOOPBACK, days: int = 1) -> Certificate:
        """A certificate for some hosts; one of negative days has expired."""
        made = Certificate(self.folder / f"{name}.pem", self.folder / f"{name}.key")
        request, extensions = self.folder / f"{name}.csr", self.folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName={hosts}\nbasicConstraints=CA:FALSE\n")
        _run("req", *_new(made.key), "-subj", f"/CN={name}", "-out", str(request))
        _run(
            *("x509", "-req", "-in", str(request), "-days", str(days)),
            *("-CA", str(self.path), "-CAkey", str(self._key), "-CAcreateserial"),
            *("-extfile", str(extensions), "-out", str(made.path)),
        )
        return made


@dataclass(frozen=True, slots=True)
class Certificates:
    """What `make_certificates` makes."""

    ca: Path
    other_ca: Path
    pacs: Certificate
    ours: Certificate
    expired: Certificate
    stranger: Certificate  # by the other authority
    elsewhere: Certificate  # for another host


def make_certificates(folder: Path) -> Certificates:
    """A hospital's certificates, and what may be wrong with one."""
    hospital, other = Authority(folder / "hospital"), Authority(folder / "other", "other")
    return Certificates(
        hospital.path,
        other.path,
        hospital.sign("pacs"),
        hospital.sign("ours"),
        hospital.sign("expired", days=-1),
        other.sign("stranger"),
        hospital.sign("elsewhere", hosts="DNS:pacs.example.org"),
    )


def _new(key: Path) -> tuple[str, ...]:
    return "-newkey", "rsa:2048", "-nodes", "-keyout", str(key)


def _run(*words: str) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True)
