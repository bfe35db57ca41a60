"""The commands of the README and of the guides run as they stand, from an empty folder."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import read_csv

ROOT = Path(__file__).parents[1]
EFFUSION = "Pleural Effusion"
PAGES: list[str | Path] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
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
    "name", ["backbones", "service", "labels", "evidence", "cluster", "backup-and-forget"]
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


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        file = ROOT / page
        text = re.sub(r"```.*?```", "", file.read_text(encoding="utf-8"), flags=re.S)
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", text):
            path = (file.parent / target).resolve()
            assert path in GENERATED or path.exists(), f"{file}: {target}"
