"""The border rests on nothing inside the product."""

import ast
from pathlib import Path

HERE = Path(__file__).parent
ALLOWED = {
    "cxrtext", "cxrtext.objectives", "cxrtext.client", "cxrtext_cli",
    "tests.border.conftest", "tests.commands", "tests.conftest", "tests.datasets",
    "tests.datasets.written", "tests.waiting", "tests.warm", "tests.small_backbones",
    "tests.border.test_border_project",
}  # fmt: skip
BESIDE = (
    "commands.py", "waiting.py", "warm.py", "datasets/public_sets.py", "datasets/written.py",
    "small_backbones.py",
)  # fmt: skip


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom):
            found.add(node.module or ".")
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name for name in found if name.split(".")[0] in ("cxrtext", "cxrtext_cli", "tests",
                                                             "cxrtext_api", ".")}  # fmt: skip


def test_the_border_imports_public_names_alone() -> None:
    paths = [*HERE.glob("*.py"), *(HERE.parent / name for name in BESIDE)]
    assert len(paths) > 10
    for path in paths:
        assert imported(path) <= ALLOWED, path.name
