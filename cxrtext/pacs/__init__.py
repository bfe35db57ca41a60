"""Into and out of the PACS: receive what a hospital sends, and send results back.

The packages of ``cxrtext[pacs]`` are imported where they are used, after a call of `need`.
"""

from importlib.util import find_spec

from cxrtext.errors import UnavailableError


def need(*packages: str) -> None:
    """Say how to install the packages for hospital systems if one is missing."""
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise UnavailableError(
            f"{', '.join(missing)} is not installed; run: pip install 'cxrtext[pacs]'"
        )
