"""Tables of a report as CSV and LaTeX."""

import csv
import re
from pathlib import Path

from cxrtext.evaluation.report.export import export_tables, latex_text, to_csv, to_latex
from cxrtext.page import Cell, Columns, Estimated, Section, Table, Text

TABLE = Table(
    [
        ["finding", "AUC", "with", "note"],
        ["Edema_1 & 50 %", Estimated("0.979", "0.961", "0.992"), "60", "−0.25"],
        ["[rare] {η} \\input", "–", "0", "=1+1"],
        ["mean", "0.950", "", "≥ 99"],
        ["ratio", Estimated("9.10", "3.20", "∞"), "1", "−∞"],
    ],
    "Table 3: AUC",
    frozenset({3}),
)


def read_back(latex: str) -> list[list[str]]:
    """The cells of a tabular, as a reader of LaTeX would part them; fails where it could not."""
    body = re.search(r"\\toprule\n(.*)\\bottomrule", latex, re.S)
    assert body
    rows = []
    for line in body[1].splitlines():
        if line == r"\midrule":
            continue
        assert line.endswith(r" \\")
        assert not re.match(r"\s*[\[*]", line), "LaTeX would take it for an option"
        cells = re.split(r"(?<!\\) & ", line.removesuffix(r" \\"))
        for cell in cells:
            plain = re.sub(r"\\[&%$#_{}]", "", cell)
            assert plain.count("{") == plain.count("}")
            assert plain.count("$") % 2 == 0
            assert not set(plain) & set("&%#_~^"), cell
        rows.append(cells)
    return rows


def test_csv_has_figures_that_can_be_computed_with() -> None:
    rows = list(csv.reader(to_csv(TABLE).splitlines()))
    assert rows == [
        ["finding", "AUC", "AUC low", "AUC high", "with", "note"],
        ["Edema_1 & 50 %", "0.979", "0.961", "0.992", "60", "-0.25"],
        ["[rare] {η} \\input", "", "", "", "0", "'=1+1"],
        ["mean", "0.950", "", "", "", "≥ 99"],
        ["ratio", "9.10", "3.20", "inf", "1", "-inf"],
    ]


def test_latex_is_escaped_and_whole() -> None:
    latex = to_latex(TABLE, "x-1")
    rows = read_back(latex)
    assert [len(row) for row in rows] == [4] * 5
    assert rows[0] == ["finding", "AUC", "with", "note"]
    assert rows[1] == [r"Edema\_1 \& 50 \%", "0.979 [0.961, 0.992]", "60", "$-$0.25"]
    assert rows[2][0] == r"{[rare] \{$\eta$\} \textbackslash{}input}"
    assert rows[3] == [r"\textbf{mean}", r"\textbf{0.950}", r"\textbf{}", r"\textbf{$\geq$ 99}"]
    assert rows[4][1] == r"9.10 [3.20, $\infty$]"
    assert r"\begin{tabular}{lrrr}" in latex
    assert r"\caption{Table 3: AUC}" in latex
    assert r"\label{tab:x-1}" in latex
    assert latex_text("a\nb ^~#$") == r"a b \textasciicircum{}\textasciitilde{}\#\$"


def test_every_table_has_its_file_and_old_ones_go(tmp_path: Path) -> None:
    other = Table([["a", "b"], [Cell("1", ("line",)), "2"]])
    sections = [
        Section("Zero-shot classification", [Text("x"), TABLE, other, other]),
        Section("Groups / sides", [Columns([other])]),
    ]
    (tmp_path / "mine.csv").write_text("kept")
    stems = (
        "groups-sides",
        "zero-shot-classification",
        "zero-shot-classification-2",
        "zero-shot-classification-table-3-auc",
    )
    names = {f"{stem}.{ending}" for stem in stems for ending in ("csv", "tex")}
    assert {path.name for path in export_tables(tmp_path, sections)} == names
    assert (tmp_path / "groups-sides.csv").read_text() == "a,b\n1 line,2\n"
    export_tables(tmp_path, sections[1:])
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"mine.csv", "groups-sides.csv", "groups-sides.tex", "SHA256SUMS"}


def test_a_name_in_brackets_is_no_interval_and_counts_are_numbers() -> None:
    rows = [["finding", "images"], ["Mass [left, right]", "1,234"], ["Mass", "12,345,678"]]
    found = list(csv.reader(to_csv(Table(rows)).splitlines()))
    assert found == [["finding", "images"], ["Mass [left, right]", "1234"], ["Mass", "12345678"]]


def test_a_wide_latex_table_has_its_intervals_below() -> None:
    header = ["finding", *(f"measure {number}" for number in range(6))]
    row = ["[Mass] of a side", *[Estimated("0.979", "−0.961", "1.992")] * 5, "too few (3 with)"]
    latex = to_latex(Table([header, row], strong=frozenset({1})), "wide")
    _, figures, ends = read_back(latex)
    assert figures[1:] == [r"\textbf{0.979}"] * 5 + [r"\textbf{too few (3 with)}"]
    assert ends == ["", *[r"{\tiny [$-$0.961, 1.992]}"] * 5, ""]
    narrow = to_latex(Table([header[:3], row[:3]]), "narrow")
    assert "0.979 [$-$0.961, 1.992]" in narrow


def test_letters_that_findings_have() -> None:
    assert latex_text("β-blocker, 5 μm, SpO₂, 3′") == r"$\beta$-blocker, 5 $\mu$m, SpO$_2$, 3$'$"
    assert latex_text("Größe naïve ½") == r"Größe naïve $\frac{1}{2}$"
