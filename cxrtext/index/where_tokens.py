"""The words of a filter."""

import re
from dataclasses import dataclass
from typing import Literal

from cxrtext.errors import DataError

MAX_CHARACTERS = 10_000

Kind = Literal["word", "name", "text", "number", "sign", "end"]

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]))
    | (?P<text>'(?:[^']|'')*')
    | (?P<name>"(?:[^"]|"")*"|`[^`]*`)
    | (?P<word>[^\W\d][\w.]*)
    | (?P<sign><=|>=|<>|!=|==|[=<>(),])
    )""",
    re.VERBOSE,
)
KEYWORDS = frozenset({"and", "or", "not", "in", "between", "is", "null"})


@dataclass(frozen=True, slots=True)
class Token:
    """A word of a filter.

    Args:
        kind: "word" (a bare one), "name" (in double quotes or backticks), "text" (in single
            quotes), "number", "sign", or "end".
        text: What it says, without quotes.
        at: Where it begins, the first character being 1.
    """

    kind: Kind
    text: str
    at: int

    @property
    def keyword(self) -> str:
        """The keyword it is, in lower case, or ""."""
        lower = self.text.lower()
        return lower if self.kind == "word" and lower in KEYWORDS else ""

    @property
    def is_value(self) -> bool:
        """Whether a column can be compared with it."""
        return self.kind not in ("sign", "end") and not self.keyword


def tokens(condition: str) -> list[Token]:
    """The words of a filter, and an end.

    Raises:
        DataError: A character fits nowhere, a quote is not closed, or the filter is too long.
    """
    if len(condition) > MAX_CHARACTERS:
        raise DataError(
            f"the filter has {len(condition)} characters; at most {MAX_CHARACTERS} are read"
        )
    if "\0" in condition:
        raise DataError("the filter holds a null character; take it out")
    found: list[Token] = []
    place = 0
    end = len(condition.rstrip())
    while place < end:
        match = _TOKEN.match(condition, place)
        if match is None:
            raise _unknown(condition, place)
        kind: Kind = match.lastgroup  # type: ignore[assignment]
        found.append(Token(kind, _plain(match.group(kind)), match.start(kind) + 1))
        place = match.end()
    return [*found, Token("end", "the end", end + 1)]


def _plain(text: str) -> str:
    if text[0] == text[-1] and text[0] in "'\"`" and len(text) > 1:
        return text[1:-1].replace(text[0] * 2, text[0])
    return text


def _unknown(condition: str, place: int) -> DataError:
    at = place + len(condition[place:]) - len(condition[place:].lstrip())
    if condition[at] in "'\"`":
        return DataError(f"filter, character {at + 1}: this quote is not closed")
    return DataError(
        f"filter, character {at + 1}: '{condition[at]}' fits nowhere; write such as "
        "\"age > 60 and sex = 'F'\""
    )
