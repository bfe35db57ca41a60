"""Commands and options that no longer exist, and what to use instead."""

from functools import cache
from pathlib import Path
from typing import Any

import typer.core

from cxrtext.errors import InputError


@cache
def gone() -> dict[str, str]:
    """What replaced a command or an option, by its name as typed after ``cxrtext``."""
    lines = Path(__file__).with_suffix(".txt").read_text("utf-8").splitlines()
    return dict(line.split(": ", 1) for line in lines)


class Commands(typer.core.TyperGroup):
    """A group of commands that says what replaced the ones it no longer has."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        below = [ctx.info_name] if ctx.parent else []
        first = 1 if args and args[0] in self.commands else 0
        for words in (args[:2], args[:1])[: 2 - first]:  # a group may be gone with its commands
            name = " ".join([*below, *words])
            if words[first:] and name in gone():
                raise InputError(f"'cxrtext {name}' {gone()[name]}")
        return super().resolve_command(ctx, args)
