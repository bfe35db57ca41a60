"""Search, label and ground chest X-rays in plain language.

The names below are the public API; each is imported when first used, so that ``import cxrtext`` is
quick.
"""

import typing as _typing

if _typing.TYPE_CHECKING:
    from cxrtext import objectives
    from cxrtext.index import open_index
    from cxrtext.language import score_sentences
    from cxrtext.models import load_model
    from cxrtext.project import fit, open, train
    from cxrtext.service import load_service

__version__ = "0.1.0"

_HOMES = {
    "fit": "cxrtext.project",
    "load_model": "cxrtext.models",
    "load_service": "cxrtext.service",
    "open": "cxrtext.project",
    "open_index": "cxrtext.index",
    "score_sentences": "cxrtext.language",
    "train": "cxrtext.project",
}

__all__ = [
    "__version__",
    "fit",
    "load_model",
    "load_service",
    "objectives",
    "open",
    "open_index",
    "score_sentences",
    "train",
]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "objectives":
        return import_module("cxrtext.objectives")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'cxrtext' has no attribute '{name}'")
