"""Any report text as plain lines: markup, escapes, tables and tick boxes are resolved.

RTF, HTML, HL7's escapes and JSON become lines; a row of a table, a dotted leader and a ticked box
become ``finding: value``.  Each character keeps the place that it came from.
"""

import html
import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from cxrtext.text.fields import is_bare_name, is_side, list_answer
from cxrtext.text.rules import is_answer

_M = re.MULTILINE
_I = re.IGNORECASE
# Category Cc except the tab and the line breaks, the separators of lines and paragraphs, and two
# characters without width that text from web pages and from Windows brings along.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\u200b\ufeff]")
_LINE_END = re.compile(r"\r\n?")
_REFERENCE = re.compile(r"&(?:#[0-9]+;?|#[xX][0-9a-fA-F]+;?|[^\t\n\f <&#;]{1,32};?)")
_RTF = re.compile(
    r"\\'(?P<byte>[0-9a-f]{2})|\\u(?P<code>-?\d{1,6}) ?\??|\\(?P<word>[a-z]{1,32})(?:-?\d{1,9})? ?"
    r"|\\(?P<sign>[^a-z])|(?P<brace>[{}])|(?P<text>[^\\{}\r\n]+)|[\r\n]+",
    _I,
)
_RTF_BREAKS = {"par": "\n", "line": "\n", "row": "\n", "tab": "\t", "cell": "\t"}
_RTF_HIDDEN = frozenset(
    ("fonttbl", "colortbl", "stylesheet", "info", "pict", "header", "footer", "generator")
)
_HL7 = re.compile(r"\\(?:(?P<sign>[HNTSFRE])|X0[AD](?:0[AD])?|\.[a-z]{2}[+-]?\d{0,3})\\")
_HL7_SIGNS = {"T": "&", "S": "^", "F": "|", "R": "~", "E": "\\"}
# "~ 2 cm" is about two, and a repetition elsewhere; "\n" is what a JSON or SQL export leaves.
_BREAK = re.compile(r"~(?! ?\d)|(?:\\r)?\\n(?![a-z])")
_HIDDEN = re.compile(r"<!--.{0,500}?-->|<(style|script|head)\b.{0,2000}?</\1>", _I | re.DOTALL)
_TAG = re.compile(
    r"<(?P<shut>/?)(?:(?P<block>p|div|br|tr|li|h[1-6]|hr|pre|table|dt|body|html|title)"
    r"|(?P<cell>td|th|dd)|b|i|u|em|strong|span|font|a|ul|ol|dl|tbody|thead|su[bp]|small|center)"
    r"(?:[\s/][^<>]{0,1000})?>",
    _I,
)
# A tick box, and an element that says all in its attributes: <finding name="edema" value="no"/>.
_INPUT = re.compile(r"<input\b(?P<rest>[^<>]{0,200})>", _I)
_ATTRIBUTES = re.compile(
    r"<\w{1,40}((?:\s+[\w:-]{1,40}=(?:\"[^\"<>]{0,80}\"|'[^'<>]{0,80}')){2,8})\s*/>"
)
_ELEMENT = re.compile(r"<([A-Za-z]\w{0,40})>([^<>\n]{0,200})</\1>")
# "[<Lungs are clear.>]": a dictation system's marks around a template's field.
_FIELD_MARK = re.compile(r"\[<|>\]")
_NUMBER = re.compile(r" ?\d")
_BOLD = re.compile(r"(?<!\[)\*\*([^*\n]{1,80})\*\*(?!\s*$)", _M)
_UNDERSCORE = re.compile(r"(?<=[a-z])_(?=[a-z])", _I)
_EQUALS = re.compile(r"(?<=[^\W\d]) ?(?:={1,3}>?|-{1,2}>|:=|→|⇒) ?(?=[\w+−✓✗☑☐-])")
_WIDE_COLON = re.compile("[ \t]{0,4}\uff1a[ \t]{0,4}")
# "Edema: no  Effusion: yes": fields that blanks set apart on a line.
_GAP = re.compile(r"(?<=[^\W_]) {2,40}(?=[^\W\d_][\w ()/-]{1,40}:[ \t]{0,4}\S)")
_DOTS = re.compile(r"(?<=[^\W\d])\.{3,} ?(?P<value>\w{1,12})\b")
_BULLET = re.compile(r"(?<=\S) [•●▪] (?=\S)")
_LEADER = re.compile(
    r"^(?P<name>[ \t]*[^\W\d_][^\n.:;?!|_…]{1,50}?) ?"
    r"(?P<dots>\.{2,}|…+|(?: \.){3,}|·{3,}|_{5,}|-{3,}|[,;](?=\S)) ?(?P<value>\S[^\n]*)$",
    _M,
)
_QUESTION = re.compile(
    r"(?:^|(?<=[.!?] ))(?:[QF]: ?)?(?:(?:is|are) there )?(?:(?:any|an?|signs? of) )?"
    r"(?!(?:is|are|was|were|has|have|does|do|did|can|could)\b)"
    r"(?P<name>[^\W\d_][\w /-]{1,40})\?(?: [(\[][^()\[\]\n]{1,20}[)\]])?\s{1,4}(?:A: ?)?"
    r"(?P<value>\w{1,12})\b(?P<stop>\.[ \t]+)?",
    _M | _I,
)
_MARK = re.compile(r"[\[(][ \t]{0,3}(?P<in>[xX✓✔]?)[ \t]{0,3}[\])](?!\w)|(?P<box>[☐□▢☑☒✅■⊠])")
_BLANK_MARK = re.compile(r"^([ \t]{0,4})(?:_([xX])_|_{2,3})(?= \w)", _M)
_CROSSED = re.compile(r"^[ \t]{0,4}_[xX]_ \w", _M)
_TICKED = "☑☒✅■⊠"
_SIGNED = re.compile(r"^[ \t]*(?P<sign>[+−-])[ \t]{0,4}(?P<rest>[^\W\d_][^\n]*)$", _M)
_LISTED = re.compile(
    r"[ \t]*(?:[-*•·–+]|\(?\d{1,2}[.)]|\(?[a-h][.)])?[ \t]*(?P<rest>[^\W\d_][^\n:]*)"
)
_CELL = re.compile(r" {0,40}[|\t] {0,40}|(?<=[^\s:.,;]) {3,}(?=\S)")
_TITLES = re.compile(
    r"(?:findings?|status|side|results?|location|comments?|value|severity|observations?|item|present\??"
    r"|laterality|befund|seite|bewertung|hallazgo|lado|résultat|côté|signe|achado|resultado|estado|#)?",
    _I,
)
_RULE = re.compile(r"[\s|:+=_-]*")
FARTHEST = 200
"""Characters of a row within which the next letter of what it became is looked for."""
_HEADER_CELLS = frozenset(["x", "X", "✓", "✔", "+", "●", "•"])


