"""The stages of a project: the command of each, what it rests on, and what it made.

A stage is done where its note in ``.fit`` has the same basis: its settings and the digests of what
it reads.  One that was begun on the same basis goes on; of another basis what it left is removed.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cxrtext.errors import DataError
from cxrtext.files import SUMS, remove_file, remove_folder, seal_of, sha256, sums_of, write_json
from cxrtext.models.folders import ADOPTED, SAFE_WEIGHTS, layout_of, pair_fingerprint
from cxrtext.project.encoders import copy_of
from cxrtext.project.layout import (
    CHECKPOINT,
    DATA,
    DECODED,
    ENCODED,
    EVALUATION,
    FEATURES,
    GRID,
    INDEX,
    PROMPTS,
    REPORTS,
    RUN,
    THIRD,
)
from cxrtext_cli.options import shares

if TYPE_CHECKING:
    from cxrtext.project.recipe import Recipe, Source

NOTES, LOGS = ".fit", ".fit/logs"
CURVE = "learning-curve"
KEPT = "age", "sex", "days_since_first", "follow_up"
"""Metadata that an evaluation measures groups by and that put films in order, where there are."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A command, and more than one where the first makes way for the second."""

    name: str
    words: Sequence[Sequence[Any]]
    made: Callable[[Any], str]  # a line of the JSON that the last command prints
    settings: Any = None
    settings_are: str = "its part of the recipe"
    reads: tuple[str, ...] = ()  # files of the project whose content it rests on
    makes: tuple[str, ...] = ()  # files and folders that are there once it is done
    state: str = ""  # a folder: where it is there, the command goes on with ``resume``
    resume: tuple[str, ...] = ()
    threads: int = 1
    keeps: bool = False  # another basis removes nothing: the command itself replaces it


@dataclass(frozen=True)
class Progress:
    """The notes of a project's stages."""

    folder: Path
    trained_on: str = ""  # digest of what the models are made of

    def basis(self, stage: Stage) -> dict[str, Any]:
        """What a stage rests on, now."""
        files = {name: self._digest(name) for name in stage.reads}
        return {"settings": seal_of(stage.settings), "files": files}

    def _digest(self, name: str) -> str:
        path = self.folder / name
        if name == REPORTS:
            return self.trained_on
        return sha256(path) if path.is_file() else ""

    def note(self, stage: Stage) -> dict[str, Any]:
        """What is noted of a stage; {} of one that never ended."""
        return _read(self._note(stage))

    def _note(self, stage: Stage) -> Path:
        return self.folder / NOTES / f"{file_of(stage.name)}.json"

    def is_done(self, stage: Stage) -> bool:
        there = all((self.folder / name).exists() for name in stage.makes)
        return there and self.note(stage).get("basis") == self.basis(stage)

    def why_again(self, stage: Stage) -> str:
        """What has changed since a stage ended; "" of one that never did."""
        before = self.note(stage).get("basis")
        if not before:
            return ""
        now = self.basis(stage)
        files = {**before["files"], **now["files"]}
        changed = [n for n in files if before["files"].get(n) != now["files"].get(n)]
        changed += [stage.settings_are] * (now["settings"] != before["settings"])
        gone = [name for name in stage.makes if not (self.folder / name).exists()]
        return ", ".join(changed) or f"{', '.join(gone)} gone"

    def begin(self, stage: Stage) -> bool:
        """Note that a stage begins; whether it goes on with what a stopped run left."""
        path = self.folder / NOTES / f"{file_of(stage.name)}.begun.json"
        basis = self.basis(stage)
        goes_on = _read(path) == basis
        if not goes_on and not stage.keeps:
            self._remove(stage, path)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, basis)
        return goes_on

    def _remove(self, stage: Stage, begun: Path) -> None:
        """Remove what a stage made on another basis; its note says that it did."""
        note = begun if begun.is_file() else self._note(stage)
        for name in [str(Path(stage.state).parent)] if stage.state else stage.makes:
            path = self.folder / name
            if path.is_dir() or path.is_symlink():
                remove_folder(path, inside=self.folder, note=note)
            else:
                remove_file(path, inside=self.folder)

    def took(self, stage: Stage) -> None:
        """Note that what a stage would make was taken from elsewhere, and may be replaced."""
        write_json(self._note(stage), {"made": "as it was given"})

    def end(self, stage: Stage, seconds: float, made: str) -> None:
        note = {"basis": self.basis(stage), "seconds": round(seconds, 1), "made": made}
        write_json(self._note(stage), note)


