"""The folder of a training run: its lock and its metrics.

Metrics are one JSON object per line, TensorBoard if it is installed, and a picture.  Torch is only
imported for TensorBoard, so a wrong folder is refused at once.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

from cxrtext.errors import ConfigError, WorkError
from cxrtext.files import only_one, replacing, sweep, write_text

OUT = "--set out=…"  # the option of ``train`` that names another folder
PANELS = (
    ("loss", ("train/loss", "val/loss")),
    ("accuracy and retrieval", ("train/accuracy", "val/accuracy", "val/R@1", "val/R@5")),
    ("zero-shot AUC", ("val/auc",)),
    ("γ² and share at the floor", ("train/gamma_sq", "train/floored")),
    ("learning rate", ("train/lr",)),
)
"""Titles, and the measures drawn under each."""


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


def read_metrics(path: Path) -> dict[str, tuple[list[int], list[float]]]:
    """Steps and values of each measure in a ``metrics.jsonl``, as ``train/loss``."""
    measures: dict[str, tuple[list[int], list[float]]] = defaultdict(lambda: ([], []))
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            values = json.loads(line)
            kind, step = str(values.pop("kind")), int(values.pop("step"))
            numbers = {str(name): float(value) for name, value in values.items()}
        except (ValueError, KeyError, TypeError, AttributeError):
            continue  # a damaged line
        for name, value in numbers.items():
            steps, series = measures[f"{kind}/{name}"]
            steps.append(step)
            series.append(value)
    return dict(measures)


def draw_curves(folder: Path) -> Path:
    """Draw a run's measures over its steps into ``curves.png``."""
    from matplotlib.figure import Figure

    measures = read_metrics(folder / "metrics.jsonl")
    panels = [
        (title, present)
        for title, names in PANELS
        if (present := [name for name in names if name in measures])
    ]
    figure = Figure(figsize=(12, 3.2 * ((len(panels) + 1) // 2)), layout="constrained")
    for place, (title, names) in enumerate(panels, 1):
        axes = figure.add_subplot((len(panels) + 1) // 2, 2, place)
        for name in names:
            steps, series = measures[name]
            axes.plot(steps, series, label=name, marker="." if len(steps) < 30 else "")
        axes.set_title(title)
        axes.set_xlabel("step")
        axes.legend()
    path = folder / "curves.png"
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=110)
    return path
