"""A real server in a thread of the tests, and one in a process of its own."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from cxrtext.service import Service
from cxrtext_api.app import create_app
from cxrtext_api.server.serve import listen
from cxrtext_api.settings import Settings
from tests.waiting import until

START_SECONDS = 600


@contextmanager
def running(server: uvicorn.Server) -> Iterator[str]:
    """The address of a server, from when it takes connections until it has ended.

    It listens on a free port of 127.0.0.1, whatever its own configuration says.
    """
    target = uvicorn.Server.run  # a subclass's own would take the signals
    with listen(Settings(port=0)) as listener:
        thread = threading.Thread(target=target, args=(server, [listener]), daemon=True)
        thread.start()
        try:
            end = time.monotonic() + START_SECONDS
            while not server.started:
                assert thread.is_alive(), "the server did not start"
                assert time.monotonic() < end, "the server did not start in time"
                time.sleep(0.01)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(600)
            assert not thread.is_alive(), "the server did not end"


@contextmanager
def served(settings: Settings, service: Service) -> Iterator[str]:
    """The address of a server that has a service, once it has warmed it up."""
    app = create_app(settings, lambda _: service)
    with running(uvicorn.Server(uvicorn.Config(app, log_config=None, ws="none"))) as address:
        until(app.state.resources.settled.is_set)
        yield address


@contextmanager
def serving_process(
    *options: object, stderr: int | None = None
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """``cxrtext serve`` as a user starts it, and its address; it is killed with the block."""
    command = [sys.executable, "-c", "from cxrtext_cli.main import main; main()", "serve"]
    with subprocess.Popen(
        [*command, "--port", "0", *map(str, options)],
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        env={"OMP_NUM_THREADS": "1", **os.environ, "HF_HUB_OFFLINE": "1"},
    ) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line.startswith("serving at http://127.0.0.1:"), process.communicate()
            yield process, line.split()[-1]
        finally:
            process.kill()
