"""The tables of a report for a paper and for other programs: each as CSV and as LaTeX.

In CSV a figure and its interval stand in three columns, ``AUC``, ``AUC low`` and ``AUC high``; in
LaTeX they stand in one cell, as on the page, and in wide tables the interval below its figure.
LaTeX wants the package ``booktabs``.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from io import StringIO
from pathlib import Path

from cxrtext.files import remove_file, write_sums, write_text
from cxrtext.files.digests import read_sums
from cxrtext.page import DENSE, EMPTY, Block, Cell, Columns, Estimated, Section, Table
from cxrtext.records.tables import csv_writer

TABLES = "tables"
"""The folder, beside a page, of its tables."""
LONGEST = 80
"""Characters of a file's name, without its ending."""
WIDEST = 70
"""Characters of the widest cells of all columns, beyond which intervals stand below figures."""
_GREEK = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau "
    "upsilon phi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega"
)
_LATEX = {
    "\\": r"\textbackslash{}",
    **{one: f"\\{one}" for one in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
    "|": r"$|$",
    "−": r"$-$",
    "–": "--",
    "—": "---",
    "…": r"\ldots{}",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "±": r"$\pm$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "≠": r"$\neq$",
    "→": r"$\rightarrow$",
    "√": r"$\surd$",
    "²": r"$^2$",
    "½": r"$\frac{1}{2}$",
    "∞": r"$\infty$",
    "≈": r"$\approx$",
    "′": r"$'$",
    "‑": "-",
    "↔": r"$\leftrightarrow$",
    "\u200b": "",
    "\u2003": r"\quad ",
    **{
        letter: rf"$\{name}$"
        for letter, name in zip("αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΦΨΩ", _GREEK.split(), strict=True)
    },
    **{letter: f"$_{place}$" for place, letter in enumerate("₀₁₂₃₄₅₆₇₈₉")},
}
"""What LaTeX would take for a command, or its fonts lack."""


def export_tables(folder: Path, sections: Iterable[Section]) -> list[Path]:
    """Write every table of a page as ``SECTION-CAPTION.csv`` and ``.tex``; returns the files.

    Tables in columns count too; of equal names the second ends in ``-2``.  What the folder's list
    of digests names, the tables of an earlier report, is removed first.
    """
    for name in _listed(folder):
        remove_file(folder / name)
    written: list[Path] = []
    met = Counter[str]()
    for section in sections:
        for table in _tables(section.blocks):
            words = re.findall(r"[^\W_]+", f"{section.title} {table.caption}".lower())
            stem = "-".join(words)[:LONGEST].rstrip("-")
            met[stem] += 1
            name = f"{stem}-{met[stem]}" if met[stem] > 1 else stem
            paths = [folder / f"{name}.csv", folder / f"{name}.tex"]
            write_text(paths[0], to_csv(table))
            write_text(paths[1], to_latex(table, name))
            written += paths
    write_sums(folder, [path.name for path in written])
    return written


def _listed(folder: Path) -> list[str]:
    """The files that an earlier export lists; none where the list is damaged."""
    try:
        return [name for name in read_sums(folder) or {} if name == Path(name).name]
    except ValueError:
        return []


def _tables(blocks: Iterable[Block]) -> Iterator[Table]:
    for block in blocks:
        if isinstance(block, Table):
            yield block
        elif isinstance(block, Columns):
            yield from _tables(block.blocks)


def _text(cell: str | Cell) -> str:
    return cell if isinstance(cell, str) else " ".join((cell.text, *cell.lines))


def to_csv(table: Table) -> str:
    """A table as CSV, numbers with an ASCII minus, and a dash as nothing."""
    header, *rows = [[_text(cell) for cell in row] for row in table.rows]
    wide = [
        any(isinstance(row[place], Estimated) for row in rows if place < len(row))
        for place in range(len(header))
    ]
    text = StringIO()
    write = csv_writer(text, "\n")
    ends = ("", *(f" {end}" for end in table.ends))
    names = [
        [name + end for end in ends] if w else [name] for name, w in zip(header, wide, strict=True)
    ]
    write(name for some in names for name in some)
    for row in rows:
        cells = [_numbers(cell) if w else (cell,) for cell, w in zip(row, wide, strict=True)]
        write(_value(cell) for some in cells for cell in some)
    return text.getvalue()


def _numbers(cell: str) -> tuple[str, ...]:
    """A figure and the ends of its interval; the ends are empty where it has none."""
    return cell.numbers if isinstance(cell, Estimated) else (cell, "", "")


def _value(cell: str) -> str:
    found = cell.strip().replace("−", "-").replace("∞", "inf")
    count = found.replace(",", "")
    if count.isdecimal() and found == f"{int(count):,}":
        return count
    try:
        float(found)
    except ValueError:
        return "" if cell == EMPTY else cell.strip()
    return found


def to_latex(table: Table, label: str) -> str:
    """A table as a floating LaTeX table, with rules of ``booktabs``."""
    header, *rows = [[_text(cell) for cell in row] for row in table.rows]
    if table.words:
        width = f"{0.9 / len(header):.2f}"
        columns = f"p{{{width}\\linewidth}}" * len(header)
    else:
        columns = "l" + "r" * (len(header) - 1)
    widths = (max(map(len, cells)) + 2 for cells in zip(header, *rows, strict=True))
    wide = not table.words and sum(widths) > WIDEST
    small = [r"\footnotesize"] if table.words or len(header) >= DENSE else []
    lines = [
        r"% wants \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        *([r"\scriptsize", r"\setlength{\tabcolsep}{3pt}"] if wide else small),
        *([rf"\caption{{{latex_text(table.caption)}}}"] if table.caption else []),
        rf"\label{{tab:{label}}}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        _latex_row(header),
        r"\midrule",
        *_latex_rows(rows, table.strong, wide=wide),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _latex_rows(
    rows: Sequence[Sequence[str]], strong: Collection[int], *, wide: bool
) -> Iterator[str]:
    """The rows below the header; of a wide table each with its intervals below."""
    for place, row in enumerate(rows, 1):
        parts = [_numbers(cell) if wide else (cell, "", "") for cell in row]
        yield _latex_row([value for value, _, _ in parts], place in strong)
        if any(low for _, low, _ in parts):
            ends = [latex_text(f"[{low}, {high}]") if low else "" for _, low, high in parts]
            yield " & ".join(rf"{{\tiny {end}}}" if end else "" for end in ends) + r" \\"


def _latex_row(row: Sequence[str], strong: bool = False) -> str:
    cells = [latex_text(cell) for cell in row]
    if strong:
        cells = [rf"\textbf{{{cell}}}" for cell in cells]
    # After a rule and at the end of a row LaTeX takes "[" and "*" for an option.
    if cells[0].startswith(("[", "*")):
        cells[0] = f"{{{cells[0]}}}"
    return " & ".join(cells) + r" \\"


def latex_text(text: str) -> str:
    """A text without anything that LaTeX would take for a command."""
    one_line = " ".join(text.replace("\u2003", "\ue000").split()).replace("\ue000", "\u2003")
    return "".join(_LATEX.get(letter, letter) for letter in one_line)
