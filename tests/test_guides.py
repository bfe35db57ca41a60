"""The commands of the README and of the guides run as they stand, from an empty folder."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROMPTS = """Pleural Effusion:
  positive: ["Left pleural effusion.", "Right pleural effusion."]
  negative: ["No pleural effusion."]
"""
PAGES = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Made of the code when the site is built (docs/generate.py).
GENERATED = {ROOT / "docs/reference" / name for name in ("commands.md", "settings.md")}


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
    data = archive / "data"
    for made in ("check.html", "sentences.csv", "evaluation/report.html", "index/index.json"):
        assert (data / made).stat().st_size > 0
    found = run('cxrtext search index "Left pleural effusion." -k 3 --json', data)
    assert found.count('"score"') == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["backbones", "service", "labels", "evidence", "cluster", "backup-and-forget"]
)
def test_a_guide_runs_after_the_readme(name: str, archive: Path) -> None:
    data = archive / "data"
    (data / "prompts.yaml").write_text(PROMPTS)
    scripts = commands(ROOT / f"docs/guides/{name}.md")
    assert scripts
    for script in scripts:
        run(script, data)


@pytest.mark.slow
def test_the_guide_of_an_own_archive_runs(tmp_path: Path) -> None:
    run("\n".join(commands(ROOT / "docs/guides/own-archive.md")), tmp_path)


def test_the_guide_of_an_own_archive_trains_as_the_readme_does() -> None:
    """So that one of the two is not forgotten."""
    texts = ((ROOT / page).read_text() for page in ("README.md", "docs/guides/own-archive.md"))
    readme, guide = (re.findall(r"--set (\S+=\S+)", text) for text in texts)
    assert readme == guide


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str | Path) -> None:
    file = ROOT / page
    text = re.sub(r"```.*?```", "", file.read_text(encoding="utf-8"), flags=re.S)
    for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", text):
        path = (file.parent / target).resolve()
        assert path in GENERATED or path.exists(), f"{file}: {target}"
