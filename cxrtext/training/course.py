"""The course of a run: steps, and between them logging, validating, saving and stopping."""

from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import asdict, dataclass

from cxrtext.config import Config
from cxrtext.errors import WorkError
from cxrtext.models import save_checkpoint
from cxrtext.training.contrast import Objective
from cxrtext.training.curves import draw_curves
from cxrtext.training.data import Examples
from cxrtext.training.interrupt import StopRequest
from cxrtext.training.learner import Learner
from cxrtext.training.loop import StepReport, train_steps
from cxrtext.training.measures import ZeroShot, validate
from cxrtext.training.metrics_log import MetricsLog
from cxrtext.training.recipe import Recipe
from cxrtext.training.setup import deciding, plain
from cxrtext.training.state import bytes_of, last_good, require_room, save_state


@dataclass(frozen=True, slots=True)
class Course:
    """A run that is under way.

    Args:
        config: The configuration.
        data: The data's fingerprint.
        learner: What learns.
        objective: The loss.
        recipe: How to train.
        train_set: What is trained on.
        val_set: What is validated on; may be empty.
        zero_shot: Labels and prompts of the validation split, or None.
    """

    config: Config
    data: str
    learner: Learner
    objective: Objective
    recipe: Recipe
    train_set: Examples
    val_set: Examples
    zero_shot: ZeroShot | None

    def run(
        self, on_step: Callable[[StepReport, int], None], say: Callable[[str], None]
    ) -> dict[str, float]:
        """Train to the end; returns the last validation's numbers.

        Raises:
            WorkError: Saying what went wrong, and where the last good state is.
            KeyboardInterrupt: A signal asked to stop; the state was saved.
        """
        progress = self.learner.progress
        start, validation = progress.step, {}
        if not progress.done:
            try:
                validation = self._steps(on_step, say)
            except WorkError as error:
                raise WorkError(f"{error}; {last_good(self.config.out / 'state')}") from None
        if self.learner.progress.step == start:
            # Resumed after the last step: the checkpoint may still be missing.
            validation = self._validate()
            self._save(validation)
        self._draw(say)
        return validation

    def _steps(
        self, on_step: Callable[[StepReport, int], None], say: Callable[[str], None]
    ) -> dict[str, float]:
        every, total = self.config.training, self.recipe.steps
        processes, device = self.learner.processes, self.learner.model.device
        validation: dict[str, float] = {}
        steps = train_steps(self.learner, self.train_set, self.objective, self.recipe)
        with self._log() as log, StopRequest() as stop, closing(steps) as reports:
            for report in reports:
                step, last = report.step, report.step == total
                on_step(report, total)
                if log and (step % every.log_every == 0 or last):
                    log.write("train", step, self._numbers(report))
                if step % every.validate_every == 0 or last:
                    validation = self._validate()
                    if validation and log:
                        log.write("val", step, validation)
                    self._judge(validation, step, say)
                stopping = processes.any(stop.requested, device)
                done = self.learner.progress.done
                if step % every.save_every == 0 or last or stopping or done:
                    self._save(validation)
                if stopping and not last:
                    raise KeyboardInterrupt
                if done:
                    break
        return validation

    def _numbers(self, report: StepReport) -> dict[str, float]:
        values = asdict(report)
        epoch = values.pop("step") / (len(self.train_set) // self.recipe.batch)
        return {**values, "epoch": epoch}

    def _log(self) -> AbstractContextManager[MetricsLog | None]:
        if not self.learner.processes.first:
            return nullcontext()
        return MetricsLog(self.config.out, self.learner.progress.step)

    def _model(self) -> AbstractContextManager[None]:
        """The weights that are measured and kept: the average where there is one."""
        average = self.learner.average
        return average.swapped_in(self.learner.model) if average else nullcontext()

    def _validate(self) -> dict[str, float]:
        """Numbers on the validation split; none where it has no pair to tell apart."""
        if len(self.val_set) < 2:
            return {}
        with self._model():
            return validate(
                self.learner.model,
                self.val_set,
                self.objective,
                self.recipe,
                self.zero_shot,
                self.learner.processes,
            )

    def _judge(self, validation: dict[str, float], step: int, say: Callable[[str], None]) -> None:
        """Keep the model if it is the best so far; stop where it is long no better."""
        training, progress = self.config.training, self.learner.progress
        name = training.best.removeprefix("val/")
        if name not in validation:
            return
        value = -validation[name] if name == "loss" else validation[name]
        if progress.best is None or value > progress.best:
            progress.best, progress.best_step, progress.waited = value, step, 0
            self._checkpoint("checkpoint-best", validation)
            return
        progress.waited += 1
        if training.patience and progress.waited >= training.patience:
            progress.done = True
            say(
                f"stopped after step {step}: {training.best} was best after step "
                f"{progress.best_step}, {progress.waited} validations ago"
            )

    def _save(self, validation: dict[str, float]) -> None:
        """Write the state and the checkpoint."""
        if not self.learner.processes.first:
            return
        folder, keep = self.config.out / "state", self.config.training.keep
        require_room(folder, self._state_bytes() + self._weight_bytes(), "a state and a checkpoint")
        state = {
            "configuration": deciding(self.config),
            "data": self.data,
            "learner": self.learner.state(),
        }
        save_state(folder, self.learner.progress.step, state, keep)
        self._checkpoint("checkpoint", validation)

    def _checkpoint(self, name: str, validation: dict[str, float]) -> None:
        if not self.learner.processes.first:
            return
        with self._model():
            save_checkpoint(
                self.config.out / name,
                self.learner.model,
                {
                    "configuration": plain(self.config),
                    "data_fingerprint": self.data,
                    "step": self.learner.progress.step,
                    "validation": validation,
                },
            )

    def _draw(self, say: Callable[[str], None]) -> None:
        if self.learner.processes.first and draw_curves(self.config.out) is None:
            say(f"{self.config.out / 'curves.png'}: not drawn; install matplotlib to have it")

    def _weight_bytes(self) -> int:
        return bytes_of(self.learner.model.state_dict())

    def _state_bytes(self) -> int:
        """Of a state, with the two moments that AdamW will have made of each weight."""
        moments = 2 * sum(p.nbytes for p in self.learner.parameters())
        return bytes_of({**self.learner.state(), "optimizer": {}}) + moments

    def require_room_to_start(self) -> None:
        """Refuse to start what could not be saved in the end.

        Raises:
            WorkError: There is too little room on the disk.
        """
        out, keep = self.config.out, self.config.training.keep
        there = [*out.glob("state/*.pt"), *out.glob("checkpoint*/*")]
        size = (keep + 1) * self._state_bytes() + 3 * self._weight_bytes()
        size -= sum(path.stat().st_size for path in there)
        require_room(out, size, f"keeping {keep} states and two checkpoints")
