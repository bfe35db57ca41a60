import math
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler

from cxrtext.errors import WorkError
from cxrtext.training.loop.job import Learner, StepNumbers, train_steps
from cxrtext.training.loop.optimization import Schedule


def learner() -> Learner:
    model = nn.Linear(2, 1, bias=False)
    nn.init.ones_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    return Learner(model=model, optimizer=optimizer, scaler=GradScaler("cpu", enabled=False))


@dataclass
class Slope:
    """Loss and gradient of every weight: one plus the step."""

    schedule: Schedule
    learner: Learner = field(default_factory=learner)
    made: list[int] = field(default_factory=list)
    spoiled: int | None = None

    def make(self, step: int) -> Tensor:
        self.made.append(step)
        return torch.full((1, 2), float(step + 1))

    def gradients(self, step: int, made: Tensor) -> StepNumbers:
        assert all(p.grad is None for p in self.learner.parameters())
        loss = self.learner.model(made).sum()
        if step == self.spoiled:
            loss = loss * torch.nan
        self.learner.scaler.scale(loss).backward()
        return StepNumbers(1.0, accuracy=0.25, gamma_sq=2.0)


def test_a_job_is_taken_from_where_its_learner_stands() -> None:
    job = Slope(Schedule(steps=4, batch=8, lr=0.1, decay="constant", clip=math.inf))
    job.learner.progress.step = 1
    reports = list(train_steps(job))
    assert [report.step for report in reports] == [2, 3, 4]
    assert job.made == [1, 2, 3]
    assert [report.lr for report in reports] == [0.1] * 3
    assert [report.grad_norm for report in reports] == pytest.approx(
        [math.sqrt(2) * slope for slope in (2, 3, 4)]
    )
    # 1 − 0.1 · (2 + 3 + 4)
    assert job.learner.parameters()[0].tolist() == [[pytest.approx(0.1)] * 2]
    assert (reports[0].accuracy, reports[0].gamma_sq, reports[0].mlm) == (0.25, 2.0, 0.0)


def test_gradients_are_clipped_to_the_norm_asked_for_whatever_the_scale_of_the_loss() -> None:
    once = Schedule(steps=1, batch=8, lr=1.0, decay="constant", clip=0.1)
    plain, scaled = Slope(once), Slope(once)
    scaled.learner.scaler = GradScaler("cpu", init_scale=1024.0)
    reports = [next(train_steps(job)) for job in (plain, scaled)]
    assert reports[1].grad_norm == pytest.approx(reports[0].grad_norm)
    torch.testing.assert_close(scaled.learner.parameters()[0], plain.learner.parameters()[0])
    moved = 1 - plain.learner.parameters()[0].detach()
    assert float(moved.norm()) == pytest.approx(0.1, rel=1e-3)


def test_a_gradient_that_is_no_number_stops_before_the_step() -> None:
    job = Slope(Schedule(steps=3, batch=8, lr=0.1, precision="bfloat16"), spoiled=1)
    with pytest.raises(WorkError, match=r"step 2; lower lr \(now 0.1\), or take float32"):
        list(train_steps(job))
    assert job.learner.progress.step == 1
    assert bool(job.learner.parameters()[0].isfinite().all())


def test_a_state_holds_all_that_goes_on() -> None:
    job = Slope(Schedule(steps=2, batch=8, lr=0.1))
    list(train_steps(job))
    other = learner()
    other.load(job.learner.state())
    assert other.progress == job.learner.progress
    assert torch.equal(other.parameters()[0], job.learner.parameters()[0])


def test_rates_of_both_schedules() -> None:
    constant = Schedule(steps=10, batch=8, lr=1.0, warmup=4, decay="constant")
    cosine = Schedule(steps=10, batch=8, lr=1.0, warmup=4)
    assert [constant.rate(step) for step in range(10)] == [0.25, 0.5, 0.75, *[1.0] * 7]
    falling = [cosine.rate(step) for step in range(4, 10)]
    assert cosine.rate(3) == falling[0] == 1.0
    assert falling == sorted(falling, reverse=True)
    assert 0 < falling[-1] < 0.1
    assert Schedule(steps=3, batch=8, lr=1.0, warmup=1000).rate(0) == 1.0