class Plain(NamedTuple):
    """A text, and the place of each of its characters in the one it was made of, and of its end."""

    text: str
    places: Sequence[int]


def plain_text(text: str) -> Plain:
    r"""Return a text as plain lines that end in ``\\n``, in time linear in its length.

    HTML's character references are resolved once, control characters become spaces, and so do a
    dictation system's field marks ``[<`` and ``>]``.
    """
    plain = Plain(text, range(len(text) + 1))
    stripped = text.strip()
    if stripped[:1] in "{[" and stripped[-1:] in "}]" and (lines := _of_json(stripped)):
        return Plain(lines, [0] * len(lines) + [len(text)])
    if stripped.startswith("{\\rtf"):
        plain = _put(plain, _RTF, _rtf())
    if "\\" in text or "~" in text:
        plain = _put(plain, _HL7, lambda m: _HL7_SIGNS.get(m["sign"], "") if m["sign"] else "\n")
        plain = _put(plain, _BREAK, lambda _: "\n")
    if "&" in plain.text:
        plain = _put(plain, _REFERENCE, lambda m: html.unescape(m[0]))
    if "<" in plain.text:
        plain = _put(plain, _HIDDEN, lambda _: " ")
        plain = _put(plain, _INPUT, lambda m: "☑ " if "checked" in m["rest"].lower() else "☐ ")
        plain = _put(plain, _TAG, _tag)
        plain = _put(plain, _ATTRIBUTES, _attributes)
        plain = _put(plain, _ELEMENT, lambda m: f"\n{m[1]}: {m[2]}\n")
    plain = _put(plain, _LINE_END, lambda _: "\n")
    plain = _put(plain, _CONTROL, lambda _: " ")
    if "[<" in plain.text or ">]" in plain.text:
        plain = _without_field_marks(plain)
    for pattern, put in _STEPS:
        plain = _put(plain, pattern, put)
    return _lines(plain)


