"""The command ``cxrtext``."""

import sys

from cxrtext.memory import keep_memory

SERVERS = "serve", "gateway", "demo"
"""Commands that keep running; the others compute and end."""


def start() -> None:
    """Run the command; if a package that it needs is missing, say which."""
    if not any(name in sys.argv[1:2] for name in SERVERS):
        keep_memory()
    try:
        from cxrtext_cli.main import main

        main()
    except ModuleNotFoundError as error:
        if (error.name or "cxrtext").startswith("cxrtext"):
            raise
        sys.exit(
            f"error: the package '{error.name}' is not installed; install cxrtext again without "
            "--no-deps"
        )
