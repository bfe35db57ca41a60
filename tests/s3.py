"""An S3 server on this machine, for tests that import its fixtures."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from urllib.request import urlopen

import pytest

from tests.pacs.orthanc import free_port

KEY, SECRET = "AKIDEXAMPLE", "a-secret-that-must-not-be-shown"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of an S3 server without a bucket; it is skipped where there is none to start."""
    program = which("moto_server", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if find_spec("s3fs") is None or program is None:
        pytest.skip(
            "needs 'cxrtext[cluster]', and the command moto_server: pip install moto[server]"
        )
    port = free_port()
    command = [program, "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(6000):
            try:
                with urlopen(f"http://127.0.0.1:{port}/moto-api/"):
                    break
            except OSError:
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def bucket(server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    import s3fs

    files = s3fs.S3FileSystem(skip_instance_cache=True)
    name = f"bucket-{os.urandom(4).hex()}"
    files.mkdir(name)
    return f"s3://{name}/job"
