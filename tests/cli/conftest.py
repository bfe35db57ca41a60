from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands import cxrtext as cxrtext

Refused = Callable[..., str]


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
