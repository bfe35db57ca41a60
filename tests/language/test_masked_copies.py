"""Which word pieces are masked, against plain loops and by hand."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cxrtext.language.scoring.network import MaskedCopies, SpecialIds, masked_copies

Plain = Callable[..., list[tuple[list[int], int, int]]]

NO, PNEUMO, THOR, AX, STOP = IDS = [10, 11, 12, 13, 14]


def written_out(copies: MaskedCopies, special: SpecialIds) -> list[tuple[list[int], int, int]]:
    """Each copy as the network reads it, with the column and the piece asked for."""
    texts = copies.base[copies.owner].masked_fill(copies.masked, special.mask)
    return list(zip(texts.tolist(), copies.position.tolist(), copies.target.tolist(), strict=True))


def test_worked_example_original(special: SpecialIds) -> None:
    copies = masked_copies(torch.tensor([IDS]), range(5), 8, special)
    assert written_out(copies, special) == [
        ([1, 3, PNEUMO, THOR, AX, STOP, 2], 1, NO),
        ([1, NO, 3, THOR, AX, STOP, 2], 2, PNEUMO),
        ([1, NO, PNEUMO, 3, AX, STOP, 2], 3, THOR),
        ([1, NO, PNEUMO, THOR, 3, STOP, 2], 4, AX),
        ([1, NO, PNEUMO, THOR, AX, 3, 2], 5, STOP),
    ]


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    """Sentences of one length, and a window."""
    length = draw(st.integers(1, 12))
    count = draw(st.integers(1, 4))
    row = st.lists(st.integers(5, 50), min_size=length, max_size=length)
    total = count * length
    start = draw(st.integers(0, total - 1))
    return {
        "ids": draw(st.lists(row, min_size=count, max_size=count)),
        "window": draw(st.integers(1, 15)),
        "rows": range(start, draw(st.integers(start + 1, total))),
    }


@settings(max_examples=300, deadline=None)
@given(case=cases())
def test_it_equals_plain_loops(
    case: dict[str, Any], special: SpecialIds, plain_copies: Plain
) -> None:
    ids, window, rows = case["ids"], case["window"], case["rows"]
    found = masked_copies(torch.tensor(ids), rows, window, special)
    expected = [copy for sentence in ids for copy in plain_copies(sentence, window)]
    assert written_out(found, special) == expected[rows.start : rows.stop]


@settings(max_examples=100, deadline=None)
@given(case=cases(), size=st.integers(1, 9))
def test_pieces_of_the_work_make_the_whole(
    case: dict[str, Any], size: int, special: SpecialIds
) -> None:
    ids = torch.tensor(case["ids"])

    def some(rows: range) -> list[tuple[list[int], int, int]]:
        return written_out(masked_copies(ids, rows, case["window"], special), special)

    total = ids.numel()
    parts = [range(start, min(start + size, total)) for start in range(0, total, size)]
    assert [copy for rows in parts for copy in some(rows)] == some(range(total))


@settings(max_examples=100, deadline=None)
@given(case=cases())
def test_special_tokens_stay_and_the_piece_asked_for_is_hidden(
    case: dict[str, Any], special: SpecialIds
) -> None:
    ids = torch.tensor(case["ids"])
    copies = masked_copies(ids, range(ids.numel()), case["window"], special)
    assert not copies.masked[:, [0, -1]].any()
    assert copies.masked.gather(1, copies.position[:, None]).all()
    assert copies.masked.sum(1).eq(1).all()


def test_only_the_sentences_of_the_rows_are_taken(special: SpecialIds) -> None:
    ids = torch.arange(5, 5 + 40).reshape(10, 4)
    copies = masked_copies(ids, range(9, 15), 8, special)
    assert copies.base[:, 1:-1].tolist() == ids[2:4].tolist()
    assert copies.owner.tolist() == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("length", [6, 7])
def test_a_piece_of_a_long_sentence_sees_as_much_on_both_sides(
    special: SpecialIds, length: int
) -> None:
    copies = masked_copies(torch.arange(5, 5 + length)[None], range(length), 5, special)
    assert copies.position.tolist() == [1, 2, *[3] * (length - 4), 4, 5]
