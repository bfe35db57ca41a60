"""Metrics of a run: one JSON object a line, and TensorBoard where it is installed."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from cxrtext.files import write_text


class MetricsLog:
    """Appends metrics to ``metrics.jsonl`` and to TensorBoard; a context manager.

    Lines of steps after ``start`` are dropped first: a resumed run writes them again.

    Args:
        folder: The run's folder.
        start: Steps already done.
    """

    def __init__(self, folder: Path, start: int) -> None:
        path = folder / "metrics.jsonl"
        if path.is_file():
            write_text(path, "".join(_lines_up_to(path, start)))
        self._file = path.open("a", encoding="utf-8")
        self._board = _tensorboard(folder / "tensorboard", start)

    def write(self, kind: str, step: int, values: Mapping[str, float]) -> None:
        """Write one line: what kind it is ("train", "val"), the step, and the numbers."""
        rounded = {name: float(f"{value:.6g}") for name, value in values.items()}
        self._file.write(json.dumps({"kind": kind, "step": step, **rounded}) + "\n")
        self._file.flush()
        if self._board is not None:
            for name, value in values.items():
                self._board.add_scalar(f"{kind}/{name}", value, step)

    def __enter__(self) -> "MetricsLog":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
        if self._board is not None:
            self._board.close()


def _lines_up_to(path: Path, start: int) -> list[str]:
    kept = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True):
        try:
            if json.loads(line)["step"] <= start and line.endswith("\n"):
                kept.append(line)
        except (json.JSONDecodeError, KeyError, TypeError):
            continue  # the last line of a killed process may be cut, another one damaged
    return kept


def _tensorboard(folder: Path, start: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder), purge_step=start + 1)
