"""Packages that import their public names when these are first used.

A command that refuses a wrong path needs one small module of a package, not torch, which the others
import.
"""

import ast
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any


class _Surface(ModuleType):
    """A package that knows which modules define its names."""

    _homes: dict[str, str]

    def __getattr__(self, name: str) -> Any:
        home = self.__dict__["_homes"].get(name)
        if home is None:
            raise AttributeError(f"module '{self.__name__}' has no attribute '{name}'")
        value = getattr(import_module(home), name)
        self.__dict__[name] = value
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        # Python sets each imported submodule as an attribute; if a public name is spelled like a
        # submodule, such as evaluation.compare, the public name wins.
        if not (isinstance(value, ModuleType) and name in self.__dict__["_homes"]):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted(self.__dict__.get("__all__", self.__dict__))


def import_on_use(package: str) -> None:
    """Let a package import its public names when they are first used.

    The names and their modules are read from the package's own ``if TYPE_CHECKING:`` block, which
    type checkers read too, so that they are written only once.
    """
    module = sys.modules[package]
    assert module.__file__ is not None  # noqa: S101 - a package of files
    homes = {}
    for node in ast.parse(Path(module.__file__).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for line in node.body:
                if isinstance(line, ast.ImportFrom) and line.module is not None:
                    homes.update({alias.name: line.module for alias in line.names})
    module.__dict__["_homes"] = homes
    module.__class__ = _Surface
