"""Scoring in several processes: the same numbers in the same order, and nobody left behind."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from cxrtext.errors import ConfigError, WorkError
from cxrtext.language import score_reports
from cxrtext.models.masked_lm import MaskedLanguageModel
from cxrtext.records import read_sentences

WORDS = ["The", "lungs", "are", "clear", "left", "pleural", "effusion", "right", "pneumothorax"]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A hundred and fifty distinct sentences of 2 to 9 words."""
    chance = np.random.default_rng(1)
    rows = []
    for number in range(150):
        words = chance.choice(WORDS, size=int(chance.integers(2, 10)))
        rows.append(f"s{number},{' '.join(words)} {number}.\n")
    path = tmp_path / "reports.csv"
    path.write_text("study_id,report\n" + "".join(rows))
    return path


@pytest.mark.slow
def test_workers_give_the_same_values_in_the_same_order_and_a_killed_one_is_an_error(
    corpus: Path, language_model: Path, tmp_path: Path
) -> None:
    alone, shared = tmp_path / "alone.csv", tmp_path / "shared.csv"
    score_reports(corpus, alone, model=language_model, device="cpu", batch_tokens=256, cache=False)

    def kill(done: int, total: int) -> None:
        workers = multiprocessing.active_children()
        if workers:
            workers[0].kill()

    with pytest.raises(WorkError, match="each of 2 holds the model; take fewer, and start again"):
        score_reports(
            corpus, shared, model=language_model, device="cpu", batch_tokens=256, cache=False,
            workers=2, progress=kill,
        )  # fmt: skip
    assert not shared.exists()
    summary = score_reports(
        corpus, shared, model=language_model, device="cpu", batch_tokens=256, cache=False, workers=2
    )
    assert 0 < summary.resumed < summary.distinct_sentences
    ours, theirs = read_sentences(shared), read_sentences(alone)
    assert [(r.study_id, r.sentence) for r in ours] == [(r.study_id, r.sentence) for r in theirs]
    values = [[r.log_likelihood for r in rows] for rows in (ours, theirs)]
    np.testing.assert_allclose(values[0], values[1], rtol=1e-6)
    assert not multiprocessing.active_children()


PARENT = """
import multiprocessing, sys, time
from pathlib import Path
from cxrtext.language import score_reports

def wait(done, total):
    print(*[child.pid for child in multiprocessing.active_children()], flush=True)
    time.sleep(600)

if __name__ == "__main__":
    score_reports(Path(sys.argv[1]), Path(sys.argv[2]), model=sys.argv[3], device="cpu",
                  batch_tokens=256, workers=2, progress=wait)
"""


def runs(process: int) -> bool:
    """Whether a process is there and has not ended."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at /proc")
def test_workers_end_when_their_parent_is_killed(
    corpus: Path, language_model: Path, tmp_path: Path
) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    parent = subprocess.Popen(
        [sys.executable, script, corpus, tmp_path / "out.csv", language_model],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert parent.stdout is not None
    workers = [int(number) for number in parent.stdout.readline().split()]
    assert len(workers) == 2
    assert all(map(runs, workers))
    parent.kill()
    parent.wait()
    parent.stdout.close()
    until = time.monotonic() + 600
    while any(map(runs, workers)) and time.monotonic() < until:
        time.sleep(0.1)
    left = [number for number in workers if runs(number)]
    for number in left:
        os.kill(number, signal.SIGKILL)
    assert not left


def test_workers_need_a_model_that_they_can_load(
    tiny: MaskedLanguageModel, corpus: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="several workers need a model's folder or hub id"):
        score_reports(corpus, tmp_path / "out.csv", model=tiny, workers=2)
    assert [p.name for p in tmp_path.iterdir()] == ["reports.csv"]
