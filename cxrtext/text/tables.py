"""Tables in a text: rows, or columns of a turned table, become ``finding: value``."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from cxrtext.text.fields import is_bare_name, is_field, is_side
from cxrtext.text.rules import denied, is_answer, kind_of

MARK = re.compile(r"[\[(][ \t]{0,3}(?P<in>[xX✓✔]?)[ \t]{0,3}[\])](?!\w)|(?P<box>[☐□▢☑☒✅■⊠])")
_TICKED = "☑☒✅■⊠"
_DOTS = r" ?(?:\.{2,}|…+|(?: \.){3,}|·{3,}|_{5,}|-{3,}) ?(?=\S)"
_SPACES = r"(?<=[^\s:,;]) {2,}(?=\S)"
_SEPARATORS = [
    re.compile(one) for one in (r" {0,40}[|\t] {0,40}", "[;&]", r",(?=\S)|,$", _DOTS, _SPACES)
]
_RULE = re.compile(r"[\s|:+=_-]*")
_LETTER = re.compile(r"[^\W\d_]")
_MOST = 200  # cells of a row
_MAIN = (
    r"(?:status|results?|value|present\??|presence|assessment|answer|today|now|current\w*"
    r"|(?:consensus|adjudicated|final)(?: [\w()]+){0,2}"
    r"|this (?:study|exam|film)|heute|aktuell|befund|bewertung|ergebnis|resultado|estado|hoy|hoje"
    r"|a[ct]tual|résultat|statut)"
)
_EARLIER = re.compile(
    r"(?:prior|previous|last|earlier|before|baseline|yesterday|comparison|old|vor\w*|gestern"
    r"|previo|anterior|ayer|ontem|précédent|antérieur)(?: [\w/.-]+){0,2}",
    re.I,
)
STATUS = re.compile(_MAIN, re.I)
_DATED = re.compile(r"[ (\[]*\d+(?:[/.-]\d+)+[ )\](]*|(?<=\w)[)\]]$")
_TITLES = re.compile(
    rf"(?:{_MAIN}|findings?|location|comments?|severity|grade|score|code|observations?|item|diagnos[ei]s"
    r"|patholog(?:y|ie)|abnormality|side|laterality|seite|hallazgo|lado|côté|signe|achado|#|no\.?)?"
    r"(?:\W.*)?$",
    re.I,
)


class _Row(NamedTuple):
    number: int  # of its line
    starts: list[int]  # where each cell begins
    cells: list[str]


def table_lines(lines: Sequence[str]) -> dict[int, str]:
    """The new text of each line of a table, by the line's number."""
    said = dict[int, str]()
    for separator in _SEPARATORS:
        certain = separator is _SEPARATORS[0]
        run = list[_Row]()
        for number, line in enumerate([*lines, "."]):
            if number not in said and 0 < len(separator.findall(line)) < _MOST:
                if _RULE.fullmatch(line):
                    said[number] = ""
                    continue
                indent = len(line) - len(line.lstrip(" "))
                edges = [indent, *(edge for m in separator.finditer(line) for edge in m.span())]
                ends = [*edges[1::2], len(line)]
                cells = [_cell(line[a:b]) for a, b in zip(edges[::2], ends, strict=True)]
                run.append(_Row(number, edges[::2], cells))
            elif not (run and _RULE.fullmatch(line) and (line.strip() or certain or len(run) == 1)):
                said |= _table(run, certain) if run else {}
                run = []
            elif line.strip():
                said[number] = ""
    return said


def _cell(text: str) -> str:
    text = text.strip(" \"'`:*") if text.strip() != "*" else "x"
    mark = MARK.fullmatch(text)
    return text if mark is None else "x" if is_ticked(mark) else ""


def is_ticked(mark: re.Match[str]) -> bool:
    return bool(mark["in"]) or (mark["box"] or "☐") in _TICKED


def _table(rows: list[_Row], certain: bool) -> dict[int, str]:
    """The new text of the lines in a run of rows; lines that stay as they are are left out."""
    first, *others = rows
    # The column of names has no title.
    if others and first.starts[0] > max(row.starts[0] for row in others):
        rows = [first._replace(starts=[0, *first.starts], cells=["", *first.cells]), *others]
    framed = certain and len(rows[0].cells) > 1 and not any(row.cells[0] for row in rows)
    cells = [_placed(row, rows[0])[framed:] for row in rows]
    width = max(len(row) - (not row[-1]) for row in cells)
    if width < 2:
        return {}
    cells = [(row + [""] * width)[:width] for row in cells]
    numbers = [row.number for row in rows]
    if len(cells) > 1 and _is_turned(cells):
        turned = _rows([list(column) for column in zip(*cells, strict=True)], certain)
        return dict.fromkeys(numbers, "") | {numbers[-1]: "\n".join(filter(None, turned))}
    said = zip(numbers, _rows(cells, certain), strict=True)
    return {number: one for number, one in said if one is not None}


