"""Into and out of the PACS: what a hospital sends is received, and results go back.

The packages of ``cxrtext[pacs]`` are imported where they are used, after `need` has looked.
"""

from importlib.util import find_spec

from cxrtext.errors import UnavailableError


def need(*packages: str) -> None:
    """Say how to install the packages that hospital systems need, where one lacks."""
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise UnavailableError(
            f"{', '.join(missing)} is not installed; run: pip install 'cxrtext[pacs]'"
        )