def file_of(name: str) -> str:
    return name.replace(": ", "-").replace(" ", "-")


def _read(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


# --- the stages, in order ---


def import_stage(folder: Path, source: "Source", listing: str, extra: Sequence[str]) -> Stage:
    """``listing``: a digest of the archive's files, their sizes and times."""
    words: list[Any] = ["import", source.archive, "--out", folder / DATA, "--json"]
    for option, value in {"--reports": source.reports, "--labels": source.labels}.items():
        words += [option, value] if value else []
    if source.columns:
        words += ["--columns", ",".join(f"{name}={of}" for name, of in source.columns.items())]
    words += ["--ids", source.ids] if source.ids != "exact" else []
    words += ["--follow-links"] if source.follow_links else []
    words += [*extra, *(["--link"] if source.link else [])]
    return Stage(
        "import",
        [words],
        _imported,
        settings=[source.model_dump(), listing, extra],
        settings_are="the archive",
        makes=(f"{DATA}/manifest.csv",),
        keeps=True,
    )


def _imported(summary: Mapping[str, Any]) -> str:
    said = f"{summary['images']} images of {summary['studies']} studies"
    said += f", {summary['patients']} patients"
    if summary["reports"] is not None:
        said += f"; {summary['reports']} reports"
    left = sum(summary["set_aside"].values())
    return said + (f"; {left} left out ({DATA}/import.rejected.csv says why)" if left else "")


def check_stage(folder: Path, tables: Sequence[str]) -> Stage:
    words = ["check-data", folder / DATA, "--out", folder / "check.html", "--json"]
    return Stage("check", [words], _checked, reads=tuple(tables), makes=("check.html",))


def _checked(report: Mapping[str, Any]) -> str:
    counts = [
        f"{report[kind]} {kind if report[kind] > 1 else kind.removesuffix('s')}"
        for kind in ("errors", "warnings", "notes")
        if report[kind]
    ]
    return f"{', '.join(counts) or 'nothing wrong'} (check.html)"


def label_stage(folder: Path, reports: str) -> Stage:
    data = folder / DATA
    words = ["label-reports", data / reports, "--out", data / "labels.csv"]
    words += ["--absent", "--json"]  # a finding that is there is mentioned
    makes = (f"{DATA}/labels.csv", f"{DATA}/labels.evidence.csv")
    return Stage("labels", [words], _labelled, reads=(f"{DATA}/{reports}",), makes=makes)


LEAST_UNDERSTOOD = 0.25
"""With fewer of the sentences understood, labels of reports are no basis of a training."""


def _labelled(summary: Mapping[str, Any]) -> str:
    if summary.get("understood", 1.0) < LEAST_UNDERSTOOD:
        from cxrtext.text.rules import LANGUAGES

        raise DataError(
            f"the rules understand {summary['understood']:.0%} of the sentences of the reports "
            f"(by language: {shares(summary['by_language'])}; by section: "
            f"{shares(summary['by_section'])}); give reports in {', '.join(LANGUAGES)} with "
            "--reports, name the column of their text with --columns, or give --labels"
        )
    return (
        f"read from {summary['studies']} reports by rules, which understand "
        f"{summary['understood']:.0%} of the sentences ({shares(summary['by_language'])}; "
        f"{shares(summary['by_section'])})"
    )


def model_stages(folder: Path, recipe: "Recipe") -> tuple[list[Stage], Stage]:
    """The stages of the text, one after the other, and that of the images beside them."""
    language = recipe.language_model
    words = ["pretrain-text", folder / REPORTS, "--out", folder / "language-model", "--json"]
    words += ["--size", language.size]
    words += ["--epochs", language.epochs] if language.epochs else []
    weights = "language-model/model.safetensors"
    read = ["label-reports", folder / REPORTS, "--out", folder / "findings.csv"]
    score = ["score-text", folder / REPORTS, "--model", folder / "language-model"]
    text = [
        Stage(
            "findings",
            [[*read, "--absent", "--json"]],
            _labelled,
            reads=(REPORTS,),
            makes=("findings.csv", "findings.evidence.csv"),
        ),
        Stage(
            "language model",
            [words],
            lambda s: f"pseudo-perplexity {s['perplexity']:.1f} a word piece on held-out reports",
            settings=language.model_dump(),
            reads=(REPORTS,),
            makes=("language-model",),
        ),
        Stage(
            "likelihoods",
            [[*score, "--out", folder / "sentences.csv", "--json"]],
            lambda s: f"of {s['sentences']} sentences",
            reads=(REPORTS, weights),
            makes=("sentences.csv", "sentences.csv.meta.json"),
        ),
    ]
    if recipe.frozen:
        return text, _features(folder, recipe, recipe.frozen)
    return text, _encoder(folder, recipe, "manifest.csv", "image-encoder", "image encoder")


def _features(folder: Path, recipe: "Recipe", name: str) -> Stage:
    size, copy = recipe.image_encoder.crop, copy_of(folder, name)
    words = ["encode", folder / DATA / ENCODED, "--backbone", copy, "--out", folder / FEATURES]
    words += ["--size", size, "--grid", GRID, "--json"]
    return Stage(
        "features",
        [words],
        lambda s: f"of {s['images']} films; the encoder's licence: {s['licence'] or 'none named'}",
        settings=[size, GRID],
        reads=(REPORTS, f"{DATA}/{ENCODED}", str(copy.relative_to(folder) / SUMS)),
        makes=(FEATURES, f"{FEATURES}/features.json"),
        threads=recipe.threads + 1,
    )


def _encoder(folder: Path, recipe: "Recipe", manifest: str, out: str, name: str) -> Stage:
    options, own = recipe.image_encoder.options(folder), recipe.image_encoder.encoder
    words: list[Any] = ["pretrain-image", folder / DATA / manifest, "--out", folder / out]
    words += ["--cache", folder / DECODED, "--json"]
    for option, value in options.items():
        words += [f"--{option}", value] if value is not None else []
    return Stage(
        name,
        [words],
        _encoded,
        settings=[{**options, "weights": own}, recipe.threads],
        reads=(REPORTS, *([str(copy_of(Path(), own) / SUMS)] if own else [])),
        makes=(f"{out}/encoder.safetensors", f"{out}/pretraining.json"),
        state=f"{out}/state",
        resume=("--resume",),
        threads=recipe.threads,
    )


def _content(model: Path) -> Any:
    """The digest of a finished model, or those of a checkpoint's files."""
    return pair_fingerprint(model) if layout_of(model) is not None else sums_of(model)


def _encoded(summary: Mapping[str, Any]) -> str:
    words = len(summary["findings"])
    auc = summary["validation"].get("auc")
    said = f"; validation AUC {auc:.3f}" if auc is not None else ""
    return f"learned {words} words of findings from {summary['images']} images{said}"


def training_stage(folder: Path, recipe: "Recipe") -> Stage:
    return _training(folder, recipe, "train.yaml", RUN, "training", "image-encoder")


def _training(
    folder: Path, recipe: "Recipe", config: str, out: str, name: str, encoder: str
) -> Stage:
    best, train, init = f"{out}/checkpoint-best", recipe.config(), recipe.source.model
    images = f"{FEATURES}/features.json" if recipe.frozen else f"{encoder}/encoder.safetensors"
    return Stage(
        name,
        [["train", folder / config, "--json"]],
        _trained,
        settings=[train, recipe.threads, *([_content(Path(init))] if init else [])],
        reads=("sentences.csv", "findings.csv", PROMPTS, images),
        makes=(f"{best}/familiar.safetensors", f"{best}/reference.safetensors"),
        state=f"{out}/state",
        resume=("--resume", str(folder / out)),
        threads=recipe.threads + 1,
    )


def _trained(summary: Mapping[str, Any]) -> str:
    best = f"best after {summary['best_step']}" if summary["best_step"] else "none was better"
    return f"{summary['steps']} steps on {summary['images']} images; {best}"


def curve_stages(folder: Path, recipe: "Recipe", tables: Sequence[str]) -> list[Stage]:
    """The same on a third of the patients, to tell what more would bring; the last measures."""
    encoder = _encoder(folder, recipe, THIRD, f"{CURVE}/image-encoder", "a third: image encoder")
    out = f"{CURVE}/run"
    train = _training(
        folder, recipe, f"{CURVE}.yaml", out, "a third: training", f"{CURVE}/image-encoder"
    )
    best, to = f"{out}/checkpoint-best", f"{CURVE}/evaluation"
    found = _evaluation(folder, recipe, best, to, "a third: measured", tables)
    return [*([] if recipe.frozen else [encoder]), train, found]


def _images(folder: Path, recipe: "Recipe") -> list[Any]:
    """Options by which no film is decoded, or passes an encoder that is frozen, a second time."""
    features = ["--features", folder / FEATURES] if recipe.frozen else []
    return ["--cache", folder / DECODED, *features]


def weights_of(folder: Path, checkpoint: str) -> str:
    """The file that differs between two models: of a finished one, the digests of its files."""
    finished = (folder / checkpoint / ADOPTED).is_file()
    return f"{checkpoint}/{SUMS if finished else SAFE_WEIGHTS}"


def evaluation_stage(folder: Path, recipe: "Recipe", tables: Sequence[str]) -> Stage:
    """Measures, and keeps what validation films tell: the films are embedded once for both."""
    made = _evaluation(folder, recipe, CHECKPOINT, EVALUATION, "evaluation", tables)
    words = [[*made.words[0], "--calibrate"]]
    return replace(made, words=words, makes=(*made.makes, f"{CHECKPOINT}/calibration.json"))


def _evaluation(
    folder: Path, recipe: "Recipe", checkpoint: str, out: str, name: str, tables: Sequence[str]
) -> Stage:
    words = ["evaluate", folder / checkpoint, "--data", folder / DATA, "--out", folder / out]
    words += ["--prompts", folder / "prompts.yaml", *_images(folder, recipe), "--json"]
    return Stage(
        name,
        [words],
        lambda s: f"{s['images']} films of {s['patients']} held-out patients ({out}/report.html)",
        reads=(weights_of(folder, checkpoint), "prompts.yaml", *tables),
        makes=(f"{out}/report.html", f"{out}/evaluation.json"),
        keeps=True,
        threads=2,
    )


def index_stage(folder: Path, recipe: "Recipe", tables: Sequence[str]) -> Stage:
    """An index that is there turns to a new model and takes what is new."""
    index, checkpoint = folder / INDEX, folder / CHECKPOINT
    images = [*_images(folder, recipe), "--json"]
    words: list[list[Any]] = []
    if (index / "index.json").is_file():
        words.append(["index", "rebuild", index, "--model", checkpoint, *images])
    build = ["index", "build", folder / DATA / "manifest.csv", "--model", checkpoint]
    words.append([*build, "--out", index, "--prompts", folder / "prompts.yaml", *images])
    return Stage(
        "index",
        words,
        lambda s: f"{s['images']} images, {s['sentences']} sentences to search",
        reads=(weights_of(folder, CHECKPOINT), *tables),
        makes=(f"{INDEX}/index.json",),
        keeps=True,
        threads=2,
    )
