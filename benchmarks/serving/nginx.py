"""nginx on this machine alone, with the configuration of docker/nginx, before given servers."""

import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

CONFIGURATION = Path(__file__).parents[2] / "docker" / "nginx"
LISTEN = "127.0.0.1:8080"


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


@contextmanager
def proxy(folder: Path, ports: Sequence[int], program: str = "nginx") -> Iterator[str]:
    """Its address, such as ``127.0.0.1:8080``, while it runs.

    Args:
        folder: New, for its files.
        ports: Of the servers, on this machine.
        program: nginx.
    """
    shutil.copytree(CONFIGURATION, folder)
    server = r"^( +server )127\.0\.0\.1:\d+( .*)$"
    replicas = (folder / "replicas.conf").read_text()
    line = re.search(server, replicas, re.M)
    assert line is not None
    lines = "\n".join(f"{line[1]}127.0.0.1:{port}{line[2]}" for port in ports)
    others = re.sub(server + r"\n", "", replicas[line.end() + 1 :], flags=re.M)
    (folder / "replicas.conf").write_text(f"{replicas[: line.start()]}{lines}\n{others}")
    address = f"127.0.0.1:{free_port()}"
    main = folder / "loopback.conf"
    main.write_text(main.read_text().replace(LISTEN, address))
    with subprocess.Popen([program, "-p", str(folder), "-c", str(main)]) as process:
        try:
            _wait_for(address, process)
            yield address
        finally:
            process.terminate()


def _wait_for(address: str, process: "subprocess.Popen[bytes]") -> None:
    host, _, port = address.partition(":")
    for _ in range(6000):
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
        except OSError:
            if process.poll() is not None:
                break
            time.sleep(0.05)
        else:
            return
    raise SystemExit("nginx did not start")
