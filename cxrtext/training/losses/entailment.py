"""Which images of a batch a sentence is true of, by what is known apart from the images.

The reports tell it (:class:`ByReport`), or, of drawn images alone, what they were drawn from
(:class:`ByTruth`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cxrtext.phantom.truth import KnownTruth
from cxrtext.records import ImageRecord, Sentence
from cxrtext.text.entailment import Statement

Mask = NDArray[np.bool_]
Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ByReport:
    """Whether reports make sentences true: ``text.entailment.entails``, for a batch at once.

    Args:
        statements: Of distinct sentences, [U].
        said: [sentences], the statement of each.
        reports: For each example, the places of its report's sentences in ``said``.
    """

    statements: Sequence[Statement]
    said: Rows
    reports: Sequence[Rows]

    def __call__(self, sentences: Sequence[int], examples: Rows) -> Mask:
        """Whether each sentence is true of each example, [S, B]."""
        asking, ask = np.unique(self.said[list(sentences)], return_inverse=True)
        own = [np.unique(self.said[self.reports[int(i)]]) for i in examples]
        telling, tell = np.unique(np.concatenate(own), return_inverse=True)
        of_report = np.zeros((len(telling), len(examples)), dtype=np.float32)
        of_report[tell, np.repeat(np.arange(len(own)), [len(one) for one in own])] = 1.0
        asked = [self.statements[i].asked for i in asking]
        denied = [self.statements[i].denied for i in asking]
        offered = [self.statements[i].offered for i in telling]
        words = {word: k for k, word in enumerate(sorted(set().union(*asked, *denied)))}
        told = _marked(offered, words).T
        count = np.asarray([[len(one)] for one in asked], dtype=np.float32)
        enough = (_marked(asked, words) @ told == count).astype(np.float32)
        against = (_marked(denied, words) @ told > 0).astype(np.float32)
        true: Mask = (enough @ of_report > 0) & ~(against @ of_report > 0)
        return true[ask]


def _marked(sets: Sequence[frozenset[str]], words: dict[str, int]) -> NDArray[np.float32]:
    """Sets of words as rows of zeros and ones; other words are left out."""
    marked = np.zeros((len(sets), len(words)), dtype=np.float32)
    for row, one in enumerate(sets):
        marked[row, [words[word] for word in one if word in words]] = 1.0
    return marked


@dataclass(frozen=True, slots=True)
class ByTruth:
    """Whether sentences are true of drawn images.

    Args:
        claims: [sentences], the row of ``true`` of each; −1 where no image tells it.
        true: [claims, examples].
    """

    claims: Rows
    true: Mask

    def __call__(self, sentences: Sequence[int], examples: Rows) -> Mask:
        """Whether each sentence is true of each example, [S, B]."""
        rows = self.claims[list(sentences)]
        found: Mask = self.true[rows][:, examples] & (rows >= 0)[:, None]
        return found


def by_report(
    statements: dict[str, Statement], texts: Sequence[Sentence], reports: Sequence[Rows]
) -> ByReport:
    """Match statements, by sentence, with the sentences and reports of examples."""
    place = {text: number for number, text in enumerate(statements)}
    said = np.asarray([place[one.sentence] for one in texts], dtype=np.int64)
    return ByReport(tuple(statements.values()), said, reports)


def by_truth(
    known: KnownTruth, texts: Sequence[Sentence], records: Sequence[ImageRecord]
) -> ByTruth:
    """Match what is known of a drawn set with the sentences and images of examples."""
    claims = [known.claims.get(one.sentence) for one in texts]
    distinct = list(dict.fromkeys(claim for claim in claims if claim is not None))
    place = {claim: number for number, claim in enumerate(distinct)}
    rows = np.asarray([-1 if claim is None else place[claim] for claim in claims], dtype=np.int64)
    true = known.holds(distinct, [record.study_id for record in records])
    # A row for the sentences that no image tells, so that −1 is a row as well.
    return ByTruth(rows, np.concatenate([true, np.zeros((1, len(records)), dtype=np.bool_)]))
