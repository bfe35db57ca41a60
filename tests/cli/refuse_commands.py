"""Runs commands, each in a fork of a process that has imported nothing heavy.

Standard input has a JSON list of argument lists; standard output gets a JSON list of what each came
to: its exit code, what it said, and which heavy modules it had imported.
"""

import json
import os
import signal
import sys
import tempfile
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from cxrtext_cli.main import main

HEAVY = ("torch", "transformers", "faiss")
SECONDS = 60


def come_to(arguments: list[str]) -> dict[str, Any]:
    """Run one command in a fork."""
    with tempfile.TemporaryDirectory() as folder:
        out, note = Path(folder) / "out", Path(folder) / "note"
        child = os.fork()
        if child == 0:
            handle = os.open(out, os.O_WRONLY | os.O_CREAT)
            os.dup2(handle, 1)
            os.dup2(handle, 2)
            sys.argv = ["cxrtext", *arguments]
            signal.alarm(SECONDS)  # what was not refused may run for ever
            code = 0
            try:
                main()
            except SystemExit as end:
                code = int(end.code or 0)
            except BaseException as error:  # noqa: BLE001 - what no command should end in
                print(repr(error))  # noqa: T201
                code = 99
            sys.stdout.flush()
            sys.stderr.flush()
            note.write_text(json.dumps([code, list(sys.modules)]))
            os._exit(0)
        os.waitpid(child, 0)
        if not note.exists():
            return {"code": -1, "said": "still at work", "loaded": list(HEAVY)}
        code, modules = json.loads(note.read_text())
        loaded = [name for name in HEAVY if name in modules]
        if not loaded:
            import_light(modules)
        return {"code": code, "said": out.read_text(), "loaded": loaded}


def import_light(modules: list[str]) -> None:
    """Import what a command has imported, so that the next ones need not."""
    for name in modules:
        if name not in sys.modules:
            with suppress(ImportError):
                import_module(name)
    assert not any(name in sys.modules for name in HEAVY)


print(json.dumps([come_to(arguments) for arguments in json.load(sys.stdin)]))  # noqa: T201