def _put(plain: Plain, pattern: re.Pattern[str], put: Callable[[re.Match[str]], str]) -> Plain:
    """A text with something else in the place of each match."""
    parts, places, done = list[str](), list[int](), 0
    for match in pattern.finditer(plain.text):
        if (new := put(match)) != match[0]:
            start = match.start()
            parts += [plain.text[done:start], new]
            places += [*plain.places[done:start], *_places_of(plain, start, match.end(), new)]
            done = match.end()
    if not parts:
        return plain
    return Plain("".join([*parts, plain.text[done:]]), [*places, *plain.places[done:]])


def _places_of(plain: Plain, start: int, end: int, new: str) -> Iterator[int]:
    """The places of what stands in the place of ``plain.text[start:end]``.

    What stood there keeps its own, letters and digits also behind others; what did not has that of
    what comes next.
    """
    for character in new:
        reach = FARTHEST if character.isalnum() else 1
        found = plain.text.find(character, start, min(end, start + reach))
        start = start if found < 0 else found
        yield plain.places[min(start, end - 1)]
        start += found >= 0


def _rtf() -> Callable[[re.Match[str]], str]:
    """What stands for each token of RTF, in their order; groups such as fonts are hidden."""
    depth, hidden = 0, 0  # hidden: the depth of the group that is not shown

    def put(match: re.Match[str]) -> str:
        nonlocal depth, hidden
        if match["brace"]:
            depth += 1 if match["brace"] == "{" else -1
            hidden = hidden if depth >= hidden else 0
        elif match["sign"] == "*" or match["word"] in _RTF_HIDDEN:
            hidden = hidden or depth
        elif hidden:
            return ""
        elif match["byte"]:
            return bytes.fromhex(match["byte"]).decode("cp1252", "replace")
        elif match["code"]:
            return chr(int(match["code"]) % 65536)
        elif match["sign"]:
            return (
                "\n" if match["sign"] in "\r\n" else " " if match["sign"] == "~" else match["sign"]
            )
        elif match["word"]:
            return _RTF_BREAKS.get(match["word"], "")
        return match["text"] or "" if not hidden else ""

    return put


def _tag(match: re.Match[str]) -> str:
    if match["block"]:
        return "" if match["shut"] and match["block"].lower() in ("tr", "li", "dt") else "\n"
    return "\t" if match["cell"] and not match["shut"] else ""


def _attributes(match: re.Match[str]) -> str:
    name, *values = (value.strip("\"'") for value in re.findall("\".*?\"|'.*?'", match[1]))
    return f"\n{name}: {', '.join(values)}\n"


