"""The command ``cxrtext``."""

import sys


def start() -> None:
    """Run the command; where a package that it needs was left out, say which."""
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
