import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.leftovers import VARIABLE
from tests.waiting import gone, until

ROOT = Path(__file__).parents[1]
RUN = """
import subprocess, sys, time
from tests.leftovers import end_with_us
end_with_us()
program = ["sh", "-c", "sleep 3600 & echo $! $$; wait"]
subprocess.Popen(program, start_new_session=True)
time.sleep(3600)
"""


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux")
def test_programs_of_a_test_run_end_with_it_even_if_it_is_killed() -> None:
    free = {name: value for name, value in os.environ.items() if name != VARIABLE}
    with subprocess.Popen(
        [sys.executable, "-c", RUN], stdout=subprocess.PIPE, text=True, env=free, cwd=ROOT
    ) as run:
        assert run.stdout is not None
        pids = [int(pid) for pid in run.stdout.readline().split()]
        assert len(pids) == 2
        assert not any(map(gone, pids))
        run.send_signal(signal.SIGKILL)
        until(lambda: all(map(gone, pids)))
