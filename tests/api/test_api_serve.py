"""Running the server: where it may listen, what it prints, how it ends."""

import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from typing import NoReturn

import pytest

from cxrtext.errors import CheckpointError, ConfigError, CxrTextError, WorkError
from cxrtext.service import Service
from cxrtext_api.serve import run_server
from cxrtext_api.settings import Settings, is_loopback

SCRIPT = """
import json, sys, urllib.request
from cxrtext_api.serve import run_server
from cxrtext_api.settings import Settings

class Loaded:
    def close(self):
        print("closed", flush=True)

def on_ready(url):
    print(url, flush=True)

run_server(Settings(host=sys.argv[1], port=0), on_ready, load=lambda settings: Loaded())
print("ended", flush=True)
"""


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that another program listens on."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


def never(_: Settings) -> NoReturn:
    raise AssertionError("the model was loaded for nothing")


def test_a_port_in_use(taken: int) -> None:
    with pytest.raises(WorkError) as raised:
        run_server(Settings(port=taken), load=never)
    assert str(raised.value) == (
        f"127.0.0.1:{taken} is in use by another program; stop it, or take another port with --port"
    )


@pytest.mark.parametrize(
    ("host", "told"),
    [
        ("203.0.113.7", "203.0.113.7:0: cannot assign requested address"),
        ("no-such-host.invalid", "no-such-host.invalid: not an address of this machine"),
    ],
)
def test_an_address_of_another_machine(host: str, told: str) -> None:
    with pytest.raises(WorkError, match="listen on") as raised:
        run_server(Settings(host=host, port=0, keys=("0" * 64,)), load=never)
    assert told in str(raised.value)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "some.host.example"])  # noqa: S104
def test_beyond_this_machine_only_with_keys(host: str) -> None:
    with pytest.raises(ConfigError, match="CXRTEXT_API_KEYS_FILE") as raised:
        run_server(Settings(host=host), load=never)
    assert host in str(raised.value)
    assert "\n" not in str(raised.value)


def test_loopback_addresses() -> None:
    hosts = ("localhost", "LOCALHOST", "127.0.0.1", "127.8.8.8", "::1", "[::1]")
    assert all(is_loopback(host) for host in hosts)
    others = ("0.0.0.0", "::", "10.0.0.1", "localhost.example", "", "127.0.0.1.example")  # noqa: S104
    assert not any(is_loopback(host) for host in others)


@pytest.mark.parametrize("error", [CheckpointError, RuntimeError])
def test_a_model_that_cannot_be_loaded_ends_the_server(error: type[Exception]) -> None:
    def load(_: Settings) -> Service:
        raise error("model: damaged")

    announced: list[str] = []
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(error, match="model: damaged"):
        run_server(Settings(port=0), announced.append, load=load)
    assert announced == []
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_failing_announcement_ends_the_server() -> None:
    class Loaded:
        def close(self) -> None:
            pass

    def fail(_: str) -> None:
        raise CxrTextError("cannot print")

    with pytest.raises(CxrTextError, match="cannot print"):
        run_server(Settings(port=0), fail, load=lambda _: Loaded())  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize(
    ("number", "host"), [(signal.SIGTERM, "127.0.0.1"), (signal.SIGINT, "localhost")]
)
def test_it_says_its_address_once_and_ends_well(number: signal.Signals, host: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, host],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            assert url.startswith(f"http://{host}:")
            with urllib.request.urlopen(f"{url}/readyz", timeout=10) as response:
                assert response.read() == b'{"status":"ready"}'
            process.send_signal(number)
            out, err = process.communicate(timeout=20)
        finally:
            process.kill()
    assert (process.returncode, out, err) == (0, "closed\nended\n", "")
