"""Running the server: where it may listen, what it prints, how it ends."""

import signal
import socket
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NoReturn
from unittest.mock import Mock

import pytest

from cxrtext.errors import CheckpointError, ConfigError, CxrTextError, WorkError
from cxrtext.pacs.peers import is_loopback
from cxrtext.service import Service
from cxrtext_api.gate.keys import add_key
from cxrtext_api.server.serve import listen, run_server
from cxrtext_api.settings import Settings
from tests.waiting import until
from tests.warm import Program, Warm


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
        f"127.0.0.1:{taken}: address already in use; take another port with --port, or listen on "
        "127.0.0.1"
    )


def test_nobody_waits_for_a_server_that_is_starting() -> None:
    with listen(Settings(port=0)) as listener, pytest.raises(ConnectionRefusedError):
        socket.create_connection(listener.getsockname(), timeout=600).close()


@pytest.mark.parametrize(
    ("host", "told"),
    [
        ("203.0.113.7", "203.0.113.7:0: cannot assign requested address"),
        ("no-such-host.invalid", "no-such-host.invalid: not an address of this machine"),
    ],
)
def test_an_address_of_another_machine(host: str, told: str, tmp_path: Path) -> None:
    add_key(tmp_path / "keys", "somebody")
    with pytest.raises(WorkError, match="listen on") as raised:
        run_server(Settings(host=host, port=0, keys_file=tmp_path / "keys"), load=never)
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
    def fail(_: str) -> None:
        raise CxrTextError("cannot print")

    loaded = Mock(spec=Service, has_index=False)
    with pytest.raises(CxrTextError, match="cannot print"):
        run_server(Settings(port=0), fail, load=lambda _: loaded)


PROGRAM = """
import sys
from cxrtext_api.server.serve import run_server
from cxrtext_api.settings import Settings

class Loaded:
    calibration = None

    def warm_up(self):
        pass

    def close(self):
        print("closed", flush=True)

    has_index = False

    def describe(self):
        return {"fingerprint": "f", "images": 1, "sentences": 2}

def load(settings):
    return Loaded()

if __name__ == "__main__":
    settings = Settings.model_validate_json(sys.argv[1])
    run_server(settings, lambda url: print(url, flush=True), load=load)
    print("ended", flush=True)
"""


Serve = Callable[..., AbstractContextManager[tuple[Program, str]]]


@pytest.fixture
def program(warm: Warm, tmp_path: Path) -> Serve:
    @contextmanager
    def started(**settings: object) -> Iterator[tuple[Program, str]]:
        path = tmp_path / "program.py"
        path.write_text(PROGRAM)
        given = Settings(port=0, **settings)  # type: ignore[arg-type]
        with warm.start([path, given.model_dump_json()]) as process:
            try:
                yield process, process.stdout.readline().strip()
            finally:
                process.kill()

    return started


def status_of(url: str, key: str = "") -> int:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {key}"})
    try:
        with urllib.request.urlopen(request, timeout=600) as answer:
            status: int = answer.status
            return status
    except urllib.error.HTTPError as error:
        error.close()
        return error.code
    except OSError:
        return 0


@pytest.mark.parametrize(
    ("number", "host"), [(signal.SIGTERM, "127.0.0.1"), (signal.SIGINT, "localhost")]
)
def test_it_says_its_address_once_and_ends_well(
    program: Serve, number: signal.Signals, host: str
) -> None:
    with program(host=host, readers=3) as (process, url):
        assert url.startswith(f"http://{host}:")
        threads = Path(f"/proc/{process.pid}/task").glob("*/children")  # each thread's own
        started = [pid for path in threads for pid in path.read_text().split()]
        assert len(started) >= 3, "those that decode are there when it is ready"
        with urllib.request.urlopen(f"{url}/readyz", timeout=600) as response:
            assert response.read() == b'{"status":"ready"}'
        process.send_signal(number)
        out, err = process.communicate(timeout=600)
    assert (process.returncode, out, err) == (0, "closed\nended\n", "")


def test_keys_and_a_moved_audit_log_are_noticed_and_a_hangup_ends_nothing(
    program: Serve, tmp_path: Path
) -> None:
    path = tmp_path / "keys"
    first, audit = add_key(path, "first"), tmp_path / "audit.log"
    with program(keys_file=path, audit_log=audit) as (process, url):
        assert status_of(f"{url}/metrics", first) == 200
        assert status_of(f"{url}/metrics") == 401
        path.write_text("")
        second = add_key(path, "second")
        audit.rename(tmp_path / "audit.1")
        process.send_signal(signal.SIGHUP)
        until(lambda: status_of(f"{url}/metrics", second) == 200)
        assert status_of(f"{url}/metrics", first) == 401
        assert status_of(f"{url}/v1/model", second) != 401  # the next line makes a new file
        until(audit.exists)
        process.send_signal(signal.SIGTERM)
        assert process.wait(600) == 0


def test_what_was_accepted_is_finished(program: Serve) -> None:
    with program() as (process, url):
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=600) as line:
            head = "POST /v1/render HTTP/1.1\r\nHost: localhost\r\nContent-Length: 11\r\n"
            kind = "Content-Type: application/x-www-form-urlencoded\r\nExpect: 100-continue\r\n\r\n"
            line.sendall(f"{head}{kind}".encode())
            assert line.recv(4096).startswith(b"HTTP/1.1 100 ")  # it is accepted
            process.send_signal(signal.SIGTERM)
            until(lambda: status_of(f"{url}/healthz") == 0)
            line.sendall(b"image_id=12")
            assert line.recv(4096).startswith(b"HTTP/1.1 ")
        assert process.wait(600) == 0
