"""Log lines: an allow-list of fields, one line each, as text or as JSON."""

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Any, Literal

FIELDS = ("request_id", "method", "route", "status", "duration_ms", "request_bytes", "key_id")
"""What a line may hold besides its message; everything else is left out."""

OURS = ("cxrtext_api", "cxrtext", "uvicorn")
"""Loggers whose messages never quote what was sent."""


def _message(record: logging.LogRecord) -> str:
    """The message on one line; for other libraries, only where it was written."""
    if record.name.partition(".")[0] not in OURS:
        return f"a message of {record.name} ({record.module}:{record.lineno}), withheld"
    text = record.getMessage()
    if record.exc_info and record.exc_info[1] is not None:
        # An exception's own message may quote a file or a report.
        error = record.exc_info[1]
        frames = "".join(traceback.format_tb(error.__traceback__))
        text = f"{text.rstrip()} {type(error).__name__}\n{frames.rstrip()}"
    return text


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
        }
        line.update({name: getattr(record, name) for name in FIELDS if hasattr(record, name)})
        return json.dumps(line, ensure_ascii=True, default=str)


class TextFormatter(logging.Formatter):
    """One line for a person, with the further lines of a traceback indented."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        text = _message(record).replace("\r", " ").replace("\n", "\n    ")
        return f"{when} {record.levelname.lower()} {text}"


def configure_logging(kind: Literal["text", "json"] = "text") -> None:
    """Send this process's log to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if kind == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("cxrtext_api").setLevel(logging.INFO)
    # Warnings of libraries that read files quote what they read.
    logging.captureWarnings(True)
