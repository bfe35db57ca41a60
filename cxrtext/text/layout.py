"""Turns any report text into plain lines: resolves markup, escapes, tables and tick boxes.

RTF, HTML, HL7's escapes and JSON become lines; a table row, a dotted leader and a ticked box become
``finding: value``.  Each character keeps its place in the original text.
"""

import html
import json
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from cxrtext.text.fields import is_bare_name, list_answer, names_any
from cxrtext.text.rules import answer, every, is_answer, kind_of
from cxrtext.text.tables import MARK, STATUS, as_field, is_ticked, table_lines

_M = re.MULTILINE
_I = re.IGNORECASE
# Category Cc except the tab and the line breaks, the separators of lines and paragraphs, and two
# characters without width that come with text from web pages and Windows.
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
# A "~" is "about" before a number ("~ 2 cm") and a repetition elsewhere; JSON and SQL exports leave
# "\n".
_BREAK = re.compile(r"~(?! ?\d)|(?:\\r)?\\n(?![a-z])")
_OBX = re.compile(r"^OBX\|[^|\n]*\|[^|\n]*\|([^|\n]*)\|[^|\n]*\|([^|\n]*)[^\n]*", _M)
_HIDDEN = re.compile(r"<!--.{0,500}?-->|<(style|script|head)\b.{0,2000}?</\1>", _I | re.DOTALL)
_TAG = re.compile(
    r"<(?P<shut>/?)(?:(?P<block>p|div|br|tr|li|h[1-6]|hr|pre|table|dt|body|html|title|section|item"
    r"|form|fieldset|legend|header)|(?P<cell>td|th|dd)|b|i|u|em|strong|span|font|a|ul|ol|dl|tbody"
    r"|thead|su[bp]|small|center|label|select|option|list|text|article|main|mark|code)"
    r"(?:[\s/][^<>]{0,1000})?>",
    _I,
)
# A tick box.
_INPUT = re.compile(r"<(?:input|option)\b(?P<rest>[^<>]{0,200})>", _I)
_CHOSEN = re.compile(r"\b(?:checked|selected)\b(?!\s*=\s*.?false)", _I)
# A part of a DICOM structured report as printed by dcmtk.
_CONTAINS = re.compile(
    r'<[\w ]{1,40}:\([^"\n]{0,60}"([^"\n]{1,80})"\)=(?:\([^"\n)]{0,60})?"?([^"\n>]{0,999})"?\)?>'
)
# An element with all its values in attributes or children.
_RECORD = re.compile(
    r"<(?P<name>[\w:.-]{1,40})(?P<of>\s[^<>]{0,300})?(?:/>|>(?P<in>"
    r"(?:\s{0,40}<(?P<leaf>[\w:.-]{1,40})(?:\s[^<>]{0,200})?(?:/>|>[^<>]{0,200}</(?P=leaf)>)){1,20}"
    r")\s{0,40}</(?P=name)>)"
)
_PAIR = re.compile(r"\s([\w:.-]{1,40})=([\"'])([^\"'<>]*)\2|<([\w:.-]{1,40})[^<>/]*>([^<>]+)</")
_ELEMENT = re.compile(r"<([A-Za-z]\w{0,40})>([^<>\n]{0,200})</\1>")
# "[<Lungs are clear.>]": a dictation system's marks around a template field; "[<3" is "less than".
_FIELD_MARK = re.compile(r">\]|\[<(?! ?\d)|\[<(?=(?:(?!\[<|>\]).)*>\])", re.DOTALL)
_BOLD = re.compile(r"(?<!\[)\*\*([^*\n]{1,80})\*\*(?!\s*$)", _M)
_UNDERSCORE = re.compile(r"(?<=[a-z])_(?=[a-z])", _I)
_EQUALS = re.compile(r"(?<=[^\W\d]) ?(?:={1,3}>?|-{1,2}>|:=|→|⇒) ?(?=[\w+−✓✗☑☐-])")
_HYPHEN = re.compile(r"\b([^\W\d_]{2,20})[-\xad]\n[ \t]{0,8}([^\W\d_]{2,20})\b")
_WIDE_COLON = re.compile("[ \t]{0,4}\uff1a[ \t]{0,4}")
# "Finding: edema; status: absent".
_STATED = re.compile(
    r"\b(?:finding|name|item|label|diagnosis|observation): ?([^\n:;,|]{2,60})[;,|\n]\s{0,20}"
    rf"(?:{STATUS.pattern}): ?([^\n:;,|]{{1,40}})",
    _I,
)
_BULLET = re.compile(r"(?<=[^\s:]) [•●▪] (?=\S)")
_QUESTION = re.compile(
    r"(?:^|(?<=[.!?] ))(?:[QF]\d{0,2}[:.)] ?)?(?:(?:is|are|was|were) (?:there )?)?"
    r"(?:(?:the|any|an?) )?(?:(?:signs?|evidence) of )?(?P<name>[^\W\d_][^\n?.:;]{1,60})\?"
    r"(?: [(\[][^()\[\]\n]{1,20}[)\]])?\s{1,4}(?:A[:.] ?|[-–—] )?"
    r"(?P<value>[^\W\d_][^\n?.,;]{0,30})(?P<stop>\.[ \t]+)?",
    _M | _I,
)
_SPOKEN = re.compile(
    r"\s(period|full stop|comma|colon|semicolon|new line|next line|new paragraph)\b", _I
)
_FULL_STOP = re.compile(r"[^\W\d_]\.(?:\s|$)")
_SPELT = {"comma": ",", "colon": ":", "semicolon": ";", "period": ".", "full stop": "."}
# "1 = no, 2 = yes", "0 (none) to 3 (severe)", "✓ present", and "no = 1".
_CODE = r"\d|[A-Za-z](?![A-Za-z]| [a-z])|n/a|[+−-]{1,4}|[✓✔✗✘●○]"
_LEGEND = re.compile(
    rf"(?<![\w/.+-])(?P<code>{_CODE})[ \t]{{0,3}}(?:[=:–(]|means)?[ \t]{{0,3}}"
    r"(?:(?:finding|is|was) ){0,2}(?P<said>[^\W\d_][^\n,;.:()=|/✓✗●○]{0,30})"
    r"|\b(?![Kk]ey|[Ll]egend|[Cc]ode|[Ss]cale)(?P<first>[^\W\d_]{2,15})[ \t]?[=:(][ \t]?"
    rf"(?P<last>{_CODE})(?![\w/]|[ \t]?[=:(])"
)
_LEGEND_HEAD = re.compile(r"^([^\n:]{3,120}):[ \t](?=\S)", _M)
_BLANK_MARK = re.compile(r"^([ \t]{0,4})(?:_([xX])_|_{2,3})(?= \w)", _M)
_CROSSED = re.compile(r"^[ \t]{0,4}_[xX]_ \w", _M)
_PARTS = re.compile(r"[ \t]{0,9}[|;,\t][ \t]{0,9}")
_SIGNED = re.compile(r"^[ \t]*(?P<sign>[+−✓✔✅✗✘❌-])[ \t]{0,4}(?P<rest>[^\W\d_][^\n]*)$", _M)
_ITEM = re.compile(r"[ \t]*(?:[-*•·–+]|\(?\d{1,2}[.)]|\(?[a-h][.)])[ \t]")
_LISTED = re.compile(
    r"[ \t]*(?:[-*•·–+]|\(?\d{1,2}[.)]|\(?[a-h][.)])?[ \t]*(?P<rest>[^\W\d_][^\n:]*)"
)
FARTHEST = 200
"""How many characters ahead the next letter of a replacement is looked for in the original."""


