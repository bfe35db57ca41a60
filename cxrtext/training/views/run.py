"""A whole run on views: from images in memory to an encoder."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cxrtext.errors import CheckpointError, WorkError
from cxrtext.files import only_one
from cxrtext.training.build import choose_device
from cxrtext.training.follow import follow
from cxrtext.training.listener import Listener
from cxrtext.training.loop import StepReport
from cxrtext.training.metrics_log import MetricsLog
from cxrtext.training.state import (
    bytes_of,
    first_difference,
    last_good,
    load_newest_state,
    require_room,
    save_state,
)
from cxrtext.training.views.encoder import ViewEncoder, save_encoder
from cxrtext.training.views.job import ViewJob, ViewModel, build_view_job
from cxrtext.training.views.settings import ViewSet, ViewSettings, check

KEEP = 2
"""States that are kept."""


def train_views(
    data: ViewSet,
    settings: ViewSettings,
    out: Path,
    *,
    device: str = "auto",
    listener: Listener | None = None,
) -> ViewEncoder:
    """Train an encoder on views, or go on where a run in the folder stopped.

    Writes into ``out``: ``metrics.jsonl``, ``state/`` and, at the end, ``encoder.safetensors``.
    A run that is interrupted (``KeyboardInterrupt``) saves its state before the exception goes on.

    Args:
        data: Images and what is known of them.
        settings: How to train.
        out: The run's folder.
        device: "auto", "cpu", "cuda" or "cuda:N".
        listener: Who hears how it goes.

    Returns:
        The encoder without its head, in evaluation mode, on the device.

    Raises:
        ConfigError: Settings do not fit each other, the data or this machine.
        CheckpointError: The folder holds a run of other settings or data, or a damaged one.
        WorkError: The loss is no longer a number or has diverged, the disk is full, or another
            process trains into the folder.
    """
    check(data, settings)
    heard = listener or Listener()
    place = choose_device(device)
    with only_one(out / "run"):
        fingerprint = _fingerprint(data)
        saved = load_newest_state(out / "state", heard.say)
        if saved:
            _check_same(saved, settings, fingerprint, out / "state")
        job = build_view_job(data, settings, place)
        if saved:
            job.learner.load(saved["learner"])
        between = _Between(job, out, fingerprint)
        between.require_room_to_start()
        if job.learner.progress.step < settings.steps:
            _follow(job, between, out, heard)
        model = job.learner.model
        assert isinstance(model, ViewModel)  # noqa: S101 - build_view_job made it
        save_encoder(model.encoder, out)
    return model.encoder.eval()


def _follow(job: ViewJob, between: "_Between", out: Path, listener: Listener) -> None:
    try:
        follow(
            job,
            between,
            out,
            listener,
            images=len(job.data),
            log_every=job.settings.log_every,
            save_every=job.settings.save_every,
        )
    except WorkError as error:
        raise WorkError(f"{error}; {last_good(out / 'state')}") from None


def _fingerprint(data: ViewSet) -> str:
    """SHA-256 over images and what is known of them, in hexadecimal."""
    digest = hashlib.sha256(repr(data.kinds).encode())
    for name in ("images", "labels", "eta", "metadata"):
        value = getattr(data, name)
        digest.update(f"{name} {None if value is None else tuple(value.shape)}".encode())
        if value is not None:
            digest.update(value.detach().cpu().contiguous().numpy().data)
    return digest.hexdigest()


def _check_same(
    saved: dict[str, Any], settings: ViewSettings, fingerprint: str, state: Path
) -> None:
    difference = first_difference(saved["configuration"], settings.deciding())
    if difference is None and saved["data"] != fingerprint:
        difference = "the images, or what is known of them, have changed"
    if difference:
        raise CheckpointError(
            f"{state}: saved by another run: {difference}; go on with the old ones, or train into "
            "a new folder"
        )


@dataclass(frozen=True, slots=True)
class _Between:
    """Saving between two steps.

    Args:
        job: What is trained.
        out: The run's folder.
        fingerprint: The data's.
    """

    job: ViewJob
    out: Path
    fingerprint: str

    def measure(self, report: StepReport, log: MetricsLog | None) -> None:
        """Nothing: what was learned is judged by a probe, after the end."""

    def save(self) -> None:
        """Write the state."""
        learner = self.job.learner
        require_room(self.out / "state", self._state_bytes(), "a state")
        state = {
            "configuration": self.job.settings.deciding(),
            "data": self.fingerprint,
            "learner": learner.state(),
        }
        save_state(self.out / "state", learner.progress.step, state, KEEP)

    def require_room_to_start(self) -> None:
        """Refuse to start what could not be saved in the end.

        Raises:
            WorkError: There is too little room on the disk.
        """
        there = sum(path.stat().st_size for path in self.out.glob("state/*.pt"))
        require_room(self.out, (KEEP + 2) * self._state_bytes() - there, "keeping states")

    def _state_bytes(self) -> int:
        """Of a state, with two moments of each weight."""
        moments = 2 * sum(p.nbytes for p in self.job.learner.parameters())
        return bytes_of({**self.job.learner.state(), "optimizer": {}}) + moments
