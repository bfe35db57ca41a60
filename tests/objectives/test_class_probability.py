import math

import pytest
import torch

from cxrtext.objectives import class_probability


def test_values_by_hand() -> None:
    log_p = torch.tensor([0.0, -1.0, -20.0], dtype=torch.float64)
    expected = [0.2, 0.2 * math.exp(-0.35), 0.2 * math.exp(-7.0)]
    assert class_probability(log_p).tolist() == pytest.approx(expected)


def test_the_likelier_sentence_has_the_larger_probability() -> None:
    eta = class_probability(torch.linspace(-100, 0, 50))
    assert (eta.diff() > 0).all()
    assert float(eta.max()) == pytest.approx(0.2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_unlikely_sentence_keeps_a_positive_probability(dtype: torch.dtype) -> None:
    assert float(class_probability(torch.tensor([-1e6], dtype=dtype))) > 0


def test_no_exponent_is_a_constant() -> None:
    assert class_probability(torch.tensor([-3.0, -50.0]), a=0.05, k=0).tolist() == pytest.approx(
        [0.05, 0.05]
    )


@pytest.mark.parametrize(
    ("log_p", "a", "k"),
    [(0.5, 0.2, 0.35), (math.nan, 0.2, 0.35), (-1.0, 1.0, 0.35), (-1.0, 0.0, 0.35), (-1, 0.2, -1)],
)
def test_wrong_arguments(log_p: float, a: float, k: float) -> None:
    with pytest.raises(ValueError, match="must"):
        class_probability(torch.tensor([log_p]), a, k)
