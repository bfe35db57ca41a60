"""How commands end: the one place that turns errors into exit codes."""

import os
import re
import signal
import sys
from collections.abc import Callable
from io import TextIOWrapper
from types import FrameType

import typer

from cxrtext.errors import CxrTextError, InputError
from cxrtext.files import rights_of_sources

# OpenMP threads wait for each other asleep, not spinning. On a busy machine, spinning was measured
# to slow small networks down thirtyfold; on an idle one it gains little.
THREADS = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0"}

STOPPED = 130
"""Exit code of a command that was interrupted."""


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def ending(work: Callable[[], object], *, hint: bool = True) -> None:
    """Do work and exit: 0 done, 1 failed, 2 wrong input, 130 interrupted.

    ``hint``: whether to say how to continue after an interrupt.
    """
    for name, value in THREADS.items():
        os.environ.setdefault(name, value)  # read when torch is first imported
    signal.signal(signal.SIGTERM, _interrupt)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a path may have any bytes
    try:
        with rights_of_sources():
            work()
    except CxrTextError as error:
        if os.environ.get("CXRTEXT_DEBUG"):
            raise
        typer.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    except SystemExit as end:
        # typer turns an interrupt into this.
        if end.code == STOPPED and hint:
            typer.echo("stopped; run the same command again to resume", err=True)
        raise
    except KeyboardInterrupt:
        sys.exit(STOPPED)
    except BrokenPipeError:
        # The reader of our output has gone, as with `head`.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except UnicodeEncodeError as error:
        # pyarrow and safetensors cannot open such a path; other texts were refused before.
        path = re.search('[^"\\s]*[\udc80-\udcff][^"\\s]*', error.object)
        if os.environ.get("CXRTEXT_DEBUG") or path is None:
            raise
        typer.echo(f"error: {path[0]}: not UTF-8; rename the folder or file", err=True)
        sys.exit(InputError.exit_code)
    except (MemoryError, RuntimeError) as error:
        from cxrtext.device import out_of_memory

        used_up = out_of_memory(error)
        if os.environ.get("CXRTEXT_DEBUG") or used_up is None:
            raise
        typer.echo(f"error: {used_up}; stop other programs, or use smaller batches", err=True)
        sys.exit(1)
    except OSError as error:
        if os.environ.get("CXRTEXT_DEBUG"):
            raise
        where = f"{error.filename}: " if error.filename else ""
        typer.echo(f"error: {where}{error.strerror or error}", err=True)
        sys.exit(1)
