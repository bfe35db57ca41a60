"""YAML that people write, read with where and why it cannot be."""

from typing import Any

import yaml


def parse_yaml(text: str | bytes) -> Any:
    """What a text in YAML says (ValueError: the line and the reason that it cannot be read)."""
    try:
        return yaml.safe_load(text.decode("utf-8") if isinstance(text, bytes) else text)
    except UnicodeDecodeError:
        raise ValueError("not UTF-8 text") from None
    except RecursionError:
        raise ValueError("not readable YAML: nested too deeply") from None
    except (yaml.YAMLError, ValueError) as error:  # such as of a day that is none
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        why = getattr(error, "problem", None) or getattr(error, "reason", None) or error
        raise ValueError(f"{where}not readable YAML: {why}") from None
