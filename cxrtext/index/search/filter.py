"""Filters: a small language over the columns of an archive, parsed into parameterized SQL.

::

    age > 60 and (sex = 'F' or view in ('PA', 'AP')) and not split = 'test'
    age between 40 and 50 and "label.Pleural Effusion" >= 0.5 and device is null

No text of a filter becomes part of the SQL: names are looked up among the existing columns, and
values are passed as parameters.  A comparison with an empty cell, or of a number with a cell that
is not a number, is neither true nor false, so neither it nor its negation selects the image.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

from cxrtext.errors import DataError
from cxrtext.index.store.catalogue import ID_COLUMNS, NUMBER_COLUMNS, TEXT_COLUMNS, cells_of
from cxrtext.records.numbers import read_number

MAX_CHARACTERS = 10_000
MAX_DEPTH = 50
MAX_COMPARISONS = 500

OPERATORS = {
    "=": "=", "==": "=", "!=": "<>", "<>": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">=",
}  # fmt: skip

Value = str | int | float
Cell = Value | None

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
    """A word of a filter: bare, a name in double quotes or backticks, a text in single quotes."""

    kind: Kind
    text: str
    at: int  # where it begins, counting characters from 1

    @property
    def keyword(self) -> str:
        """The keyword in lower case, or ""."""
        lower = self.text.lower()
        return lower if self.kind == "word" and lower in KEYWORDS else ""

    @property
    def is_value(self) -> bool:
        return self.kind not in ("sign", "end") and not self.keyword


def _tokens(condition: str) -> list[Token]:
    if len(condition) > MAX_CHARACTERS:
        raise DataError(
            f"the filter has {len(condition)} characters; at most {MAX_CHARACTERS} are read"
        )
    if "\0" in condition:
        raise DataError("the filter holds a null character; remove it")
    tokens: list[Token] = []
    place = 0
    end = len(condition.rstrip())
    while place < end:
        match = _TOKEN.match(condition, place)
        if match is None:
            raise _unknown(condition, place)
        kind: Kind = match.lastgroup  # type: ignore[assignment]
        tokens.append(Token(kind, _plain(match.group(kind)), match.start(kind) + 1))
        place = match.end()
    return [*tokens, Token("end", "the end", end + 1)]


def _plain(text: str) -> str:
    if text[0] == text[-1] and text[0] in "'\"`" and len(text) > 1:
        return text[1:-1].replace(text[0] * 2, text[0])
    return text


def _unknown(condition: str, place: int) -> DataError:
    at = place + len(condition[place:]) - len(condition[place:].lstrip())
    if condition[at] in "'\"`":
        return DataError(f"filter, character {at + 1}: this quote is not closed")
    return DataError(
        f"filter, character {at + 1}: '{condition[at]}' fits nowhere; write for example "
        "\"age > 60 and sex = 'F'\""
    )


@dataclass(frozen=True, slots=True)
class Test:
    column: str  # its name
    operator: str  # a value of :data:`OPERATORS`, "IN", "IS NULL" or "IS NOT NULL"
    values: tuple[Value, ...] = ()  # one; several for "IN"; none for the last two


@dataclass(frozen=True, slots=True)
class Not:
    """The negation of a condition; neither true nor false if the condition is neither."""

    of: "Tree"


@dataclass(frozen=True, slots=True)
class Joined:
    """Conditions of which all, or at least one, must be true."""

    word: Literal["AND", "OR"]
    parts: tuple["Tree", ...]


Tree = Test | Not | Joined  # a filter as it was read


@dataclass(frozen=True, slots=True)
class Condition:
    """A parsed filter, and its SQL with question marks and their values."""

    tree: Tree
    sql: str
    values: tuple[Value, ...]


def as_cell(text: str) -> Cell:
    """The value that filters compare: a number if the text is one, None if it is empty."""
    text = text.strip()
    digits = text.lstrip("+-")
    if not digits:
        return text or None
    # Numbers with leading zeros are ids.
    if digits[0] in "0123456789." and not (digits[0] == "0" and digits[1:2].isdigit()):
        try:
            number = float(text.replace("_", "x"))
        except ValueError:
            return text
        if abs(number) > 1e300:
            return text
        return int(number) if number.is_integer() and abs(number) < 2**53 else number
    return text


def parse(condition: str, slots: Mapping[str, int]) -> Condition:
    """Parse a filter into SQL over ``images`` and ``attributes`` (DataError).

    ``slots`` are those of the columns besides the images' own.
    """
    parser = _Parser(_tokens(condition), slots)
    if not condition.strip():
        raise DataError("the filter is empty; write for example \"age > 60 and sex = 'F'\"")
    tree = parser.alternatives(0)
    if parser.next.kind != "end":
        raise parser.wanted("'and', 'or' or the end")
    values: list[Value] = []
    return Condition(tree, _sql(tree, cells_of(slots), values), tuple(values))


def tests_of(tree: Tree) -> Iterator[Test]:
    match tree:
        case Test():
            yield tree
        case Not(of):
            yield from tests_of(of)
        case Joined(_, parts):
            for part in parts:
                yield from tests_of(part)


def named_ids(condition: str) -> dict[str, list[str]]:
    """The images, studies and patients that a filter names, however it compares them.

    A wrong filter is read as far as possible.  Gives values, each once, by column: "image",
    "study_id", "patient_id".
    """
    try:
        parser = _Parser(_tokens(condition), None)
    except DataError:
        return {}
    with suppress(DataError):
        parser.alternatives(0)
    return {name: list(dict.fromkeys(values)) for name, values in parser.named.items()}


@dataclass(slots=True)
class _Parser:
    """Reads tokens; without slots every column is assumed to exist."""

    tokens: list[Token]
    slots: Mapping[str, int] | None
    named: dict[str, list[str]] = field(default_factory=dict)
    place: int = 0
    comparisons: int = 0

    @property
    def next(self) -> Token:
        return self.tokens[self.place]

    def take(self) -> Token:
        token = self.next
        self.place += 1
        return token

    def took(self, *keywords: str) -> bool:
        coming = self.tokens[self.place : self.place + len(keywords)]
        if [t.keyword or (t.text if t.kind == "sign" else "") for t in coming] != list(keywords):
            return False
        self.place += len(keywords)
        return True

    def expect(self, keyword: str) -> None:
        if not self.took(keyword):
            raise self.wanted(f"'{keyword}'")

    def wanted(self, what: str) -> DataError:
        return DataError(
            f"filter, character {self.next.at}: expected {what}, found '{self.next.text}'"
        )

    def alternatives(self, depth: int) -> Tree:
        return self._joined("OR", lambda: self._all(depth))

    def _all(self, depth: int) -> Tree:
        return self._joined("AND", lambda: self._one(depth))

    def _joined(self, word: Literal["AND", "OR"], part: Callable[[], Tree]) -> Tree:
        parts = [part()]
        while self.took(word.lower()):
            parts.append(part())
        return parts[0] if len(parts) == 1 else Joined(word, tuple(parts))

    def _one(self, depth: int) -> Tree:
        if depth > MAX_DEPTH:
            raise DataError(f"the filter nests deeper than {MAX_DEPTH}; write it flatter")
        if self.took("not"):
            return Not(self._one(depth + 1))
        if self.took("("):
            inner = self.alternatives(depth + 1)
            self.expect(")")
            return inner
        return self._comparison()

    def _comparison(self) -> Tree:
        token = self.next
        if token.kind not in ("word", "name") or token.keyword:
            raise self.wanted("a column")
        self.take()
        self.comparisons += 1
        if self.comparisons > MAX_COMPARISONS:
            raise DataError(
                f"the filter has more than {MAX_COMPARISONS} comparisons; use 'in (1, 2)' instead"
            )
        name = self._column(token)
        begun = self.place
        try:
            return self._test(name, name in TEXT_COLUMNS)
        finally:
            if name in ID_COLUMNS:
                values = [t.text for t in self.tokens[begun : self.place] if t.is_value]
                self.named.setdefault(name, []).extend(values)

    def _test(self, column: str, textual: bool) -> Tree:
        if self.took("is", "not", "null"):
            return Test(column, "IS NOT NULL")
        if self.took("is", "null"):
            return Test(column, "IS NULL")
        negated = self.took("not")
        test: Tree
        if self.took("in"):
            self.expect("(")
            values = [self._value(textual)]
            while self.took(","):
                values.append(self._value(textual))
            self.expect(")")
            test = Test(column, "IN", tuple(values))
        elif self.took("between"):
            low = Test(column, ">=", (self._value(textual),))
            self.expect("and")
            test = Joined("AND", (low, Test(column, "<=", (self._value(textual),))))
        elif negated or self.next.text not in OPERATORS or self.next.kind != "sign":
            raise self.wanted("a comparison such as =, <, in, between or is null")
        else:
            test = Test(column, OPERATORS[self.take().text], (self._value(textual),))
        return Not(test) if negated else test

    def _value(self, textual: bool) -> Value:
        token = self.next
        if not token.is_value:
            raise self.wanted("a value")
        self.take()
        if token.kind != "number" or textual:
            return token.text
        try:
            number = read_number(token.text)
        except ValueError as error:
            raise DataError(f"filter, character {token.at}: {error}") from None
        return int(number) if number.is_integer() and abs(number) < 2**53 else number

    def _column(self, token: Token) -> str:
        known = [*TEXT_COLUMNS, *NUMBER_COLUMNS, *(self.slots or ())]
        name = token.text if token.text in known else _alike(token.text, known)
        if name is None and self.slots is None:
            return token.text
        if name is None:
            raise DataError(
                f"filter, character {token.at}: no column '{token.text}'; there are "
                + ", ".join(
                    f'"{n}"' if not n.replace(".", "_").isidentifier() else n for n in known
                )
            )
        return name


def _sql(tree: Tree, cells: Mapping[str, str], values: list[Value]) -> str:
    """SQL of a filter; the values of its question marks are added to ``values``."""
    if isinstance(tree, Not):
        return f"(NOT {_sql(tree.of, cells, values)})"
    if isinstance(tree, Joined):
        return f"({f' {tree.word} '.join(_sql(part, cells, values) for part in tree.parts)})"
    column, operator = cells[tree.column], tree.operator
    if not tree.values:
        return f"({column} {operator})"
    numbers, texts = split(tree.values)
    values += [*numbers, *texts]
    # Neither true nor false if the cell is not a number.
    test = f"{column} {operator} {_marks(operator, numbers)}"
    as_number = f"CASE WHEN typeof({column}) IN ('integer', 'real') THEN {test} END"
    # Columns with only text are compared directly, which uses their indexes.
    text = column if tree.column in TEXT_COLUMNS else f"CAST({column} AS TEXT)"
    as_text = f"({text} {operator} {_marks(operator, texts)})"
    if not texts:
        return as_number
    return as_text if not numbers else f"(COALESCE({as_number}, 0) OR {as_text})"


def split(values: Sequence[Value]) -> tuple[list[int | float], list[str]]:
    numbers = [value for value in values if not isinstance(value, str)]
    return numbers, [value for value in values if isinstance(value, str)]


def _marks(operator: str, values: Sequence[Value]) -> str:
    return f"({', '.join('?' * len(values))})" if operator == "IN" else "?"


def _alike(name: str, known: Sequence[str]) -> str | None:
    """The only column whose name differs just by case, or by blanks for underscores."""
    folded = name.casefold().replace(" ", "_")
    alike = [other for other in known if other.casefold().replace(" ", "_") == folded]
    return alike[0] if len(alike) == 1 else None
