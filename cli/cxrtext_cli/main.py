"""The command line: the list of commands."""

import os
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import typer

from cxrtext import __version__
from cxrtext.errors import InputError
from cxrtext_cli.commands.archive.classify import classify
from cxrtext_cli.commands.archive.index import index
from cxrtext_cli.commands.archive.search import search
from cxrtext_cli.commands.archive.support import ground, verify
from cxrtext_cli.commands.data.check import check_data, check_files
from cxrtext_cli.commands.data.forget import forget
from cxrtext_cli.commands.data.import_data import import_data
from cxrtext_cli.commands.data.label_reports import label_reports
from cxrtext_cli.commands.data.phantom import phantom
from cxrtext_cli.commands.fit import demo, fit
from cxrtext_cli.commands.models.calibrate import calibrate
from cxrtext_cli.commands.models.compare import compare
from cxrtext_cli.commands.models.encoders import encoders
from cxrtext_cli.commands.models.evaluate import evaluate
from cxrtext_cli.commands.models.features import encode
from cxrtext_cli.commands.models.papers import experiment
from cxrtext_cli.commands.models.pretrain import pretrain_image, pretrain_text
from cxrtext_cli.commands.models.score_text import score_text
from cxrtext_cli.commands.models.train import train
from cxrtext_cli.commands.pacs.gateway import gateway
from cxrtext_cli.commands.server.backup import backup, restore
from cxrtext_cli.commands.server.service import keys, serve
from cxrtext_cli.ending import ending
from cxrtext_cli.given import checked
from cxrtext_cli.gone import Commands, gone


class _Sections(Commands):
    """Shows the commands in sections, and explains options that do not exist."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command; say so if an unknown option was removed or is an argument."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            if hasattr(error, "possibilities"):  # there is no such option
                wrong: Any = error
                given = f"{wrong.ctx.command.name} {wrong.option_name}"
                if given in gone():
                    raise InputError(f"{wrong.option_name} {gone()[given]}") from None
                if wrong.option_name == "--columns":
                    raise InputError(
                        f"{wrong.ctx.command_path} has no --columns: import the table first "
                        "(cxrtext import TABLE --columns ...), and give the data folder's tables"
                    ) from None
                name = wrong.option_name.lstrip("-").replace("-", "_")
                name = "place" if name in ("model", "index") else name
                params = wrong.ctx.command.params
                if any((one.param_type_name, one.name) == ("argument", name) for one in params):
                    wrong.message = (
                        f"{wrong.option_name}: no such option; pass it as an argument: "
                        f"{wrong.ctx.command_path} {name.upper()}"
                    )
                    wrong.possibilities = None
            raise

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - typer calls it
        width = max(map(len, self.commands))
        for section, entries in SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl(
                    [(name.ljust(width), summary) for name, (_, summary) in entries.items()]
                )


app = typer.Typer(
    name="cxrtext",
    cls=_Sections,
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Search, label and ground chest X-rays in plain language. "
    "Research use only; not a medical device.",
)
SECTIONS: dict[str, dict[str, tuple[Callable[..., None] | typer.Typer, str]]] = {
    "To begin with": {
        "fit": (fit, "Turn an archive into a searchable project, in one command."),
        "demo": (demo, "Run everything on drawn radiographs, then serve the page."),
    },
    "Data": {
        "phantom": (phantom, "Draw an embedded data set: radiographs, reports, labels."),
        "import": (import_data, "Turn DICOM files or a public set into a data folder."),
        "check-data": (check_data, "Find problems in a data set."),
        "label-reports": (label_reports, "Read labels from reports, with their sentences."),
        "forget": (forget, "Remove a patient or a study from every place."),
    },
    "Models": {
        "pretrain-text": (pretrain_text, "Train a language model on a corpus of reports."),
        "score-text": (score_text, "Split reports into sentences; score their likelihood."),
        "pretrain-image": (pretrain_image, "Train an image encoder to start a training with."),
        "encoders": (encoders, "List image encoders to start with."),
        "encode": (encode, "Compute a backbone's features of images once."),
        "train": (train, "Train an image-text model."),
        "evaluate": (evaluate, "Measure a checkpoint: zero-shot labels, retrieval."),
        "compare": (compare, "Compare evaluations of several models."),
        "calibrate": (calibrate, "Calibrate a checkpoint on validation images."),
        "experiment": (experiment, "Run a paper's experiment; show both tables side by side."),
    },
    "Search, label and ground": {
        "index": (index, "Embed and index an archive for search."),
        "search": (search, "Find images by a sentence or an image."),
        "classify": (classify, "Zero-shot probabilities of findings."),
        "ground": (ground, "Show where an image supports a sentence."),
        "verify": (verify, "How well an image supports its report's sentences."),
    },
    "A service": {
        "serve": (serve, "Serve the REST API and the page."),
        "keys": (keys, "Make a server's API keys."),
        "backup": (backup, "Copy an index with its uploads, model, keys and gateway."),
        "restore": (restore, "Restore an index, and a gateway's state, from a backup."),
        "check-files": (check_files, "Compare files with the digests they were written with."),
    },
    "Hospital systems": {
        "gateway": (gateway, "Follow a PACS, take in its images, send back results."),
    },
}
"""The commands in the order of the work, each with what it does."""

for entries in SECTIONS.values():
    for name, (entry, summary) in entries.items():
        if isinstance(entry, typer.Typer):
            app.add_typer(entry, name=name, short_help=summary)
        else:
            app.command(name, short_help=summary)(checked(entry))


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


def main() -> None:
    ending(partial(app, standalone_mode=True))
