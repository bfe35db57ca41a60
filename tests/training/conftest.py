from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def undrawn(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Curves are drawn only for tests that ask for it: they take longer than a run of few steps."""
    if "drawn" not in request.fixturenames:
        for module in ("trainer", "image_pretraining.pretrain"):
            name = f"cxrtext.training.{module}.draw_curves"
            monkeypatch.setattr(name, lambda folder: Path(folder))


@pytest.fixture
def drawn() -> None:
    """The runs of this test draw their curves, as those of users do."""