class Plain(NamedTuple):
    """A text, with the place of each character, and of the end, in the original text."""

    text: str
    places: Sequence[int]


def plain_text(text: str) -> Plain:
    r"""Return a text as plain lines that end in ``\\n``, in time linear in its length.

    HTML's character references are resolved once.  Control characters and a dictation system's
    field marks ``[<`` and ``>]`` become spaces.
    """
    plain = Plain(text, range(len(text) + 1))
    stripped = text.strip()
    if stripped[:1] in "{[" and stripped[-1:] in "}]" and (lines := _of_json(stripped)):
        return Plain(lines, [0] * len(lines) + [len(text)])
    plain = _put(plain, _LINE_END, lambda _: "\n")
    if stripped.startswith("{\\rtf"):
        plain = _put(plain, _RTF, _rtf())
    if not _FULL_STOP.search(text) and len(_SPOKEN.findall(text)) > 1:
        plain = _put(plain, _SPOKEN, lambda m: _SPELT.get(m[1].lower(), "\n"))
    if "\\" in text or "~" in text:
        plain = _put(plain, _HL7, lambda m: _HL7_SIGNS.get(m["sign"], "") if m["sign"] else "\n")
        plain = _put(plain, _BREAK, lambda _: "\n")
    if "OBX|" in text:
        plain = _put(plain, _OBX, _observation)
    if "&" in plain.text:
        plain = _put(plain, _REFERENCE, lambda m: html.unescape(m[0]))
    if "<" in plain.text:
        plain = _put(plain, _HIDDEN, lambda _: " ")
        plain = _put(plain, _INPUT, lambda m: "☑ " if _CHOSEN.search(m["rest"]) else "☐ ")
        plain = _put(plain, _CONTAINS, lambda m: f"\n{m[1]}: {m[2].replace('SEPARATE', '')}\n")
        plain = _put(plain, _TAG, _tag)
        plain = _put(plain, _RECORD, _record)
        plain = _put(plain, _ELEMENT, lambda m: f"\n{m[1]}: {m[2]}\n")
    plain = _put(plain, _CONTROL, lambda _: " ")
    for pattern, put in _STEPS:
        plain = _put(plain, pattern, put)
    return _decoded(_lines(plain))


