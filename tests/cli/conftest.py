import signal
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from cxrtext_cli.main import main

Refused = Callable[..., str]


def cxrtext(*arguments: object, text: bytes = b"", code: int = 0) -> CompletedProcess[str]:
    """Run the command as a user starts it, but in this process, which has torch imported already.

    It is to end with the exit code ``code``.
    """
    given = list(map(str, arguments))
    out, err = StringIO(newline=""), StringIO()
    terminate = signal.getsignal(signal.SIGTERM)
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["cxrtext", *given])
        patch.setattr(sys, "stdin", TextIOWrapper(BytesIO(text)))
        try:
            main()
            ended = 0
        except SystemExit as end:
            ended = int(end.code or 0)
        finally:
            signal.signal(signal.SIGTERM, terminate)
    assert ended == code, (out.getvalue(), err.getvalue())
    return CompletedProcess(given, ended, out.getvalue(), err.getvalue())


@pytest.fixture
def image(data_folder: Path) -> Path:
    return data_folder / "images/s01.png"


@pytest.fixture
def refused(caplog: pytest.LogCaptureFixture) -> Refused:
    """Runs a command that is to be refused with exit code 2 and one line; gives the line."""

    def run(*arguments: str | Path, text: bytes = b"") -> str:
        done = cxrtext(*arguments, text=text, code=2)
        assert done.stdout == ""
        (line,) = done.stderr.strip().splitlines()
        assert line.startswith("error: ")
        assert "Traceback" not in done.stderr + caplog.text
        return line.removeprefix("error: ")

    return run
