"""The command ``cxrtext``."""

import sys
from importlib.util import find_spec


def start() -> None:
    """Run the command, or say how to install it where only the HTTP client is."""
    if any(find_spec(name) is None for name in ("typer", "torch")):
        sys.exit(
            "error: this installation has the HTTP client alone; run: pip install 'cxrtext[full]'"
        )
    from cxrtext_cli.main import main

    main()