def _put(plain: Plain, pattern: re.Pattern[str], put: Callable[[re.Match[str]], str]) -> Plain:
    """A text with each match replaced."""
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
    """The places of the characters that replace ``plain.text[start:end]``.

    Characters found there keep their places, letters and digits even after skipped ones; a new
    character gets the place of the next original one.
    """
    for character in new:
        reach = FARTHEST if character.isalnum() else 1
        found = plain.text.find(character, start, min(end, start + reach))
        start = start if found < 0 else found
        yield plain.places[min(start, end - 1)]
        start += found >= 0


def _rtf() -> Callable[[re.Match[str]], str]:
    """A function that replaces RTF's tokens in order; groups such as fonts are hidden."""
    depth, hidden = 0, 0  # hidden: the depth of the hidden group, or 0

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


def _observation(match: re.Match[str]) -> str:
    """The value of an HL7 segment, after its name if that is a finding."""
    name, value = ([*cell.split("^"), ""] for cell in match.groups())
    said = value[1] or value[0]
    names = [one for one in name if is_bare_name(one)]
    return f"{names[-1]}: {said}" if names else said


def _tag(match: re.Match[str]) -> str:
    if block := match["block"]:
        opens = "\n• " if block.lower() == "li" else "\n"
        return "" if match["shut"] and block.lower() in ("tr", "li", "dt") else opens
    return "\t" if match["cell"] and not match["shut"] else ""


def _record(match: re.Match[str]) -> str:
    found = _PAIR.findall(f"{match['of'] or ''}{match['in'] or ''}")
    pairs = [(key or leaf, value or text) for key, _, value, leaf, text in found]
    return f"\n{_of_pairs(pairs)}\n" if len(pairs) > 1 else match[0]


def _of_pairs(pairs: Sequence[tuple[str, str]]) -> str:
    """A record as a table row of titles and cells, if a cell names a finding, else as lines."""
    pairs = sorted(pairs, key=lambda one: one[0].lower() not in _ABOUT)
    named = next((one for one in pairs if is_bare_name(one[1])), None)
    if named is None:
        return "\n".join(f"{title}: {cell}" for title, cell in pairs)
    pairs.remove(named)
    return as_field(named[1], *zip(*pairs, strict=True)) if pairs else named[1]


