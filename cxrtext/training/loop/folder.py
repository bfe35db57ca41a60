"""The folder of a training run: its lock and its metrics.

Metrics are one JSON object per line, and TensorBoard if it is installed.  Torch is only imported
for TensorBoard, so a wrong folder is refused at once.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

from cxrtext.errors import ConfigError, WorkError
from cxrtext.files import only_one, sweep, write_text

OUT = "--set out=…"  # the option of ``train`` that names another folder


def check_folder(out: Path, resume: bool) -> None:
    """Refuse a folder that has a run already, unless it is resumed."""
    if not resume and (out / "state").exists():
        raise ConfigError(
            f"{out}: holds a training run already; resume it with --resume {out}, or train "
            f"into a new folder with {OUT}"
        )


@contextmanager
def own_folder(out: Path, option: str = OUT) -> Iterator[None]:
    """Lock a run's folder and clear what a killed run left; ``option`` names another folder."""
    with ExitStack() as stack:
        try:
            stack.enter_context(only_one(out / "run"))
        except WorkError:
            raise WorkError(
                f"{out}: another process is training into this folder; wait for it, or choose "
                f"another with {option}"
            ) from None
        for folder in (out, out / "state"):
            sweep(folder)
        yield


class MetricsLog(AbstractContextManager["MetricsLog"]):
    """Appends metrics to ``metrics.jsonl`` and to TensorBoard.

    Lines of steps after ``start`` are dropped first, because a resumed run writes them again.
    """

    def __init__(self, folder: Path, start: int) -> None:
        path = folder / "metrics.jsonl"
        if path.is_file():
            write_text(path, "".join(_lines_up_to(path, start)))
        self._file = path.open("a", encoding="utf-8")
        self._board = _tensorboard(folder / "tensorboard", start)

    def write(self, kind: str, step: int, values: Mapping[str, float]) -> None:
        """Write one line: its kind ("train", "val"), the step and the numbers."""
        rounded = {name: float(f"{value:.6g}") for name, value in values.items()}
        self._file.write(json.dumps({"kind": kind, "step": step, **rounded}) + "\n")
        self._file.flush()
        if self._board is not None:
            for name, value in values.items():
                self._board.add_scalar(f"{kind}/{name}", value, step)

    def __exit__(self, *_: object) -> None:
        self._file.close()
        if self._board is not None:
            self._board.close()


def _lines_up_to(path: Path, start: int) -> list[str]:
    lines = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True):
        try:
            if json.loads(line)["step"] <= start and line.endswith("\n"):
                lines.append(line)
        except (json.JSONDecodeError, KeyError, TypeError):
            continue  # a killed process may leave a cut last line
    return lines


def _tensorboard(folder: Path, start: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder), purge_step=start + 1)
