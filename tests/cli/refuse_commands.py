"""Runs commands, each in a fork of a process that has imported the command line and no more.

Standard input has a JSON list of argument lists; standard output gets a JSON list of what each came
to: its exit code, what it said, the processor's seconds, and which heavy modules it had imported.
"""

import json
import os
import resource
import signal
import sys
import tempfile
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
            used = resource.getrusage(resource.RUSAGE_SELF)
            loaded = [name for name in HEAVY if name in sys.modules]
            note.write_text(json.dumps([code, used.ru_utime + used.ru_stime, loaded]))
            os._exit(0)
        os.waitpid(child, 0)
        if not note.exists():
            return {"code": -1, "said": "still at work", "seconds": SECONDS, "loaded": list(HEAVY)}
        code, seconds, loaded = json.loads(note.read_text())
        return {"code": code, "said": out.read_text(), "seconds": seconds, "loaded": loaded}


print(json.dumps([come_to(arguments) for arguments in json.load(sys.stdin)]))  # noqa: T201
