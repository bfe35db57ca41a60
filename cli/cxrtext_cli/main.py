"""The command ``cxrtext``: its commands, and errors turned into exit codes in one place."""

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Annotated

import typer

from cxrtext import __version__
from cxrtext.errors import CxrTextError
from cxrtext_cli.commands.backup import backup, restore
from cxrtext_cli.commands.benchmark import benchmark
from cxrtext_cli.commands.check_data import check_data
from cxrtext_cli.commands.check_files import check_files
from cxrtext_cli.commands.classify import classify
from cxrtext_cli.commands.encode import encode
from cxrtext_cli.commands.evaluate import evaluate
from cxrtext_cli.commands.experiment import experiment
from cxrtext_cli.commands.forget import forget
from cxrtext_cli.commands.ground import ground
from cxrtext_cli.commands.import_data import import_data
from cxrtext_cli.commands.index import index
from cxrtext_cli.commands.job import job
from cxrtext_cli.commands.keys import keys
from cxrtext_cli.commands.pacs.follow import follow
from cxrtext_cli.commands.pacs.inbox import inbox
from cxrtext_cli.commands.pacs.listen import hl7, listen
from cxrtext_cli.commands.pacs.peers import peers
from cxrtext_cli.commands.pacs.pull import pull
from cxrtext_cli.commands.pacs.results import results
from cxrtext_cli.commands.phantom import phantom
from cxrtext_cli.commands.pretrain_image import pretrain_image
from cxrtext_cli.commands.pretrain_text import pretrain_text
from cxrtext_cli.commands.probe import probe
from cxrtext_cli.commands.score_text import score_text
from cxrtext_cli.commands.search import search
from cxrtext_cli.commands.serve import serve
from cxrtext_cli.commands.train import train
from cxrtext_cli.commands.verify import verify
from cxrtext_cli.given import checked

# How OpenMP threads wait for each other: asleep, not spinning. On a machine that does other work
# too, spinning was measured to slow small networks down thirtyfold; on an idle one it gains little.
THREADS = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0"}

STOPPED = 130
"""Exit code of a command that was interrupted."""

app = typer.Typer(
    name="cxrtext",
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Search, label and ground chest X-rays in plain language. "
    "Research use only; not a medical device.",
)
COMMANDS: dict[Callable[..., None], str] = {
    phantom: "Draw an embedded data set: radiographs, reports, labels.",
    import_data: "Turn DICOM files or a public set into a data folder.",
    pull: "Fetch the chest radiographs of a PACS.",
    follow: "Take in what is new, corrected or gone in a PACS.",
    check_data: "Look for what is wrong with a data set.",
    pretrain_text: "Train a language model on a corpus of reports.",
    pretrain_image: "Train an image encoder to start a training from.",
    score_text: "Split reports into sentences; score their likelihood.",
    encode: "Compute a backbone's features of images once.",
    probe: "Measure what a backbone's features hold of findings.",
    train: "Train an image-text model.",
    evaluate: "Measure a checkpoint: zero-shot labels, retrieval.",
    benchmark: "Measure a checkpoint on a public set by a frozen recipe.",
    search: "Find images by a sentence or an image.",
    classify: "Zero-shot probabilities of findings.",
    ground: "Show where an image supports a sentence.",
    verify: "How well an image supports its report's sentences.",
    listen: "Take DICOM objects by C-STORE, into the index.",
    serve: "Serve the REST API and the page.",
    forget: "Take a patient or a study out of every place.",
    backup: "Copy an index with its uploads, model and keys.",
    restore: "Make an index of a backup.",
    check_files: "Compare files with the digests they were written with.",
    experiment: "Run a paper's experiment, its table beside the paper's.",
}
"""The commands, in the order of the work, and what each does."""

NAMES = {import_data: "import"}
"""Names that are no names of functions in Python."""

for function, summary in COMMANDS.items():
    name = NAMES.get(function, function.__name__.replace("_", "-"))
    app.command(name, short_help=summary)(checked(function))
app.add_typer(index, name="index", short_help="Embed and index an archive for search.")
app.add_typer(job, name="job", short_help="Embed, score or decode an archive in shards.")
app.add_typer(results, name="results", short_help="Write results as DICOM, send and revoke them.")
app.add_typer(keys, name="keys", short_help="Make, list and revoke a server's API keys.")
app.add_typer(inbox, name="inbox", short_help="What was received, on its way into the index.")
app.add_typer(hl7, name="hl7", short_help="Take reports over HL7 v2 (MLLP).")
app.add_typer(peers, name="peers", short_help="Hospital systems: look at what fails.")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cxrtext {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[  # noqa: ARG001 - its callback does the work
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    if debug:
        os.environ["CXRTEXT_DEBUG"] = "1"


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> None:
    """Run the command line and exit: 0 done, 1 failed, 2 wrong input, 130 interrupted."""
    for name, value in THREADS.items():
        os.environ.setdefault(name, value)  # read when torch is first imported
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        app(standalone_mode=True)
    except CxrTextError as error:
        if os.environ.get("CXRTEXT_DEBUG"):
            raise
        typer.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    except SystemExit as end:
        # typer makes this of an interrupt.
        if end.code == STOPPED:
            typer.echo("stopped; run the same command again to resume", err=True)
        raise
    except BrokenPipeError:
        # The reader of our output went away, as `head` does.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        if os.environ.get("CXRTEXT_DEBUG"):
            raise
        where = f"{error.filename}: " if error.filename else ""
        typer.echo(f"error: {where}{error.strerror or error}", err=True)
        sys.exit(1)