def _of_json(text: str) -> str:
    """JSON as lines of ``key: value``; "" where the text is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    return "\n".join(_of_value(value)) if isinstance(value, dict | list) else ""


_ABOUT = {"present", "status", "value", "side", "severity", "location", "laterality", "result"}
_OF_JSON = {"True": "yes", "False": "no", "None": "n/a"}


def _of_value(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for one in value:
            flat = isinstance(one, dict) and not any(
                isinstance(v, dict | list) for v in one.values()
            )
            if flat and isinstance(next(iter(one.values()), None), str) and len(one) > 1:
                name, *rest = (_OF_JSON.get(str(v), str(v)) for v in one.values())
                yield f"{name}: {', '.join(rest)}"
            else:
                yield from _of_value(one)
    elif isinstance(value, dict):
        for key, one in value.items():
            if isinstance(one, dict) and _ABOUT & one.keys():
                one = ", ".join(_OF_JSON.get(str(v), str(v)) for v in one.values() if v is not None)
            elif isinstance(one, list) and all(isinstance(v, str) for v in one):
                one = "\n".join(one)
            if isinstance(one, dict | list):
                yield from _of_value(one)
            else:
                said = _OF_JSON.get(str(one), str(one))
                yield f"{key.replace('_', ' ')}: {said}"
    else:
        yield str(value)


def _without_field_marks(plain: Plain) -> Plain:
    """Put a space for each mark, but for a ``[<`` before a number with no end: "less than"."""
    less_than, spared = -1, set[int]()
    for match in _FIELD_MARK.finditer(plain.text):
        if match[0] == "[<" and _NUMBER.match(plain.text, match.end()):
            less_than = match.start()
            spared.add(less_than)
        else:
            if match[0] == ">]":
                spared.discard(less_than)
            less_than = -1
    return _put(plain, _FIELD_MARK, lambda m: m[0] if m.start() in spared else " ")


def _leader(match: re.Match[str]) -> str:
    plain = len(match["dots"].replace(" ", "")) > 3 or is_answer(match["value"])
    return f"{match['name'].rstrip()}: {match['value']}" if plain else match[0]


def _gap(match: re.Match[str]) -> str:
    """A line break between fields; what stands before the first may be no field."""
    start = match.start()
    return "\n" if ":" in match.string[max(0, start - 60) : start].rpartition("\n")[2] else match[0]


def _question(match: re.Match[str]) -> str:
    put = f"{match['name']}: {match['value']}" + (".\n" if match["stop"] else "")
    return put if is_answer(match["value"]) else match[0]


def _bold(match: re.Match[str]) -> str:
    """What is bold as plain text, but for a line of it, which may be a heading."""
    line = match.string[match.string.rfind("\n", 0, match.start()) + 1 : match.start()]
    return (
        match[0]
        if not line.strip()
        and not match[1].rstrip().endswith(":")
        and (match.string[match.end() : match.end() + 1] not in ":")
        else match[1]
    )


_STEPS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (_WIDE_COLON, lambda _: ": "),
    (_UNDERSCORE, lambda _: " "),
    (_BOLD, _bold),
    (_EQUALS, lambda _: ": "),
    (_BULLET, lambda _: "\n"),
    (_LEADER, _leader),
    (_DOTS, lambda m: f": {m['value']}" if is_answer(m["value"]) else m[0]),
    (_GAP, _gap),
    (_QUESTION, _question),
)


def _lines(plain: Plain) -> Plain:
    """Lines that say something together as ``finding: value``.

    They are rows of tables, tick boxes, lists of ``+`` and ``-``, a value below its finding, and
    lists below "Negative for:".
    """
    if _CROSSED.search(plain.text):
        plain = _put(plain, _BLANK_MARK, lambda m: f"{m[1]}[{m[2] or ' '}]")
    text = plain.text
    signs = {match["sign"] for match in _SIGNED.finditer(text)}
    signed = "+" in signs and len(signs) > 1
    lines = text.split("\n")
    rows = list(map(_cells, lines))
    header, listed, made = list[str](), "", list[tuple[int, int, str]]()
    start = 0
    for number, (line, cells) in enumerate(zip(lines, rows, strict=True)):
        new, end, after = (
            line,
            start + len(line),
            rows[number + 1] if number + 1 < len(rows) else [],
        )
        header = header if cells or not line.strip() else []
        if not cells and _MARK.search(line):
            new = _boxes(line)
        elif not cells and listed and (match := _LISTED.fullmatch(line)):
            new = (
                f"{match['rest'].rstrip(' .,;')}: {listed}"
                if is_bare_name(match["rest"].rstrip(" .,;"))
                else line
            )
        elif not cells:
            listed = listed if listed and not line.strip() else _list_below(line)
            new = "" if listed else line
            match = _SIGNED.match(line)
            # A minus sign is no bullet, as a hyphen is.
            if match and (signed or (match["sign"] == "−" and is_bare_name(match["rest"]))):
                new = f"{match['rest'].rstrip(' .')}: {_YES[match['sign'] == '+']}"
            elif made and made[-1][1] >= end:
                new = line
            elif (value := _value_below(lines[number + 1 : number + 3])) and is_bare_name(line):
                new, end = f"{line.rstrip(' :')}: {value.strip()}", end + 1 + len(value)
        elif _RULE.fullmatch(line):
            new = ""
        elif _MARK.search(line):
            new = _boxes(" ".join(cells))
        else:
            titles = all(map(_TITLES.fullmatch, cells)) or _turned(cells, after)
            options = all(is_side(cell) or is_answer(cell) for cell in cells[1:])
            titles = titles or (options and _TITLES.fullmatch(cells[0]) is not None)
            new = "" if titles and not header else _row(cells, header)
            header = header or (cells if titles or not is_answer(cells[1]) else [])
        if new != line:
            made.append((start, end, new))
        start += len(line) + 1
    parts, places, done = list[str](), list[int](), 0
    for begin, end, new in made:
        if begin < done:  # a value that was put behind its name
            continue
        parts += [text[done:begin], new]
        places += [*plain.places[done:begin], *_places_of(plain, begin, end, new)]
        done = end
    return Plain("".join([*parts, text[done:]]), [*places, *plain.places[done:]])


_YES = ("no", "yes")


def _list_below(line: str) -> str:
    """What a line says of a list below it, "" where it says nothing."""
    kind = list_answer(line) if line.rstrip().endswith(":") else None
    return _YES[kind == "present"] if kind in ("absent", "present") else ""


def _value_below(lines: list[str]) -> str:
    """The value in the next line, or behind a blank one; "" for none."""
    below = "\n".join(lines) if lines and not lines[0].strip() else "".join(lines[:1])
    return (
        below
        if below.strip() and len(below) < _VALUE and all(map(is_answer, below.split(",")))
        else ""
    )


_VALUE = 40


def _cells(line: str) -> list[str]:
    """The cells of a row of a table; none of another line."""
    if not _CELL.search(line):
        return []
    bare = line.strip(" ")
    bare = bare[1:].removesuffix("|") if bare[:1] in ("|", "\t") else bare
    cells = [cell.strip().strip(" *\"'`:") for cell in _CELL.split(bare)]
    spaced = "|" not in line and "\t" not in line.strip()
    is_row = len(cells) > 1 and (not spaced or (_is_name(cells[0]) and is_answer(cells[1])))
    return cells if is_row else []


def _turned(cells: list[str], after: list[str]) -> bool:
    """Whether a row of names stands above a row of their values."""
    values = len(cells) == len(after) and all(map(is_answer, after))
    return values and not any(map(is_answer, cells))


def _is_name(text: str) -> bool:
    return 0 < len(text.split()) <= 6 and not text.endswith((".", ":", ","))


def _row(cells: list[str], header: list[str]) -> str:
    """A row of a table; ``header``: the first row of it."""
    if len(header) == len(cells):
        filled = [(name, cell) for name, cell in zip(header[1:], cells[1:], strict=True) if cell]
        if len(filled) == 1 and filled[0][1] in _HEADER_CELLS and len(header) > 2:
            return f"{cells[0]}: {filled[0][0]}"
        if _turned(header, cells):
            return "\n".join(f"{name}: {cell}" for name, cell in zip(header, cells, strict=True))
    if not _is_name(cells[0]) or all(":" in cell for cell in cells if cell):
        return "\n".join(filter(None, cells))
    name, *values = cells
    if len(header) == len(cells) > 2 and all(map(is_side, header[1:])):
        values = [f"{side} {cell}" for side, cell in zip(header[1:], values, strict=True) if cell]
    values = [value for value in values if value.strip("-–— ")] or values[:1]
    return f"{name}: {', '.join(values)}"


def _boxes(line: str) -> str:
    """A line with tick boxes as what they say."""
    marks = list(_MARK.finditer(line))
    edges = [0, *(edge for match in marks for edge in match.span()), len(line)]
    texts = [line[a:b].strip(" \t,;|-*•") for a, b in zip(edges[::2], edges[1::2], strict=True)]
    ticked = [bool(match["in"]) or (match["box"] or "☐") in _TICKED for match in marks]
    label, *after = texts
    if label and not after[-1]:  # each box stands behind its text
        name, _, option = label.rpartition(" ")
        if not is_answer(option) or not name:
            pairs = zip([label, *after[:-1]], ticked, strict=True)
            return "\n".join(f"{text.rstrip(':')}: {'yes' if on else 'no'}" for text, on in pairs)
        label, after = name, [option, *after[:-1]]
    if label:
        chosen = [text for text, on in zip(after, ticked, strict=True) if on and text]
        return f"{label.rstrip(' :?')}: {', '.join(chosen) or 'n/a'}"
    said = []
    for text, on in zip(after, ticked, strict=True):
        if on:
            said.append(text)
        elif text and not is_answer(text.split()[0]):
            said.append(f"{text.rstrip(' .:')}: no")
    return "\n".join(said)
