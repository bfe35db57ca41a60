from collections.abc import Callable
from pathlib import Path
from statistics import mean

import pytest

from tests.robustness.two_nodes import Nodes, elastic, losses, static


@pytest.mark.slow
def test_nodes_are_killed_and_come_back(
    options_into: Callable[[Path], list[str]], tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("{}")
    options = [option for option in options_into(tmp_path) if not option.startswith("out=")]
    options += ["training.steps=60", "training.log_every=1", "training.save_every=5"]
    options += ["training.lr=1e-5", "training.lock=[text]", "training.precision=float32"]
    alone, two, changing = (
        Nodes(config, tmp_path / name, options) for name in ("alone", "two", "changing")
    )
    alone.end(alone.start())
    static(two)
    elastic(changing, total=60, kills=1)
    expected = losses(alone.out)
    assert len(expected) == 60
    for found in (losses(two.out), losses(changing.out)):
        assert found.keys() == expected.keys()
        assert mean(abs(found[step] - loss) / loss for step, loss in expected.items()) < 0.01
