"""The class probability of sentences: fitted, measured by statistics, drawn."""

from pathlib import Path

from cxrtext.errors import ConfigError

ENDINGS = (".png", ".svg", ".pdf")


def check_target(path: Path) -> None:
    """Raise a ConfigError for a figure of another ending; imports nothing heavy."""
    if path.suffix.lower() not in ENDINGS:
        raise ConfigError(f"{path}: the figure ends in .png, .svg or .pdf")