def _of_json(text: str) -> str:
    """JSON as lines of ``key: value``; "" if the text is not JSON."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    return "\n".join(_of_value(value)) if isinstance(value, dict | list) else ""


_ABOUT = {"present", "presence", "status", "value", "result", "finding_status", "assessment"}
_NESTED = _ABOUT | {"valuecodeableconcept", "valueboolean", "valuestring", "interpretation"}
_OF_JSON = {"True": "yes", "False": "no", "None": "n/a", "": "n/a"}


def _said(value: Any) -> str:
    return _OF_JSON.get(str(value), str(value))


def _of_nested(record: dict[str, Any]) -> str:
    """A record as a field, if one member names a finding and another answers, else ""."""
    said = {key: [*islice(_leaves(one), _MEMBERS)] for key, one in record.items()}
    names = [(key, name) for key, some in said.items() for name in {*filter(is_bare_name, some)}]
    nested = any(isinstance(one, dict) for one in record.values())
    if len(names) != 1 or not nested or any(map(is_bare_name, record)):
        return ""
    about, name = names[0]
    others = sorted({*said} - {about})
    kinds = [(key, kind) for key in others for kind in map(kind_of, said[key]) if kind]
    told = [kind for key, kind in kinds[::-1] if key.lower() in _NESTED]
    denied = isinstance(record[about], dict) and {"absent", "unknown"} & {*dict(kinds).values()}
    return f"{name}: {_OF_LIST[told[0]] if told else 'n/a'}" if told or denied else ""


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        members = value.values() if isinstance(value, dict) else value
        for one in sorted(members, key=lambda one: not isinstance(one, bool)):
            yield from _leaves(one)
    else:
        yield _said(value)


def _of_value(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for one in value:
            yield from _of_value(one)
    elif isinstance(value, dict) and (said := _of_nested(value)):
        yield said
    elif isinstance(value, dict):
        flat = {key: _said(one) for key, one in value.items() if not isinstance(one, dict | list)}
        record = any(map(is_bare_name, flat.values())) and not any(map(is_bare_name, flat))
        if record:
            yield _of_pairs([one for one in flat.items() if one[1] != "n/a"])
        for key, one in value.items():
            name = key.replace("_", " ")
            if isinstance(one, dict) and is_bare_name(name):
                yield _of_pairs(
                    [("", name), *((k, _said(v)) for k, v in one.items() if v is not None)]
                )
            elif isinstance(one, list) and one and all(isinstance(v, str) for v in one):
                yield f"{name}: {(', ' if all(map(is_bare_name, one)) else chr(10)).join(one)}"
            elif isinstance(one, dict | list):
                yield from _of_value(one)
            elif not record:
                yield f"{name}: {flat[key]}"
    else:
        yield str(value)


def _joined(match: re.Match[str]) -> str:
    """A word broken over two lines: joined if that names a finding, else hyphenated."""
    whole = match[1] + match[2]
    return whole if is_bare_name(whole) else f"{match[1]}-{match[2]}"


def _question(match: re.Match[str]) -> str:
    put = f"{match['name'].rstrip()}: {match['value']}" + (".\n" if match["stop"] else "")
    return put if is_answer(match["value"]) and names_any(match["name"]) else match[0]


def _bold(match: re.Match[str]) -> str:
    """Bold text as plain text, except a bold line, which may be a heading."""
    line = match.string[match.string.rfind("\n", 0, match.start()) + 1 : match.start()]
    return (
        match[0]
        if not line.strip()
        and not match[1].rstrip().endswith(":")
        and (match.string[match.end() : match.end() + 1] not in ":")
        else match[1]
    )


_STEPS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (_FIELD_MARK, lambda _: " "),
    (_HYPHEN, _joined),
    (_WIDE_COLON, lambda _: ": "),
    (_UNDERSCORE, lambda _: " "),
    (_BOLD, _bold),
    (_EQUALS, lambda _: ": "),
    (_BULLET, lambda _: "\n"),
    (_STATED, lambda m: f"{m[1]}: {m[2]}" if is_bare_name(m[1]) else m[0]),
    (_QUESTION, _question),
)


def _lines(plain: Plain) -> Plain:
    """Put lines that belong together as ``finding: value``.

    These are table rows, tick boxes, lists of ``+`` and ``-``, a value below its finding, and lists
    below "Negative for:".
    """
    if _CROSSED.search(plain.text):
        plain = _put(plain, _BLANK_MARK, lambda m: f"{m[1]}[{m[2] or ' '}]")
    text = plain.text
    signs = {match["sign"] for match in _SIGNED.finditer(text)}
    signed = "+" in signs and len(signs) > 1
    lines = text.split("\n")
    tables = table_lines(lines)
    listed, made = "", list[tuple[int, int, str]]()
    start = 0
    for number, line in enumerate(lines):
        new, end = line, start + len(line)
        if number in tables:
            new = tables[number]
        elif MARK.search(line):
            new = _boxes(line)
        elif head := _list_below(line, next(filter(str.strip, lines[number + 1 : number + 3]), "")):
            listed, new = head, ""
        elif listed and (match := _LISTED.fullmatch(line)):
            name = match["rest"].rstrip(" .,;")
            new = f"{name}: {listed}" if is_bare_name(name) else line
        else:
            listed = "" if line.strip() else listed
            match = _SIGNED.match(line)
            # A hyphen is a bullet, a minus sign is not.
            if match and (signed or (match["sign"] not in "+-" and is_bare_name(match["rest"]))):
                new = f"{match['rest'].rstrip(' .')}: {match['sign']}"
            elif made and made[-1][1] >= end:
                new = line
            elif (below := _value_below(lines[number + 1 : number + 4])) and is_bare_name(line):
                new, end = f"{line.strip(' :[]')}: {below[0]}", end + 1 + below[1]
        if new != line:
            made.append((start, end, new))
        start += len(line) + 1
    parts, places, done = list[str](), list[int](), 0
    for begin, end, new in made:
        if begin < done:  # a value already moved after its name
            continue
        parts += [text[done:begin], new]
        places += [*plain.places[done:begin], *_places_of(plain, begin, end, new)]
        done = end
    return Plain("".join([*parts, text[done:]]), [*places, *plain.places[done:]])


_OF_LIST = {"present": "yes", "absent": "no", "uncertain": "possible", "unknown": "n/a"}


def _list_below(line: str, after: str) -> str:
    """The value that a line gives to the list below it, or ""."""
    opens = line.rstrip(" *").endswith(":") or (_ITEM.match(after) and not _ITEM.match(line))
    kind = list_answer(line.strip(" \t#*:")) if opens else None
    return _OF_LIST[kind] if kind else ""


_SURELY = re.compile(r"(?:definitely|clearly|certainly|surely) (?=\w)", _I)


def _pairs(line: str) -> dict[str, str]:
    """The codes that a line explains, with their meanings; empty if it is not a legend."""
    found = dict[str, str]()
    for match in _LEGEND.finditer(line):
        said = _SURELY.sub("", match["said"] or match["first"])
        if end := max((one[1] for own in every() if (one := answer(said, own))), default=0):
            found[(match["code"] or match["last"]).lower()] = said[:end]
    absent = any(kind_of(said) == "absent" for said in found.values())
    explains = absent and (len(found) > 1 or "n/a" in found) and not names_any(line)
    return found if explains else {}


def _decoded(plain: Plain) -> Plain:
    """A text with each code replaced by its meaning in the legend."""
    plain = _put(plain, _LEGEND_HEAD, lambda m: f"{m[1]}:\n" if _pairs(m[1]) else m[0])
    lines = plain.text.split("\n")
    legend = {code: said for line in lines for code, said in _pairs(line).items()}
    if not legend:
        return plain
    codes = "|".join(map(re.escape, sorted(legend, key=len, reverse=True)))
    coded = re.compile(
        rf"(?P<name>[^\W\d_][^\n:;,|]{{2,60}}?)(?::[ \t]{{0,3}}|[ \t]{{1,40}})(?P<code>{codes})"
        r"(?:/\d)?(?=[ \t]{0,3}(?:[;,.]|$))"
        rf"|^[ \t]*(?P<front>{codes})[ \t]+(?P<after>[^\W\d_][^\n:;,|]+)$",
        _M | _I,
    )

    def put(match: re.Match[str]) -> str:
        name = (match["name"] or match["after"]).rstrip()
        code = (match["code"] or match["front"]).lower()
        return f"{name}: {legend[code]}" if is_bare_name(name) else match[0]

    return _put(plain, coded, put)


def _value_below(lines: list[str]) -> tuple[str, int] | None:
    """The value in the next line, or after a blank one, and its length with line breaks."""
    taken = lines[: 1 + bool(lines and not lines[0].strip())]
    below = "\n".join(taken)
    value = below.rpartition(":")[2] if STATUS.match(below.strip()) else below
    value = value.lstrip(" \t\n-–>=→•*").rstrip() or value.strip()
    # The heading of a list is not a value.
    heads = not _ITEM.match(below.strip()) and any(map(_ITEM.match, lines[len(taken) :][:1]))
    is_value = value and not heads and len(below) < _VALUE and all(map(is_answer, value.split(",")))
    return (value, len(below)) if is_value else None


_VALUE, _MEMBERS = 40, 30


def _boxes(line: str) -> str:
    """A line with tick boxes as ``name: value`` lines."""
    parts = _PARTS.split(line)
    if len(parts) > 1 and all(part[:1].isalnum() and MARK.search(part) for part in parts):
        return "\n".join(map(_boxes, parts))
    marks = list(MARK.finditer(line))
    edges = [0, *(edge for match in marks for edge in match.span()), len(line)]
    texts = [line[a:b].strip(" \t,;|-*•") for a, b in zip(edges[::2], edges[1::2], strict=True)]
    ticked = list(map(is_ticked, marks))
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
            said.append(f"{text}: yes" if is_bare_name(text) else text)
        elif text and not is_answer(text.split()[0]):
            said.append(f"{text.rstrip(' .:')}: no")
    return "\n".join(said)
