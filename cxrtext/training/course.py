"""The course of a run: steps, and between them logging, validating, saving and stopping."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from cxrtext.config import Config
from cxrtext.errors import WorkError
from cxrtext.models import save_checkpoint
from cxrtext.training.contrast import Objective
from cxrtext.training.curves import draw_curves
from cxrtext.training.data import Examples
from cxrtext.training.follow import follow
from cxrtext.training.listener import Listener
from cxrtext.training.loop import StepReport
from cxrtext.training.measures import ZeroShot, validate
from cxrtext.training.metrics_log import MetricsLog
from cxrtext.training.pair_job import PairJob
from cxrtext.training.pair_learner import PairLearner
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
    learner: PairLearner
    objective: Objective
    recipe: Recipe
    train_set: Examples
    val_set: Examples
    zero_shot: ZeroShot | None

    def run(self, listener: Listener) -> dict[str, float]:
        """Train to the end; returns the last validation's numbers.

        Raises:
            WorkError: Saying what went wrong, and where the last good state is.
            KeyboardInterrupt: A signal asked to stop; the state was saved.
        """
        progress, every = self.learner.progress, self.config.training
        start, between = progress.step, _Between(self, listener)
        if not progress.done:
            try:
                follow(
                    PairJob(self.learner, self.train_set, self.objective, self.recipe),
                    between,
                    self.config.out,
                    listener,
                    images=len(self.train_set),
                    log_every=every.log_every,
                    save_every=every.save_every,
                )
            except WorkError as error:
                raise WorkError(f"{error}; {last_good(self.config.out / 'state')}") from None
        if self.learner.progress.step == start:
            # Resumed after the last step: the checkpoint may still be missing.
            between.validation = self.validate()
            self.save(between.validation)
        self._draw(listener)
        return between.validation

    def _model(self) -> AbstractContextManager[None]:
        """The weights that are measured and kept: the average where there is one."""
        average = self.learner.average
        return average.swapped_in(self.learner.model) if average else nullcontext()

    def validate(self) -> dict[str, float]:
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

    def judge(self, validation: dict[str, float], step: int, listener: Listener) -> None:
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
            listener.say(
                f"stopped after step {step}: {training.best} was best after step "
                f"{progress.best_step}, {progress.waited} validations ago"
            )

    def save(self, validation: dict[str, float]) -> None:
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

    def _draw(self, listener: Listener) -> None:
        if self.learner.processes.first and draw_curves(self.config.out) is None:
            curves = self.config.out / "curves.png"
            listener.say(f"{curves}: not drawn; install matplotlib to have it")

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


@dataclass(slots=True)
class _Between:
    """Validation and saving between two steps.

    Args:
        course: The run.
        listener: Hears where it stops early.
        validation: The last validation's numbers.
    """

    course: Course
    listener: Listener
    validation: dict[str, float] = field(default_factory=dict)

    def measure(self, report: StepReport, log: MetricsLog | None) -> None:
        """Validate every so many steps and after the last."""
        course, step = self.course, report.step
        if step % course.config.training.validate_every and step != course.recipe.steps:
            return
        self.validation = course.validate()
        if self.validation and log:
            log.write("val", step, self.validation)
        course.judge(self.validation, step, self.listener)

    def save(self) -> None:
        """Write state and checkpoint."""
        self.course.save(self.validation)
