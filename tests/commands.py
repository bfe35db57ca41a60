"""The command as a user starts it, but in this process, which has torch imported already."""

import signal
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import BytesIO, StringIO, TextIOWrapper
from subprocess import CompletedProcess

import pytest

from cxrtext_cli import start


def cxrtext(*arguments: object, text: bytes = b"", code: int = 0) -> CompletedProcess[str]:
    """Run the command, which must end with the exit code ``code``."""
    given = list(map(str, arguments))
    out, err = StringIO(newline=""), StringIO()
    terminate = signal.getsignal(signal.SIGTERM)
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["cxrtext", *given])
        patch.setattr(sys, "stdin", TextIOWrapper(BytesIO(text)))
        try:
            start()
            ended = 0
        except SystemExit as end:
            ended = int(end.code or 0)
        finally:
            signal.signal(signal.SIGTERM, terminate)
    assert ended == code, (out.getvalue(), err.getvalue())
    return CompletedProcess(given, ended, out.getvalue(), err.getvalue())
