"""Starts the parts of a gateway, each a process, and starts again the one that ends."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

from cxrtext.errors import CxrTextError
from cxrtext.files import lock_now
from cxrtext.pacs.gateway.file import Gateway, read_gateway
from cxrtext_cli.fitting.processes import CHILD
from cxrtext_cli.gateway.parts import IN_PLACE, SERVER, parts_of
from cxrtext_cli.gateway.status import WAIT_S, Part, StatusServer

LOOK_S = 0.2
LIVED_S = 600.0  # after which it is started again as at first
STOP_S = 45.0  # that a part may take to end
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")

Say = Callable[[str], None]


class Supervisor:
    """Runs the parts that a file asks for, until it is interrupted."""

    def __init__(self, path: Path, say: Say) -> None:
        self._path, self._say = path, say
        self._gateway = read_gateway(path)
        self._parts = {name: Part(name) for name in parts_of(self._gateway)}
        self._changed = threading.Event()

    def run(self) -> None:
        """Run until an interrupt, which ends every part."""
        gateway = self._gateway
        gateway.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (gateway.state / "gateway.lock").open("a") as lock, ExitStack() as stack:
            lock_now(lock, f"{gateway.state}: another gateway runs on this state")
            status = stack.enter_context(StatusServer(gateway, self._parts))
            before = signal.signal(signal.SIGHUP, lambda *_: self._changed.set())
            try:
                self._say(f"{', '.join(self._parts)}; {status.address}/healthz tells how they are")
                while True:
                    self._look()
                    time.sleep(LOOK_S)
            except KeyboardInterrupt:
                self._say("stopping; what was acknowledged is kept")
            finally:
                signal.signal(signal.SIGHUP, before)
                self._stop(list(self._parts.values()))

    def _look(self) -> None:
        if self._changed.is_set():
            self._changed.clear()
            self._read_again()
        now = time.monotonic()
        for part in self._parts.values():
            if part.up:
                continue
            if part.process is not None:
                code = part.process.wait()
                part.wait = WAIT_S[0] if now > part.started + LIVED_S else part.wait
                self._say(f"{part.name}: ended ({code}); starting it again in {part.wait:.0f} s")
                part.process, part.again = None, now + part.wait
                part.wait = min(2 * part.wait, WAIT_S[1])
                part.restarts += 1
            if part.process is None and now >= part.again:
                self._start(part)

    def _start(self, part: Part) -> None:
        words = ["gateway", "run", str(self._path), "--part", part.name]
        part.process = subprocess.Popen(  # noqa: S603 - our own interpreter and command
            [sys.executable, "-P", "-c", CHILD, str(os.getpid()), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C in a terminal reaches us alone; we tell the parts
        )
        part.started = time.monotonic()
        part.reader = threading.Thread(target=self._read, args=(part, part.process), daemon=True)
        part.reader.start()

    def _read(self, part: Part, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        with process.stdout as lines:
            for line in lines:
                if text := _CONTROL.sub(" ", line.decode("utf-8", "replace").strip())[:1000]:
                    part.said = text
                    self._say(f"{part.name}: {text}")

    def _read_again(self) -> None:
        """Take over what changed in the file; a wrong one changes nothing."""
        try:
            new = read_gateway(self._path)
            wanted = parts_of(new)
        except CxrTextError as error:
            self._say(f"{error}; the gateway goes on as before")
            return
        old, self._gateway = self._gateway, new
        stay = {name for name in IN_PLACE if _fixed(old, name) == _fixed(new, name)} & set(wanted)
        # Who has said nothing yet may have read the file before it changed.
        ended = [p for p in self._parts.values() if p.name not in stay or not p.said]
        for part in self._parts.values():
            if part not in ended and part.up and part.process is not None:
                with suppress(ProcessLookupError):
                    part.process.send_signal(signal.SIGHUP)
        self._stop(ended)
        for part in ended:
            del self._parts[part.name]
        for name in wanted:
            self._parts.setdefault(name, Part(name))
        self._say(f"{self._path}: read again; {', '.join(self._parts)}")

    def _stop(self, parts: list[Part]) -> None:
        for part in parts:
            if part.process is not None:
                part.process.terminate()
        for part in parts:
            if part.process is not None:
                try:
                    part.process.wait(STOP_S)
                except subprocess.TimeoutExpired:
                    part.process.kill()
                    part.process.wait()
            if part.reader is not None:
                part.reader.join(5)


def _fixed(gateway: Gateway, name: str) -> object:
    """What the file says of a port that cannot be changed in place."""
    section = getattr(gateway, "serve" if name == SERVER else name)
    if section is None or name == SERVER:
        return section, gateway.project
    return section.model_copy(update={"tls": None, "charset": ""}), gateway.state
