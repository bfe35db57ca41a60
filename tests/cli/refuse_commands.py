"""Runs commands one after the other in a process that has imported nothing heavy.

Standard input has a JSON list of argument lists; standard output gets a JSON list of what each came
to: its exit code, what it said, and which heavy modules it imported.
"""

import json
import signal
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import Any

from cxrtext_cli.main import main

HEAVY = ("torch", "transformers", "faiss")
SECONDS = 60


def too_long(*_: object) -> None:
    """End a command that was not refused, which may run for ever."""
    raise TimeoutError


def come_to(arguments: list[str]) -> dict[str, Any]:
    said = StringIO()
    before = set(sys.modules)
    sys.argv = ["cxrtext", *arguments]
    signal.alarm(SECONDS)
    code = 0
    with redirect_stdout(said), redirect_stderr(said):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        except BaseException as error:  # noqa: BLE001 - what no command should end in
            said.write(repr(error))
            code = 99
        finally:
            signal.alarm(0)
    loaded = [name for name in HEAVY if name in sys.modules and name not in before]
    return {"code": code, "said": said.getvalue(), "loaded": loaded}


signal.signal(signal.SIGALRM, too_long)
print(json.dumps([come_to(arguments) for arguments in json.load(sys.stdin)]))  # noqa: T201
