"""``cxrtext demo``: ``phantom`` and ``fit``, then the page."""

from pathlib import Path
from typing import Annotated

import typer

from cxrtext_cli.fitting.fit import Fit, claim
from cxrtext_cli.given import NEW_FOLDER
from cxrtext_cli.options import say

STUDIES, SIZE = 2500, 144


def demo(
    out: Annotated[
        Path, typer.Option(help="Project to write; a stopped demo goes on in it."), NEW_FOLDER
    ] = Path("demo"),
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the page; 0 takes any free one.")
    ] = 0,
) -> None:
    """Run everything on drawn radiographs, about 5 minutes on two cores, then serve the page.

    Draws images with reports, and does with them what `cxrtext fit` does with an archive. Stop it
    at any time; the same command goes on where it was. Nothing is written outside of the folder.
    """
    make(out)
    from cxrtext_cli.commands.server.service import serve

    say("serving the page and the API; stop with Ctrl-C")
    serve([out], port=port)


def make(out: Path) -> None:
    """Draw what is not drawn yet, and do what `cxrtext fit` has not done."""
    from cxrtext.project.layout import DATA
    from cxrtext.project.recipe import Source
    from cxrtext_cli.commands.data.phantom import phantom

    data = out / DATA
    claim(out, data)
    if not (data / "truth.csv").is_file():
        phantom(data, studies=STUDIES, size=SIZE)
    Fit(out, Source(archive=str(data.absolute())), curve=False).run()
