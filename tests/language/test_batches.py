"""Which sentences share a forward pass, and the memory that the passes keep."""

import ctypes
import itertools
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cxrtext.language.scoring import score as scorer
from cxrtext.language.scoring.score import MAX_GROUP, groups_of, plan_groups, ranges, room
from tests.warm import Warm


def test_room_by_hand() -> None:
    # Three pieces: three copies of five tokens each.
    assert room(3, window=10, batch_tokens=44) == 2
    assert room(3, window=10, batch_tokens=45) == 3
    # Fifty pieces in windows of ten: fifty copies of twelve tokens.
    assert room(50, window=10, batch_tokens=1200) == 2
    assert room(50, window=10, batch_tokens=1) == 1


def test_groups_have_one_length_and_keep_the_budget() -> None:
    lengths = [3, 7, 3, 3, 50, 7, 3]
    assert plan_groups(lengths, window=10, batch_tokens=31) == [[0, 2], [3, 6], [1], [5], [4]]
    assert plan_groups([], window=10, batch_tokens=31) == []


def test_a_group_has_at_most_so_many_sentences() -> None:
    groups = plan_groups([1] * (2 * MAX_GROUP + 3), window=10, batch_tokens=10**9)
    assert [len(group) for group in groups] == [MAX_GROUP, MAX_GROUP, 3]


@given(
    lengths=st.lists(st.integers(1, 30), max_size=60),
    window=st.integers(1, 20),
    batch_tokens=st.integers(1, 500),
)
def test_groups_hold_every_sentence_once_in_order_of_length(
    lengths: list[int], window: int, batch_tokens: int
) -> None:
    groups = plan_groups(lengths, window, batch_tokens)
    order = [index for group in groups for index in group]
    assert order == sorted(range(len(lengths)), key=lambda index: (lengths[index], index))
    for group in groups:
        length = lengths[group[0]]
        assert {lengths[index] for index in group} == {length}
        tokens = len(group) * length * (min(length, window) + 2)
        assert tokens <= batch_tokens or len(group) == 1
    for one, other in itertools.pairwise(groups):
        length = lengths[one[0]]
        full = (len(one) + 1) * length * (min(length, window) + 2) > batch_tokens
        assert full or lengths[other[0]] > length


def test_groups_are_made_as_they_are_asked_for() -> None:
    taken = []

    def sentences() -> Iterator[int]:
        for length in (1, 1, 1, 2):
            taken.append(length)
            yield length

    groups = groups_of(sentences(), lambda length: length, window=10, batch_tokens=6)
    assert next(groups) == [1, 1]
    assert taken == [1, 1, 1]


def test_ranges_cut_without_a_gap() -> None:
    assert list(ranges(7, 3)) == [slice(0, 3), slice(3, 6), slice(6, 7)]
    assert list(ranges(6, 3)) == [slice(0, 3), slice(3, 6)]
    assert list(ranges(0, 3)) == []


def test_memory_is_kept_where_the_system_allows_it(warm: Warm) -> None:
    # In a process of its own, for it cannot be undone.
    code = "from cxrtext.language.scoring import score; print(score.keep_memory())"
    out, err = warm.start(["-c", code]).communicate(timeout=600)
    assert err == ""
    assert out.strip() in ({"True", "False"} if sys.platform == "linux" else {"False"})


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_other_systems_are_left_alone(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "platform", platform)
        patch.setattr(ctypes, "CDLL", None)  # calling it would fail
        assert scorer.keep_memory() is False


def test_a_system_without_the_call_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "platform", "linux")
        patch.setattr(ctypes, "CDLL", lambda _: object())  # another C library than glibc
        assert scorer.keep_memory() is False
