"""The folder of a training run; looked at without torch, so that mistakes are told at once."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cxrtext.errors import ConfigError, WorkError
from cxrtext.files import only_one, sweep


def check_folder(out: Path, resume: bool) -> None:
    """Refuse to begin a run where there is one, unless it is to be resumed."""
    if not resume and (out / "state").exists():
        raise ConfigError(
            f"{out}: holds a training run already; go on with it with --resume {out}, or train "
            "into a new folder with --set out=…"
        )


@contextmanager
def own_folder(out: Path, resume: bool) -> Iterator[None]:
    """Hold a run's folder, and clear away what a killed process left there half written."""
    check_folder(out, resume)
    with ExitStack() as stack:
        try:
            stack.enter_context(only_one(out / "run"))
        except WorkError:
            raise WorkError(
                f"{out}: another process is training into this folder; wait for it, or choose "
                "another with --set out=…"
            ) from None
        for folder in (out, out / "state"):
            sweep(folder)
        yield
