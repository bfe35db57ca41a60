"""What a server is asked in a week, beside what its model was calibrated on."""

import logging
from datetime import date, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from cxrtext.evaluation import CHEX5_PROMPTS
from cxrtext.evaluation.classification.calibration import KeptCalibration
from cxrtext.evaluation.drift import distribution_of
from cxrtext.service import FindingScore
from cxrtext.service.answers import EmbeddedImage
from cxrtext.service.watch import Watch

RNG = np.random.default_rng(0)
WATCHED = {
    "score of Edema": distribution_of(RNG.normal(size=400).tolist()),
    "view": distribution_of(["AP"] * 200 + ["PA"] * 200),
    "gray mean": distribution_of(RNG.normal(100, 10, 400).tolist()),
}


class Asked:
    """Days go by, and images are asked about."""

    def __init__(self, path: Path | None) -> None:
        self.day = date(2026, 11, 23)
        self.service: Any = SimpleNamespace(
            prompts=CHEX5_PROMPTS,
            calibration=KeptCalibration.model_construct(watched=WATCHED, prompts=CHEX5_PROMPTS),
        )
        self.watch, self.many = Watch(path, lambda: self.day), 0
        self.rng = np.random.default_rng(1)

    def ask(self, n: int, shift: float = 0.0) -> None:
        for _ in range(n):
            self.many += 1
            image = EmbeddedImage(
                torch.tensor([[float(self.many)]]), 8, 8,
                metadata={"view": ["AP", "PA"][self.many % 2], "sex": "F"},
                inputs=(("gray mean", self.rng.normal(100, 10)),),
            )  # fmt: skip
            score = FindingScore("Edema", 0.5, self.rng.normal(shift))
            self.watch.note(self.service, image, [score])
            self.watch.note(self.service, image, [score])  # counted once

    def week_goes_by(self) -> list[str]:
        self.day += timedelta(days=7)
        return self.watch.look(self.service).warnings


def test_what_changed_is_said_once_a_week(caplog: pytest.LogCaptureFixture) -> None:
    asked = Asked(None)
    with caplog.at_level(logging.WARNING):
        asked.ask(150)
        assert asked.week_goes_by() == []
        asked.ask(150, shift=1.5)
        assert asked.watch.look(asked.service).warnings == []  # the week is not over
        assert asked.week_goes_by() == ["score of Edema"]
        assert asked.watch.look(asked.service).warnings == ["score of Edema"]
    (line,) = caplog.messages
    assert "150 images of 2026-W49" in line
    assert "score of Edema" in line
    asked.ask(150)
    assert asked.week_goes_by() == []


def test_a_week_of_few_images_goes_on() -> None:
    asked = Asked(None)
    asked.ask(30, shift=9.0)
    assert asked.week_goes_by() == []
    assert asked.watch.look(asked.service).images == 0
    asked.ask(20, shift=9.0)  # with these there are enough
    assert asked.watch.look(asked.service).images == 50
    assert asked.watch.look(asked.service).warnings == ["score of Edema"]


def test_counts_outlive_the_process_and_damage_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "watch.json"
    asked = Asked(path)
    asked.ask(60, shift=3.0)
    asked.watch.close()
    assert path.stat().st_size < 4096
    again = Asked(path)
    assert again.week_goes_by() == ["score of Edema"]
    assert Watch(path, lambda: again.day).look(again.service).warnings == ["score of Edema"]
    path.write_text("{}")
    assert Watch(path, lambda: again.day).look(again.service).images == 0


def test_another_reference_begins_anew_and_none_counts_nothing() -> None:
    asked = Asked(None)
    asked.ask(60, shift=3.0)
    asked.service.calibration = KeptCalibration.model_construct(
        watched={"view": WATCHED["view"]}, prompts={}
    )
    assert asked.week_goes_by() == []
    asked.service = SimpleNamespace(
        prompts={"Edema": CHEX5_PROMPTS["Pneumonia"]},  # other prompts than those of the reference
        calibration=KeptCalibration.model_construct(watched=WATCHED, prompts=CHEX5_PROMPTS),
    )
    asked.ask(60, shift=3.0)
    assert asked.week_goes_by() == []
    asked.service.calibration = None
    asked.ask(60, shift=3.0)
    assert asked.week_goes_by() == []
