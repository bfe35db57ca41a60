"""What is said of an isolated process that was lost, and of the task that it had."""

import signal

AGAIN = "copy or export the file again"


class ProcessLost(Exception):  # noqa: N818 - what became of a process
    """A process is gone, or has to go.

    Args:
        reason: One or two words, for counting.
        fault: What to say of the task that it had, with {} for what was done to it.
        mend: What to do about it.
    """

    def __init__(self, reason: str, fault: str, mend: str = AGAIN) -> None:
        super().__init__(reason)
        self.reason = reason
        self.fault = fault
        self.mend = mend


def post_mortem(code: int, cpu_seconds: float) -> ProcessLost:
    """Say why a process ended of itself.

    Args:
        code: How it ended, as `subprocess` tells it.
        cpu_seconds: Computing time that it had for a task.
    """
    if code == -signal.SIGXCPU:
        return ProcessLost(
            "computing time",
            f"was not {{}} within {cpu_seconds:g} s of computing",
            f"{AGAIN}, or allow more time",
        )
    name = signal.Signals(-code).name if code < 0 else f"exit {code}"
    return ProcessLost(name, f"made its reader process end ({name})")
