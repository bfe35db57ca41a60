"""What the documentation says to type: options are there, examples run as they stand."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from cxrtext_cli.main import app
from tests.conftest import read_csv

ROOT = Path(__file__).parents[1]
EFFUSION = "Pleural Effusion"
PAGES = [
    *sorted(ROOT.glob("*.md")),
    ROOT / "docker/README.md",
    ROOT / "benchmarks/README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
COMMANDS: Any = typer.main.get_command(app)
# Made of the code when the site is built (docs/generate.py).
GENERATED = {
    ROOT / "docs/reference/settings.md",
    ROOT / "docs/reference/commands.md",
    *(ROOT / f"docs/reference/commands/{name}.md" for name in COMMANDS.commands),
}


def commands(page: Path) -> list[str]:
    """The blocks marked ``sh``; what wants a GPU, a model hub or a server is not marked so."""
    return re.findall(r"^```sh\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)


def run(script: str, folder: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{script}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("readme")
    [script] = commands(ROOT / "README.md")
    run(script, folder)
    return folder


@pytest.mark.slow
def test_the_readme_makes_an_archive_that_can_be_searched(archive: Path) -> None:
    project = archive / "project"
    for made in ("check.html", "sentences.csv", "evaluation/report.html", "index/index.json"):
        assert (project / made).stat().st_size > 0
    found = json.loads(run('cxrtext search project "Pleural effusion." -k 20 --json', archive))
    effusions = {
        r["study_id"] for r in read_csv(archive / "archive/labels.csv") if r[EFFUSION] == "1"
    }
    assert sum(Path(hit["image"]).stem in effusions for hit in found) > 10  # a fifth have one


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["models-of-others", "service", "search-and-label", "evaluate", "cluster", "backup-and-forget"],
)
def test_a_guide_runs_after_the_readme(name: str, archive: Path) -> None:
    scripts = commands(ROOT / f"docs/guides/{name}.md")
    assert scripts
    for script in scripts:
        run(script, archive / "project")


def test_the_guide_of_an_own_archive_begins_as_the_readme_does() -> None:
    """So that one of the two is not forgotten, and each of its commands has run."""
    [readme], [guide] = (
        commands(ROOT / page) for page in ("README.md", "docs/guides/own-archive.md")
    )
    assert all(line.removesuffix(" --plan") in readme for line in guide.splitlines())


def lines_of(page: Path) -> Iterator[list[str]]:
    """The words after ``cxrtext`` of each command line, in blocks and in running text."""
    text = page.read_text(encoding="utf-8")
    fenced = re.findall(r"^ *```(\w*)\n(.*?)^ *```", text, re.M | re.S)
    blocks = [block for language, block in fenced if language in {"", "sh", "bash"}]
    for line in "\n".join(blocks).replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True) if "cxrtext " in line else []
        for place, word in enumerate(words):
            before = words[place - 1] if place else "$"
            if word == "cxrtext" and re.fullmatch(r"\$|\||&&|.*;|\w+=.*", before):
                yield words[place + 1 :]
    prose = re.sub(r"^ *```.*?^ *```", "", text, flags=re.M | re.S)
    for code in re.findall(r"`([^`]+)`", prose):
        words = code.split()
        if words[0] == "cxrtext":
            yield words[1:]
        elif words[0] in COMMANDS.commands and "--" in code:
            yield words


def unknown(words: list[str]) -> str | None:
    """The command or option of a command line that is not there."""
    command, options = COMMANDS, {"--help"}
    for word in words:
        if word in {"|", "&&", ">", "<"}:
            break
        children = getattr(command, "commands", {})
        if children and not word.startswith("-"):
            if word.isupper() or word not in children:
                return None if word.isupper() else word
            command = children[word]
        if word.startswith("-") and word.strip("-"):
            options |= {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
            if (name := word.rstrip(",.;:").split("=")[0]) not in options and name[1:2].isalpha():
                return word
            if name.startswith("--") and name not in options:
                return word
    return None


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.name != "CHANGELOG.md"],  # which names what is gone
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_every_command_line_has_a_command_and_options_that_are_there(page: Path) -> None:
    wrong = [(words, word) for words in lines_of(page) if (word := unknown(words))]
    assert not wrong


def test_a_wrong_command_line_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```\nA=1 cxrtext fit x --plam   # y\necho | cxrtext index bild\n```\n"
        "See `cxrtext search x --kk 3`, `serve --prot 1` and `cxrtext COMMAND`.\n"
    )
    assert [unknown(words) for words in lines_of(page)] == [
        "--plam",
        "bild",
        "--kk",
        "--prot",
        None,
    ]
    assert len([words for page in PAGES for words in lines_of(page)]) > 100


def test_the_examples_of_the_page_of_python_run(
    project_folder: Path, data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project").symlink_to(project_folder)
    shutil.copy(data_folder / "images/s01.png", tmp_path / "chest.png")
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs/python.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    for program in re.findall(r"^```python\n(.*?)^```", text, re.M | re.S):
        exec(program, names)  # noqa: S102 - ours
    assert names["vectors"].shape[0] == len(names["hits"]) == 10
    assert (tmp_path / "map.png").stat().st_size > 0
    assert names["rows"].table().column_names == ["image", "Effusion"]
    names["project"].close()


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", text):
            path = (page.parent / target).resolve()
            assert path in GENERATED or path.exists(), f"{page}: {target}"


def test_the_site_has_every_page_and_a_search_that_asks_no_server(tmp_path: Path) -> None:
    """Built as ``make docs`` does: a link or an anchor that leads nowhere is an error."""
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True)
    for name in COMMANDS.commands:
        assert f"cxrtext {name}" in (tmp_path / f"reference/commands/{name}.html").read_text()
    assert "How it works" in (tmp_path / "project/decisions.html").read_text()  # its navigation
    search = (tmp_path / "search/main.js").read_text()
    assert "SEARCH_DOCS" in search
    assert "Worker(" not in search
    assert "XMLHttpRequest" not in search