def _placed(row: _Row, header: _Row) -> list[str]:
    """The cells of a row; if some are missing, each goes below the nearest title."""
    if "" in row.cells or len(row.cells) >= len(header.cells):
        return row.cells
    middles = [a + len(text) / 2 for a, text in zip(header.starts, header.cells, strict=True)]
    placed = [""] * len(middles)
    for start, cell in zip(row.starts, row.cells, strict=True):
        far = [abs(one - start - len(cell) / 2) for one in middles]
        same = start in header.starts
        placed[header.starts.index(start) if same else far.index(min(far))] = cell
    return placed


def _is_turned(cells: list[list[str]]) -> bool:
    """Whether the first row has the names, with their values below."""
    named = [place for place, cell in enumerate(cells[0]) if is_bare_name(cell)]
    values = [row[place] for row in cells[1:] for place in named]
    return len(named) > 1 and all(not one or is_answer(one) for one in values)


def _rows(cells: list[list[str]], certain: bool) -> list[str | None]:
    """The new text of each row; None for a row that stays as it is."""
    names = [sum(map(is_bare_name, column)) for column in list(zip(*cells, strict=True))[:-1]]
    place = names.index(max(names))
    first = cells[0]
    if len(cells) > 1 and all(map(is_answer, first)) and not any(map(is_side, first)):
        lists = [[f"{n}: {t}" for t, n in zip(first, row, strict=True) if n] for row in cells[1:]]
        return ["", *map("\n".join, lists)]
    titles = [""] * len(first)
    has_titles = (
        len(cells) > 1
        and not any(map(is_bare_name, first))
        and (not first[place] or bool(_LETTER.match(first[place]) and _TITLES.match(first[place])))
    )
    if has_titles or (not any(map(is_answer, first)) and not is_bare_name(first[place])):
        titles = first
    body = cells[has_titles:]
    if all(is_field(cell) for row in cells for cell in row if cell):
        return ["\n".join(filter(None, row)) for row in cells]
    answered = sum(any(map(is_answer, row)) for row in body)
    told = 2 * min(names[place], answered) >= len(body) and names[place] > (place > 0)
    if not (certain or told):
        return [None] * len(cells)
    said: list[str | None] = [""] * has_titles
    for row in body:
        if any(map(MARK.search, row)) or not _LETTER.search(row[place]):
            said.append(None)
        elif len(row) > 3 and all(map(is_bare_name, row[::2])) and all(map(is_answer, row[1::2])):
            pairs = zip(row[::2], row[1::2], strict=False)
            said.append("\n".join(f"{name}: {value}" for name, value in pairs))
        elif any(map(is_field, row)) or (certain and not _is_name(row[place])):
            said.append("\n".join(filter(None, row)))
        elif certain or is_bare_name(row[place]) or is_answer(row[place + 1]):
            said.append(as_field(row[place], titles[place + 1 :], row[place + 1 :]))
        else:
            said.append(None)
    return said


def _is_name(text: str) -> bool:
    return 0 < len(text.split()) <= 6 and not text.endswith((".", ":", ","))


def as_field(name: str, titles: Sequence[str], cells: Sequence[str]) -> str:
    """A row as ``name: value``, by the titles of its columns."""
    bare = [_DATED.sub("", title) or title for title in titles]  # "Prior (07/06/2020)"
    pairs = zip(bare, cells, strict=True)
    filled = [(title, cell) for title, cell in pairs if cell and not _EARLIER.fullmatch(title)]
    dashes = [one for one in filled if not one[1].strip("-–— ") and not STATUS.fullmatch(one[0])]
    filled = [one for one in filled if one not in dashes] or dashes
    options = {title for title in titles if is_answer(title)}
    options = set() if all(map(is_side, options)) else options
    if len(options) > 1:
        marked = [title for title, cell in filled if kind_of(cell) == "present"]
        chosen = [title for title in marked if title in options]
        value = chosen[0] if len(chosen) == 1 else "n/a"
        filled = [("", value), *(one for one in filled if one[0] not in options)]
    elif any(kind_of(title) == "absent" for title in options):
        filled = [(title, denied(cell) if title in options else cell) for title, cell in filled]
    sided = not options and [f"{title} {name}: {cell}" for title, cell in filled if is_side(title)]
    if sided:
        return "\n".join(sided)
    main = [one for one in filled if STATUS.fullmatch(one[0]) or one[0] in options]
    main = (main or [one for one in filled if is_answer(one[1])] or filled)[:1]
    kinds = {kind_of(cell) for _, cell in filled}
    if not main:
        return f"{name}: n/a"
    title, value = main[0]
    unclear = (not title and any(titles)) or _DATED.fullmatch(title)
    if unclear and len(options) < 2 and {"absent", "present"} <= kinds:
        return f"{name}: n/a"
    more = [] if kind_of(value) in ("absent", "unknown") else filled
    return f"{name}: {', '.join([value, *(cell for one, cell in more if (one, cell) != main[0])])}"
