"""What the site has beside ``docs/*.md``, made as it is built (a hook of mkdocs).

Pages of commands and settings from the code, the pages of the repository's root, and a search that
needs no server.
"""

import json
import re
from os.path import normpath, relpath
from pathlib import Path
from posixpath import dirname, join
from typing import Annotated, Any, Literal, get_args, get_origin

import typer.main
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from cxrtext.config import Config, DataSection, TrainingSection, kinds_of, template
from cxrtext_cli.main import SECTIONS, app

ROOT = Path(__file__).parents[1]
PROJECT = {
    "ARCHITECTURE.md": "project/architecture.md",
    "DECISIONS.md": "project/decisions.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "SECURITY.md": "project/security.md",
    "benchmarks/README.md": "project/benchmarks.md",
    "docker/README.md": "project/docker.md",
}
"""Pages of the repository that stand outside ``docs``, by where the site has them."""
COMMANDS = """# Commands

`cxrtext COMMAND --help` shows the same. `cxrtext --debug COMMAND` prints the traceback of an error.
Exit codes: 0 done, 1 failed, 2 wrong input, 130 interrupted.
"""
SETTINGS = """# Settings

Every key of a training's configuration. `cxrtext train --init` writes a commented file.
`--set section.key=value` changes a key, `--set section.key=null` takes it away. Paths in the file
are relative to the file, paths in `--set` to the working folder. A key that nothing reads is
refused. [Training](training.md) and [Objectives](objectives.md) explain the choices.
"""
NAMES = {int: "integer", float: "number", str: "text", bool: "true, false", Path: "path"}
PLAIN = str.maketrans({"|": "/", "\n": " ", "*": "\\*"})
SIGNS = {"gt": ">", "ge": "≥", "lt": "<", "le": "≤"}


def _table(*rows: list[str]) -> str:
    plain = [[cell.translate(PLAIN) for cell in row] for row in rows]
    lines = (plain[0], ["---"] * len(plain[0]), *plain[1:])
    return "\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _command(command: Any, name: str, level: int) -> str:
    with command.make_context(name, [], resilient_parsing=True) as context:
        parameters = [one for one in command.get_params(context) if one.name != "help"]
        records = [one.get_help_record(context) for one in parameters]
    page = f"{'#' * level} {name}\n\n{(command.help or '').strip()}\n"
    if rows := [[f"`{record[0]}`", record[1]] for record in records if record]:
        page += _table(["argument or option", "meaning"], *rows)
    for part, child in getattr(command, "commands", {}).items():
        page += "\n" + _command(child, f"{name} {part}", level + 1)
    return page


def _type(given: Any) -> str:
    origin, inner = get_origin(given), [one for one in get_args(given) if one is not type(None)]
    if origin is Literal:
        return ", ".join(map(str, inner))
    if origin in (Annotated, tuple):
        return ("list of " if origin is tuple else "") + _type(inner[0])
    return NAMES.get(given) or ", ".join(dict.fromkeys(map(_type, inner))) or "kernel"


def _row(section: str, key: str, field: Any, said: str) -> list[str]:
    chosen, classes = kinds_of(section)
    kinds = classes if chosen == key else ()
    value = ", ".join(kinds) or _type(field.annotation)
    said = said.removeprefix(value).lstrip(": ")
    for one in field.metadata:
        value += "".join(f" {SIGNS[k]} {getattr(one, k)}" for k in SIGNS if hasattr(one, k))
    usual = Config.model_fields[section].get_default(call_default_factory=True)
    default = getattr(usual, key, field.default)
    shown = "" if default in (None, (), {}) else f"`{default}`"
    return [f"`{key}`", value, "required" if field.is_required() and not kinds else shown, said]


def generated() -> dict[str, str]:
    """The text of each generated page, by its place in the site."""
    root: Any = typer.main.get_command(app)
    pages, commands = dict[str, str](), COMMANDS
    for title, entries in SECTIONS.items():
        rows = []
        for name, (_, summary) in entries.items():
            pages[f"reference/commands/{name}.md"] = _command(
                root.commands[name], f"cxrtext {name}", 1
            )
            rows.append([f"[`{name}`](commands/{name}.md)", summary])
        commands += f"\n## {title}\n{_table(['command', 'does'], *rows)}"
    pages["reference/commands.md"], pages["reference/settings.md"] = commands, _settings()
    return pages


def _settings() -> str:
    lines = r"^(?:(\w+):(?: .*)?$|  (?:# )?(\w+): .*?(?:(?<=\s)# (.*))?$| {20,}# (.*)$)"
    said, section, key, settings = dict[str, str](), "", "", SETTINGS
    for head, name, text, more in re.findall(lines, template(), re.M):
        section, key = head or section, "" if head else name or key
        said[f"{section}.{key}"] = f"{said.get(f'{section}.{key}', '')} {text or more}".strip()
    classes = {"data": [DataSection], "training": [TrainingSection]}
    for part in ("data", "objective", "model", "training"):
        sorts = classes.get(part) or kinds_of(part)[1].values()
        fields = {key: field for one in sorts for key, field in one.model_fields.items()}
        rows = [_row(part, key, one, said.get(f"{part}.{key}", "")) for key, one in fields.items()]
        settings += f"\n## {part}\n{_table(['key', 'value', 'default', 'meaning'], *rows)}"
    return settings


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages, and those of the repository's root."""
    root = {there: (ROOT / here).read_text(encoding="utf-8") for here, there in PROJECT.items()}
    for place, text in (generated() | root).items():
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Turn links between ``docs`` and the repository's root into links of the site."""
    place = page.file.src_uri
    here = {there: here for here, there in PROJECT.items()}.get(place, f"docs/{place}")

    def link(match: re.Match[str]) -> str:
        text, target, anchor = match.group(1), match.group(2), match.group(3) or ""
        goal = normpath(join(dirname(here), target))
        there = PROJECT.get(goal) or (goal.startswith("docs/") and goal.removeprefix("docs/"))
        return f"[{text}]({relpath(there, dirname(place) or '.')}{anchor})" if there else text

    return re.sub(r"(?<!!)\[([^\]]*)\]\(([^)#:\s]+)(#[^)]*)?\)", link, markdown)


def on_post_build(config: MkDocsConfig) -> None:
    """Put lunr, the pages' text and ``search.js`` into one script."""
    search = Path(config.site_dir) / "search"
    pages = json.loads((search / "search_index.json").read_text(encoding="utf-8"))["docs"]
    parts = (
        (search / "lunr.js").read_text(encoding="utf-8"),
        f"var SEARCH_DOCS = {json.dumps(pages)};",
        (ROOT / "docs/search.js").read_text(encoding="utf-8"),
    )
    (search / "main.js").write_text("\n".join(parts), encoding="utf-8")
