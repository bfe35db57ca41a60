"""``cxrtext train``."""

import time
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from cxrtext.errors import ConfigError
from cxrtext_cli.given import (
    ANY_PATH,
    CHECKPOINT,
    DEVICE,
    FILE,
    FOLDER,
    LANGUAGE_MODEL,
    NEW_FOLDER,
    PROMPTS,
    check_each,
)
from cxrtext_cli.options import say, told

if TYPE_CHECKING:
    from cxrtext.config import Config

DEFAULT_CONFIG = Path("cxrtext.yaml")


def train(
    config: Annotated[
        Path | None,
        typer.Argument(help="YAML configuration; by default cxrtext.yaml here."),
        ANY_PATH,
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="A.B=C", help="Set a key; repeatable.")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Resume the run in this folder.", metavar="DIR"), ANY_PATH
    ] = None,
    init: Annotated[
        bool,
        typer.Option(
            "--init",
            help="Write a commented cxrtext.yaml, or the named file: studies-300.yaml, -3000, "
            "-30000; ssd-mimic-cxr.yaml or biovil-baseline.yaml of the paper.",
        ),
    ] = False,
) -> None:
    """Train an image-text model on a manifest and scored sentences."""
    from cxrtext.config import load_config, template
    from cxrtext.files import write_text

    if init:
        target = config or DEFAULT_CONFIG
        if target.exists():
            raise ConfigError(f"{target}: exists already; remove it first, or name another file")
        write_text(target, template(target.name))
        named = f" {quote(str(config))}" if config else ""
        say(f"{target}: written; fill in 'data' and run 'cxrtext train{named}'")
        return
    if resume is not None:
        if not (resume / "config.yaml").is_file():
            raise ConfigError(f"{resume}: holds no training run to resume (no config.yaml)")
        chosen: Path | None = config or resume / "config.yaml"
    else:
        chosen = config or (DEFAULT_CONFIG if DEFAULT_CONFIG.is_file() or not overrides else None)
    loaded = load_config(chosen, overrides or [])
    if resume is not None:
        loaded = loaded.model_copy(update={"out": resume})

    _check(loaded, resume is not None)

    from cxrtext.project.fitting import duration
    from cxrtext.training import train as run

    begun = time.monotonic()
    with told() as tell:
        summary = run(loaded, resume=resume is not None, listener=tell.listener("training"))
    typer.echo(
        f"{summary.checkpoint}: {summary.steps} steps on {summary.images} images in "
        f"{duration(time.monotonic() - begun)}"
    )
    if summary.validation:
        loss, accuracy = summary.validation["loss"], summary.validation["accuracy"]
        auc = summary.validation.get("auc")
        shown = f", AUC {auc:.3f}" if auc is not None else ""
        typer.echo(f"validation loss {loss:.3f}, in-batch accuracy {accuracy:.3f}{shown}")
    if summary.best:
        typer.echo(f"{summary.best}: best by {loaded.training.best}, step {summary.best_step}")
    if summary.rejected:
        typer.echo(f"images rejected: {summary.rejected}")
    if summary.warning:
        say(f"warning: {summary.warning}")


def _check(config: "Config", resume: bool) -> None:
    """Refuse a configuration with missing files before torch is imported."""
    from cxrtext.config import path_keys
    from cxrtext.training.loop.folder import check_folder

    keys = path_keys(config.model_dump())["objective"]
    data, model, objective, training = config.data, config.model, config.objective, config.training
    text = model.text if model.init is None or training.mlm_weight else None
    check_each(
        {
            "data.manifest": (FILE, data.manifest),
            "data.sentences": (FILE, data.sentences),
            "data.words": (FILE, data.words),
            "data.features": (FOLDER, data.features),
            "data.cache": (NEW_FOLDER, data.cache),
            "model.text": (LANGUAGE_MODEL, text),
            "model.image_weights": (FILE, model.image_weights),
            "model.init": (CHECKPOINT, model.init),
            **{f"objective.{key}": (FILE, getattr(objective, key)) for key in keys},
            "training.prompts": (PROMPTS, training.prompts),
            "training.device": (DEVICE, training.device),
            "out": (NEW_FOLDER, config.out),
        }
    )
    check_folder(config.out, resume)
