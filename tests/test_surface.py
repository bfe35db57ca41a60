"""Packages import their public names when they are used, and not before."""

import subprocess
import sys
from importlib import import_module
from pydoc import plain, render_doc
from types import ModuleType

import pytest

import cxrtext

PACKAGES = ("evaluation", "index", "jobs", "language", "models", "project", "service", "training")


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_there(package: str) -> None:
    module = import_module(f"cxrtext.{package}")
    assert dir(module) == sorted(module.__all__)
    for name in module.__all__:
        assert not isinstance(getattr(module, name), ModuleType)
    with pytest.raises(AttributeError, match=f"module 'cxrtext.{package}' has no attribute 'x'"):
        _ = module.x


def test_packages_import_nothing_heavy_and_names_win_over_modules() -> None:
    code = (
        "import cxrtext, sys\nprint(*dir(cxrtext))\n"
        f"for one in {PACKAGES}: __import__(f'cxrtext.{{one}}')\n"
        "print(sorted({'torch', 'numpy', 'transformers'} & set(sys.modules)))\n"
        "import cxrtext.evaluation.evaluate\n"  # a module of the same name as a function
        "from cxrtext.evaluation import evaluate\n"
        "print(callable(evaluate))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    shown = " ".join(sorted(cxrtext.__all__))
    assert done.stdout.splitlines() == [shown, "[]", "True"], done.stderr


def test_help_tells_the_public_functions() -> None:
    functions = plain(render_doc(cxrtext)).split("FUNCTIONS")[1]
    for name in ("load_model", "load_service", "open", "open_index", "score_sentences"):
        assert f"\n    {name}(" in functions
