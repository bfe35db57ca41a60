"""Hard negatives of sentences: each with one thing in it turned over (:mod:`cxrtext.text.turning`).

An anchor's turned form says what its own image does not show, so the pair of the two is one more
candidate of the anchor, and a hard one: it differs in a word.

Source: Yuksekgonul et al. 2023 (when and why vision-language models behave like bags of words),
for negatives made of the caption's own words; the rules, and the form for sentences as anchors,
are ours.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from cxrtext.errors import DataError
from cxrtext.text.turning import false_of
from cxrtext.training.data.loader import Examples


def with_turned_forms(
    examples: Examples,
    turns: Sequence[str],
    tokenize: Callable[[list[str]], list[list[int]]],
) -> Examples:
    """Examples whose sentences have their turned forms behind them.

    Args:
        examples: Of the training split.
        turns: Some of ``mirrored`` and ``denied``.
        tokenize: Word pieces of sentences, special tokens included.
    """
    forms: list[tuple[str, ...]] = [()] * len(examples.texts)
    for study in {tuple(own.tolist()): None for own in examples.sentences}:
        report = [examples.texts[i].sentence for i in study]
        for i, own in zip(study, false_of(report, turns), strict=True):
            forms[i] = own
    distinct = list(dict.fromkeys(form for own in forms for form in own))
    if not distinct:
        raise DataError(
            f"training.hard_sentences: none of the {len(forms)} training sentences has a form "
            f"that is {' or '.join(turns)}: the rules are for English reports; remove the key"
        )
    place = {form: len(examples.tokens) + row for row, form in enumerate(distinct)}
    return replace(
        examples,
        tokens=[*examples.tokens, *tokenize(distinct)],
        turned=[np.asarray([place[form] for form in own], dtype=np.int64) for own in forms],
    )
