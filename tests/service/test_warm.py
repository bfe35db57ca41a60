"""How many threads a model is worth."""

import time
from collections.abc import Iterator

import pytest
import torch

from cxrtext.service.warm import threads_for


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("quicker", "threads"), [(1.0, 1), (1.1, 1), (1.9, 2), (0.5, 1)])
def test_several_threads_only_where_they_are_worth_it(
    two_threads: None, quicker: float, threads: int
) -> None:
    def work() -> None:
        time.sleep(0.02 / (quicker if torch.get_num_threads() == 2 else 1))

    assert threads_for(work) == threads
    assert torch.get_num_threads() == 2, "it only says so"


def test_one_thread_stays_one_untried() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        assert threads_for(lambda: pytest.fail("tried")) == 1
    finally:
        torch.set_num_threads(before)


def test_threads_stay_after_a_failure(two_threads: None) -> None:
    def work() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        threads_for(work)
    assert torch.get_num_threads() == 2
