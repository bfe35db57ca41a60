"""What is installed: the wheel's files, and the command where a package was left out."""

import subprocess
import sys
from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[1]
PACKAGES = ("cxrtext", "cli/cxrtext_cli", "api/cxrtext_api")


def test_the_wheel_has_every_file_of_the_packages() -> None:
    known = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *PACKAGES],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    wanted = {
        name.removeprefix("cli/").removeprefix("api/") for name in known if (ROOT / name).is_file()
    }
    assert len(wanted) > 100
    built = WheelBuilder(str(ROOT)).recurse_included_files()
    assert {file.distribution_path for file in built} == wanted
    opened_at_run_time = {
        "cxrtext/configs/cxrtext.yaml",
        "cxrtext/configs/ssd-mimic-cxr.yaml",
        "cxrtext/images/frontal/weights.npz",
        "cxrtext/page.html.j2",
        "cxrtext/py.typed",
        "cxrtext_api/web/index.html",
    }
    assert opened_at_run_time <= wanted


def test_a_command_without_its_packages_names_one() -> None:
    code = (
        "import sys; sys.modules['typer'] = None\n"
        "sys.argv = ['cxrtext', '--version']\n"
        "from cxrtext_cli import start; start()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "error: the package 'typer' is not installed; install cxrtext again without --no-deps\n"
    )
