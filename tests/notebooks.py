"""Runs the notebooks of ``examples`` and keeps what their cells show.

``python -m tests.notebooks PROJECT`` writes the outputs anew, of a project such as the demo's.
"""

import ast
import json
import os
import sys
from base64 import b64encode
from contextlib import redirect_stdout
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[1] / "examples"
Output = dict[str, Any]


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def _shown(value: object) -> dict[str, Any]:
    """A value by MIME type, as Jupyter shows it."""
    data: dict[str, Any] = {"text/plain": _lines(repr(value))}
    if hasattr(value, "_repr_html_"):
        data["text/html"] = _lines(value._repr_html_())
    png = value._repr_png_() if hasattr(value, "_repr_png_") else None
    if hasattr(value, "get_figure"):  # axes of matplotlib
        value.get_figure().savefig(picture := BytesIO(), format="png", dpi=60, bbox_inches="tight")
        png, data = picture.getvalue(), {"text/plain": ["<Axes>"]}
    if png:
        data["image/png"] = b64encode(png).decode()
    return data


def run_cell(source: str, names: dict[str, Any], number: int) -> list[Output]:
    """Run a cell's statements; give what it prints and the value of its last expression."""
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    outputs: list[Output] = []
    with redirect_stdout(StringIO()) as printed:
        exec(compile(ast.Module(body, []), "cell", "exec"), names)  # noqa: S102 - ours
        value = None
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # noqa: S307
    if text := printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": _lines(text)})
    if value is not None:
        outputs.append(
            {
                "data": _shown(value),
                "execution_count": number,
                "metadata": {},
                "output_type": "execute_result",
            }
        )
    return outputs


def run_notebook(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """A notebook with new outputs, and the names that its cells left."""
    book = json.loads(path.read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    code = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(code, 1):
        cell["execution_count"] = number
        cell["outputs"] = run_cell("".join(cell["source"]), names, number)
    return book, names


if __name__ == "__main__":
    import matplotlib as mpl

    mpl.use("Agg")
    os.environ["CXRTEXT_PROJECT"] = sys.argv[1]
    for notebook in sorted(EXAMPLES.glob("*.ipynb")):
        made, left = run_notebook(notebook)
        left["project"].close()
        notebook.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", "utf-8")
