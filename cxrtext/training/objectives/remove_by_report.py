"""Removes negatives whose report makes the sentence true (:mod:`cxrtext.text.entailment`): ours."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cxrtext.text.entailment import Statement, statement_of
from cxrtext.training.data.drawn import Ask, Drawn
from cxrtext.training.objectives.shared.objective import Contrast, Direction, Source, Terms, removed


class Objective(Contrast):
    more_negatives: ClassVar = "train on reports that affirm more"

    def prepare(self, source: Source) -> Ask:
        import torch

        texts = dict.fromkeys(sentence.sentence for sentence in source.sentences)
        statements = {text: statement_of(text) for text in texts}

        def ask(drawn: Drawn) -> dict[str, Any]:
            said = [sentence.sentence for sentence in drawn.sentences]
            return {"same": torch.from_numpy(made_true(statements, said, drawn.reports))}

        return ask

    def losses(self, d: Direction) -> Terms:
        return removed(d, d.known["same"])


def made_true(
    statements: Mapping[str, Statement], sentences: Sequence[str], reports: Sequence[Sequence[str]]
) -> NDArray[np.bool_]:
    """Whether the sentences of each report make each sentence true, [S, B]."""
    asking = {text: place for place, text in enumerate(dict.fromkeys(sentences))}
    every = dict.fromkeys(text for report in reports for text in report)
    telling = {text: place for place, text in enumerate(every)}
    of_report = np.zeros((len(telling), len(reports)), dtype=np.float32)
    for column, report in enumerate(reports):
        of_report[[telling[text] for text in report], column] = 1.0
    asked = [statements[text].asked for text in asking]
    denied = [statements[text].denied for text in asking]
    words = {word: k for k, word in enumerate(sorted(set().union(*asked, *denied)))}
    told = _marked([statements[text].offered for text in telling], words).T
    count = np.asarray([[len(one)] for one in asked], dtype=np.float32)
    enough = (_marked(asked, words) @ told == count).astype(np.float32)
    against = (_marked(denied, words) @ told > 0).astype(np.float32)
    true: NDArray[np.bool_] = (enough @ of_report > 0) & ~(against @ of_report > 0)
    return true[[asking[text] for text in sentences]]


def _marked(sets: Sequence[frozenset[str]], words: Mapping[str, int]) -> NDArray[np.float32]:
    """Sets of words as rows of zeros and ones, one column for each of ``words``."""
    marked = np.zeros((len(sets), len(words)), dtype=np.float32)
    for row, one in enumerate(sets):
        marked[row, [words[word] for word in one if word in words]] = 1.0
    return marked
