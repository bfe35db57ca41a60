"""Reading text into the work file of a scoring run."""

import time
from collections.abc import Callable, Sequence

from transformers import BertTokenizer

from cxrtext.errors import DataError
from cxrtext.language.class_probability import WordCounter
from cxrtext.language.scoring.score import encode_pieces
from cxrtext.language.scoring.work import ScoreWork
from cxrtext.records import BadItem, Sentence, Study, TextSource
from cxrtext.text import study_sentences

COMMIT_SECONDS = 2.0
"""How often what was read is kept."""


class TextReader:
    """Reads reports or sentences into a work file; goes on where it was.

    Args:
        source: What to read.
        work: Where to.
        tokenizer: Makes the word pieces.
        sections: Sections of reports that are wanted.
        longest: Word pieces of the longest sentence that is scored.
        max_rejected: How many items may be set aside.
    """

    def __init__(
        self,
        source: TextSource,
        work: ScoreWork,
        tokenizer: BertTokenizer,
        sections: Sequence[str] | None,
        longest: int,
        max_rejected: int,
    ) -> None:
        self._source, self._work, self._tokenizer = source, work, tokenizer
        self._counter = WordCounter(tokenizer)
        self._sections, self._longest, self._max_rejected = sections, longest, max_rejected
        self._counts = {name: work.fact(name) for name in ("items", "studies", "with_text")}

    def read(self, on_read: Callable[[int], None] | None = None) -> None:
        """Read what has not been read.

        Args:
            on_read: Called every few seconds with how many reports or sentences have been read.

        Raises:
            DataError: Too much was set aside.
        """
        if self._work.fact("all_read"):
            return
        done = self._counts["items"]
        kept = time.monotonic()
        for number, item in enumerate(self._source):
            if number < done:
                continue
            self._take(item)
            self._counts["items"] += 1
            if time.monotonic() - kept > COMMIT_SECONDS:
                self._keep()
                if on_read is not None:
                    on_read(self._counts["studies"])
                kept = time.monotonic()
        self._work.set_facts({"all_read": 1})
        self._keep()

    def _keep(self) -> None:
        self._work.set_facts(self._counts)
        self._work.commit()

    def _take(self, item: Study | Sentence | BadItem) -> None:
        if isinstance(item, BadItem):
            self._reject(item.item, item.reason)
            return
        sentences = [item] if isinstance(item, Sentence) else study_sentences(item, self._sections)
        self._counts["studies"] += 1
        self._counts["with_text"] += bool(sentences)
        pieces = encode_pieces(self._tokenizer, [sentence.sentence for sentence in sentences])
        kept = []
        for sentence, ids in zip(sentences, pieces, strict=True):
            if 0 < len(ids) <= self._longest:
                kept.append((sentence, ids, self._counter.count(ids)))
            else:
                self._reject(
                    f"study {sentence.study_id}, {sentence.section} {sentence.position}",
                    f"{len(ids)} word pieces, where a sentence has 1 to {self._longest}",
                )
        self._work.add_sentences(kept)

    def _reject(self, item: str, reason: str) -> None:
        if self._work.reject(item, reason) > self._max_rejected:
            # Not kept: what was read since the last time is read again, when more is borne.
            raise DataError(
                f"{self._source.description}: {self._max_rejected + 1} bad items, more than "
                f"--max-rejected {self._max_rejected}; the last: {item}: {reason}"
            )
