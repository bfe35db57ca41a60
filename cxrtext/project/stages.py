"""The stages of a project: what each does, what it depends on, and what it made.

A stage is done if its note in ``.fit`` has the same basis: its settings and the digests of what it
reads.  A stage that was begun on the same basis is continued; what it left on another basis is
removed.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cxrtext.errors import DataError, WorkError
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

if TYPE_CHECKING:
    from cxrtext.datasets.importing import ImportOptions
    from cxrtext.evaluation import Evaluation
    from cxrtext.evaluation.classification.calibration import KeptCalibration
    from cxrtext.images.cache import DecodedCache
    from cxrtext.index import IndexSummary
    from cxrtext.models.features import FeatureFolder
    from cxrtext.project.recipe import Recipe, Source
    from cxrtext.training import Listener

NOTES, LOGS = ".fit", ".fit/logs"
CURVE = "learning-curve"
KEPT = "age", "sex", "days_since_first", "follow_up"
"""Optional metadata: for groups in an evaluation, and to put films in order."""


@dataclass(frozen=True, slots=True)
class Teller:
    """Is told lines of text, and for some work its title, (done, total) and what is counted."""

    say: Callable[[str], None] = lambda _: None
    show: Callable[[str, int, int, str], None] = lambda *_: None

    def of(self, title: str, unit: str) -> Callable[[int, int], None]:
        return lambda done, total: self.show(title, done, total, unit)

    def stages(self, unit: str = "") -> Callable[[str, int, int], None]:
        """For work that names each of its stages."""
        return lambda title, done, total: self.show(title, done, total, unit)

    def listener(self, title: str) -> "Listener":
        """For a training; ``title`` names its steps."""
        from cxrtext.training import Listener

        return Listener(
            say=self.say,
            decoding=self.of("decoding", "images"),
            embedding=lambda what, done, total: self.show("embedding", done, total, what),
            step=lambda report, total: self.show(title, report.step, total, "steps"),
        )


Work = Callable[[bool, Teller], str]
"""Continues a stopped run if told to; returns a line about what it made."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of the work."""

    name: str
    work: Work
    settings: Any = None
    settings_are: str = "its part of the recipe"
    reads: tuple[str, ...] = ()  # files of the project whose content it depends on
    makes: tuple[str, ...] = ()  # files and folders that exist once it is done
    state: str = ""  # a folder: if it exists, the work can be continued
    threads: int = 1
    trains: bool = False  # runs in its own process: memory and threads end with it
    keeps: bool = False  # nothing is removed on another basis: the work itself replaces it


@dataclass(frozen=True)
class Progress:
    """The notes of a project's stages."""

    folder: Path
    trained_on: str = ""  # digest of what the models are trained on

    def basis(self, stage: Stage) -> dict[str, Any]:
        """What a stage depends on now."""
        files = {name: self._digest(name) for name in stage.reads}
        return {"settings": seal_of(stage.settings), "files": files}

    def _digest(self, name: str) -> str:
        path = self.folder / name
        if name == REPORTS:
            return self.trained_on
        return sha256(path) if path.is_file() else ""

    def note(self, stage: Stage) -> dict[str, Any]:
        """The note about a stage; {} if it never ended."""
        return _read(self._note(stage))

    def _note(self, stage: Stage) -> Path:
        return self.folder / NOTES / f"{file_of(stage.name)}.json"

    def is_done(self, stage: Stage) -> bool:
        return not self._gone(stage) and self.note(stage).get("basis") == self.basis(stage)

    def _gone(self, stage: Stage) -> list[str]:
        """What existed when the stage ended and is gone now; a poor model has no calibration."""
        never = self.note(stage).get("lacking", ())
        return [name for name in stage.makes if name not in never and self._lacks(name)]

    def _lacks(self, name: str) -> bool:
        return not (self.folder / name).exists()

    def why_again(self, stage: Stage) -> str:
        """What has changed since a stage ended; "" if it never did."""
        before = self.note(stage).get("basis")
        if not before:
            return ""
        now = self.basis(stage)
        files = {**before["files"], **now["files"]}
        changed = [n for n in files if before["files"].get(n) != now["files"].get(n)]
        changed += [stage.settings_are] * (now["settings"] != before["settings"])
        return ", ".join(changed) or f"{', '.join(self._gone(stage))} gone"

    def begin(self, stage: Stage) -> bool:
        """Note that a stage begins; returns whether it continues a stopped run."""
        path = self.folder / NOTES / f"{file_of(stage.name)}.begun.json"
        basis = self.basis(stage)
        goes_on = _read(path) == basis
        if not goes_on and not stage.keeps:
            self._remove(stage, path)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, basis)
        return goes_on

    def _remove(self, stage: Stage, begun: Path) -> None:
        """Remove what a stage made on another basis, as its note proves."""
        note = begun if begun.is_file() else self._note(stage)
        for name in [str(Path(stage.state).parent)] if stage.state else stage.makes:
            path = self.folder / name
            if path.is_dir() or path.is_symlink():
                remove_folder(path, inside=self.folder, note=note)
            else:
                remove_file(path, inside=self.folder)

    def took(self, stage: Stage) -> None:
        """Note that the product of a stage came from elsewhere, and may be replaced."""
        write_json(self._note(stage), {"made": "as it was given"})

    def end(self, stage: Stage, seconds: float, made: str) -> None:
        note = {"basis": self.basis(stage), "seconds": round(seconds, 1), "made": made}
        write_json(self._note(stage), note | {"lacking": [*filter(self._lacks, stage.makes)]})


def file_of(name: str) -> str:
    return name.replace(": ", "-").replace(" ", "-")


def _read(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


# --- the stages, in order ---


def import_stage(folder: Path, source: "Source", listing: str, options: "ImportOptions") -> Stage:
    """``listing``: a digest of the archive's files, their sizes and times."""
    return Stage(
        "import",
        partial(_import, folder, source, options),
        settings=[source.model_dump(), listing, options.keep, options.label_sentences],
        settings_are="the archive",
        makes=(f"{DATA}/manifest.csv",),
        keeps=True,
    )


def _import(folder: Path, source: "Source", options: "ImportOptions", _: bool, tell: Teller) -> str:
    from cxrtext.datasets.importing import import_folder

    archive = Path(source.archive)
    table = options.reports if archive.is_dir() else archive
    say_columns(table or archive, tell.say, source.columns, text=archive.is_dir())
    made = import_folder(archive, folder / DATA, options, tell.stages())
    line = f"{made.images} images of {made.studies} studies, {made.patients} patients"
    if made.reports is not None:
        line += f"; {made.reports} reports"
    left = sum(made.set_aside.values())
    return line + (f"; {left} left out ({DATA}/import.rejected.csv says why)" if left else "")


def check_stage(folder: Path, tables: Sequence[str]) -> Stage:
    return Stage("check", partial(_check, folder), reads=tuple(tables), makes=("check.html",))


def _check(folder: Path, _: bool, tell: Teller) -> str:
    from cxrtext.datasets.checking import check_data, verdict, write_check

    report = check_data(folder / DATA, tell.stages(), pictures=True)
    write_check(folder / "check.html", report)
    if report.has_failed(strict=False):
        raise WorkError(f"{folder / 'check.html'}: {verdict(report)}")
    totals = report.to_dict()
    counts = [
        f"{totals[kind]} {kind if totals[kind] > 1 else kind.removesuffix('s')}"
        for kind in ("warnings", "notes")
        if totals[kind]
    ]
    return f"{', '.join(counts) or 'nothing wrong'} (check.html)"


def label_stage(folder: Path, reports: str) -> Stage:
    return _labels("labels", folder, f"{DATA}/{reports}", f"{DATA}/labels")


def _labels(name: str, folder: Path, reports: str, out: str) -> Stage:
    work = partial(_label, folder / reports, folder / f"{out}.csv")
    makes = (f"{out}.csv", f"{out}.evidence.csv")
    return Stage(name, work, reads=(reports,), makes=makes)


LEAST_UNDERSTOOD = 0.25
"""If the rules understand a smaller share of the sentences, their labels are no basis to train on.
"""


def _label(reports: Path, out: Path, _: bool, tell: Teller) -> str:
    from cxrtext.language.report_labels import label_reports

    say_columns(reports, tell.say)
    done = label_reports(reports, out, silence=0)  # reports mention the findings they see
    if done.understood < LEAST_UNDERSTOOD:
        from cxrtext.text.rules import LANGUAGES

        raise DataError(
            f"the rules understand {done.understood:.0%} of the sentences of the reports "
            f"(by language: {shares(done.by_language)}; by section: "
            f"{shares(done.by_section)}); give reports in {', '.join(LANGUAGES)} with "
            "--reports, name the column of their text with --columns, or give --labels"
        )
    return (
        f"read from {done.studies} reports by rules, which understand {done.understood:.0%} of "
        f"the sentences ({shares(done.by_language)}; {shares(done.by_section)})"
    )


def model_stages(folder: Path, recipe: "Recipe") -> tuple[list[Stage], Stage]:
    """The stages of the text, one after the other, and that of the images alongside."""
    text = [
        _labels("findings", folder, REPORTS, "findings"),
        Stage(
            "language model",
            partial(_language_model, folder, recipe),
            settings=recipe.language_model.model_dump(),
            reads=(REPORTS,),
            makes=("language-model",),
            trains=True,
        ),
        Stage(
            "likelihoods",
            partial(_likelihoods, folder),
            reads=(REPORTS, "language-model/model.safetensors"),
            makes=("sentences.csv", "sentences.csv.meta.json"),
        ),
    ]
    if recipe.frozen:
        return text, _features(folder, recipe, recipe.frozen)
    return text, _encoder(folder, recipe, "manifest.csv", "image-encoder", "image encoder")


def _language_model(folder: Path, recipe: "Recipe", _: bool, tell: Teller) -> str:
    from cxrtext.device import choose_device
    from cxrtext.language import pretrain_text

    language = recipe.language_model
    say_columns(folder / REPORTS, tell.say)
    made = pretrain_text(
        folder / REPORTS,
        folder / "language-model",
        size=language.size,
        epochs=language.epochs,
        device=str(choose_device("auto")),
        progress=tell.of("pre-training", "steps"),
    )
    return f"pseudo-perplexity {made.perplexity:.1f} a word piece on held-out reports"


def _likelihoods(folder: Path, _: bool, tell: Teller) -> str:
    from cxrtext.device import choose_device
    from cxrtext.language import score_reports

    say_columns(folder / REPORTS, tell.say)
    made = score_reports(
        folder / REPORTS,
        folder / "sentences.csv",
        model=str(folder / "language-model"),
        device=str(choose_device("auto")),
        progress=tell.of("scoring", "sentences"),
    )
    return f"of {made.sentences} sentences"


def _features(folder: Path, recipe: "Recipe", name: str) -> Stage:
    size, copy = recipe.image_encoder.crop, copy_of(folder, name)
    return Stage(
        "features",
        partial(_encode, folder, copy, size),
        settings=[size, GRID],
        reads=(REPORTS, f"{DATA}/{ENCODED}", str(copy.relative_to(folder) / SUMS)),
        makes=(FEATURES, f"{FEATURES}/features.json"),
        threads=recipe.threads + 1,
        trains=True,
    )


def _encode(folder: Path, backbone: Path, size: int, _: bool, tell: Teller) -> str:
    from cxrtext.device import choose_device
    from cxrtext.jobs import EncodeOptions, encode_images

    options = EncodeOptions(size=size, grid=GRID, device=str(choose_device("auto")))
    manifest, out = folder / DATA / ENCODED, folder / FEATURES
    made = encode_images(
        manifest, backbone, out, options, say=tell.say, stage=tell.stages("images")
    )
    licence = made.backbone["licence"] or "none named"
    return f"of {len(made)} films; the encoder's licence: {licence}"


def _encoder(folder: Path, recipe: "Recipe", manifest: str, out: str, name: str) -> Stage:
    options, own = recipe.image_encoder.options(folder), recipe.image_encoder.encoder
    return Stage(
        name,
        partial(_train_encoder, folder, recipe, folder / DATA / manifest, folder / out),
        settings=[{**options, "weights": own}, recipe.threads],
        reads=(REPORTS, *([str(copy_of(Path(), own) / SUMS)] if own else [])),
        makes=(f"{out}/encoder.safetensors", f"{out}/pretraining.json"),
        state=f"{out}/state",
        threads=recipe.threads,
        trains=True,
    )


def _train_encoder(
    folder: Path, recipe: "Recipe", manifest: Path, out: Path, resume: bool, tell: Teller
) -> str:
    from cxrtext.training.image_pretraining import pretrain_image
    from cxrtext.training.image_pretraining.settings import ImagePretrainSettings

    made = pretrain_image(
        manifest,
        out,
        settings=ImagePretrainSettings(**recipe.image_encoder.options(folder)),
        cache=folder / DECODED,
        resume=resume,
        device="auto",
        listener=tell.listener("pre-training"),
    )
    auc = made.validation.get("auc")
    measured = f"; validation AUC {auc:.3f}" if auc is not None else ""
    return f"learned {len(made.findings)} words of findings from {made.images} images{measured}"


def _content(model: Path) -> Any:
    """The digest of a finished model, or the digests of a checkpoint's files."""
    return pair_fingerprint(model) if layout_of(model) is not None else sums_of(model)


def training_stage(folder: Path, recipe: "Recipe") -> Stage:
    return _training(folder, recipe, "train.yaml", RUN, "training", "image-encoder")


def _training(
    folder: Path, recipe: "Recipe", config: str, out: str, name: str, encoder: str
) -> Stage:
    best, train, init = f"{out}/checkpoint-best", recipe.config(), recipe.source.model
    images = f"{FEATURES}/features.json" if recipe.frozen else f"{encoder}/encoder.safetensors"
    return Stage(
        name,
        partial(_train, folder / config),
        settings=[train, recipe.threads, *([_content(Path(init))] if init else [])],
        reads=("sentences.csv", "findings.csv", PROMPTS, images),
        makes=(f"{best}/familiar.safetensors", f"{best}/reference.safetensors"),
        state=f"{out}/state",
        threads=recipe.threads + 1,
        trains=True,
    )


def _train(config: Path, resume: bool, tell: Teller) -> str:
    from cxrtext.config import load_config
    from cxrtext.training import train

    made = train(load_config(config), resume=resume, listener=tell.listener("training"))
    best = f"best after {made.best_step}" if made.best_step else "none was better"
    return f"{made.steps} steps on {made.images} images; {best}"


def curve_stages(folder: Path, recipe: "Recipe", tables: Sequence[str]) -> list[Stage]:
    """Train on a third of the patients and measure, to tell what more would bring."""
    encoder = _encoder(folder, recipe, THIRD, f"{CURVE}/image-encoder", "a third: image encoder")
    out = f"{CURVE}/run"
    train = _training(
        folder, recipe, f"{CURVE}.yaml", out, "a third: training", f"{CURVE}/image-encoder"
    )
    best, to = f"{out}/checkpoint-best", f"{CURVE}/evaluation"
    measured = _evaluation(folder, recipe, best, to, "a third: measured", tables)
    return [*([] if recipe.frozen else [encoder]), train, measured]


def trainings(folder: Path, recipe: "Recipe") -> dict[str, Stage]:
    """The stages with their own processes, by name."""
    text, images = model_stages(folder, recipe)
    stages = [*text, images, training_stage(folder, recipe), *curve_stages(folder, recipe, ())]
    return {stage.name: stage for stage in stages if stage.trains}


def _images(
    folder: Path, recipe: "Recipe", tell: Teller
) -> "tuple[DecodedCache | None, FeatureFolder | None]":
    """The caches that save decoding a film, or passing it through a frozen encoder, again."""
    from cxrtext.images.cache import DecodedCache
    from cxrtext.models.features import open_features

    features = open_features(folder / FEATURES) if recipe.frozen else None
    return DecodedCache(folder / DECODED, tell.say), features


def weights_of(folder: Path, checkpoint: str) -> str:
    """The file that differs between two models; for a finished model, its digests."""
    finished = (folder / checkpoint / ADOPTED).is_file()
    return f"{checkpoint}/{SUMS if finished else SAFE_WEIGHTS}"


def evaluation_stage(folder: Path, recipe: "Recipe", tables: Sequence[str]) -> Stage:
    """Measure the model and keep what validation films tell; films are embedded once for both."""
    return _evaluation(folder, recipe, CHECKPOINT, EVALUATION, "evaluation", tables, keeps=True)


def _evaluation(
    folder: Path,
    recipe: "Recipe",
    checkpoint: str,
    out: str,
    name: str,
    tables: Sequence[str],
    *,
    keeps: bool = False,
) -> Stage:
    kept = (f"{checkpoint}/calibration.json",) if keeps else ()
    return Stage(
        name,
        partial(_evaluate, folder, recipe, folder / checkpoint, out, keeps),
        reads=(weights_of(folder, checkpoint), "prompts.yaml", *tables),
        makes=(f"{out}/report.html", f"{out}/evaluation.json", *kept),
        keeps=True,
        threads=2,
    )


def _evaluate(
    folder: Path,
    recipe: "Recipe",
    checkpoint: Path,
    out: str,
    keeps: bool,
    _: bool,
    tell: Teller,
) -> str:
    from cxrtext.device import choose_device
    from cxrtext.evaluation import evaluate, read_prompts
    from cxrtext.evaluation.report import ReportOptions, write_report
    from cxrtext.records import Rejects

    prompts, data, rejects = folder / "prompts.yaml", folder / DATA, Rejects(100)
    cache, features = _images(folder, recipe, tell)
    found = evaluate(
        checkpoint, data, device=str(choose_device("auto")), prompts=read_prompts(prompts),
        rejects=rejects, cache=cache, features=features, progress=tell.of("embedding", "images"),
    )  # fmt: skip
    if keeps:
        kept = keep_fits(checkpoint, found, cache, features, tell)
        found.left_out.extend(map(str, kept.lacking))
    command = "cxrtext", "evaluate", checkpoint, "--data", data, "--prompts", prompts
    options = ReportOptions(command=tuple(map(str, (*command, "--out", folder / out))))
    write_report(folder / out, found, options)
    rejects.write(folder / out / "images")
    keep_how_good(checkpoint, found, tell.say)
    return f"{found.images} films of {found.patients} held-out patients ({out}/report.html)"


def index_stage(folder: Path, recipe: "Recipe", tables: Sequence[str]) -> Stage:
    """Build the index; an existing one switches to a new model and adds what is new."""
    return Stage(
        "index",
        partial(_index, folder, recipe),
        reads=(weights_of(folder, CHECKPOINT), *tables),
        makes=(f"{INDEX}/index.json",),
        keeps=True,
        threads=2,
    )


def _index(folder: Path, recipe: "Recipe", _: bool, tell: Teller) -> str:
    from cxrtext.device import choose_device
    from cxrtext.evaluation import read_prompts
    from cxrtext.index import build_index

    index, checkpoint = folder / INDEX, folder / CHECKPOINT
    cache, features = _images(folder, recipe, tell)
    if (index / "index.json").is_file():
        renew_index(index, checkpoint, cache, features, tell)
    made = build_index(
        folder / DATA / "manifest.csv",
        checkpoint,
        index,
        prompts=read_prompts(folder / "prompts.yaml"),
        device=str(choose_device("auto")),
        cache=cache,
        features=features,
        wait_s=WAIT_S,
        progress=tell.of("indexing", "images"),
    )
    return f"{made.images} images, {made.sentences} sentences to search"


# --- shared with the commands ---

WAIT_S = 60.0
"""How long a command waits while another process writes an index."""


@dataclass(frozen=True, slots=True)
class KeptFits:
    """What validation images left with a checkpoint, and what the data lacked for more."""

    written: list[Path]
    lacking: list[DataError]
    calibration: "KeptCalibration | None"


def keep_fits(
    checkpoint: Path,
    found: "Evaluation",
    cache: "DecodedCache | None",
    features: "FeatureFolder | None",
    tell: Teller,
) -> KeptFits:
    """Keep calibrated probabilities and verdicts with a checkpoint, if the data allow them."""
    from cxrtext.evaluation.calibrate import calibration_of
    from cxrtext.verdicts.fit import verdicts_of

    written, lacking, kept = list[Path](), list[DataError](), None
    try:
        kept, left_out = calibration_of(found)
        found.left_out.extend(left_out)
        written.append(kept.save(checkpoint))
    except DataError as error:
        lacking.append(error)
    try:
        update = tell.of("embedding validation images", "images")
        verdicts = verdicts_of(found, cache=cache, features=features, progress=update)
        written.append(verdicts.save(checkpoint))
        tell.say(f"{written[-1]}: {verdicts.summary()}")
    except DataError as error:
        lacking.append(error)
    return KeptFits(written, lacking, kept)


def keep_how_good(checkpoint: Path, found: "Evaluation", say: Callable[[str], None]) -> list[Path]:
    """Keep how good a model is, if its test images were measured; returns the file."""
    from cxrtext.evaluation.how_good import how_good_of, keeping_curve

    good = how_good_of(found)
    if found.split != "test" or not found.findings or not good.measured:
        return []
    try:
        return [keeping_curve(good, checkpoint).save(checkpoint)]
    except OSError as error:
        say(f"{checkpoint}: how good the model is cannot be kept there ({error.strerror})")
        return []


def renew_index(
    folder: Path,
    model: Path | None,
    cache: "DecodedCache | None",
    features: "FeatureFolder | None",
    tell: Teller,
    *,
    max_rejected: int = 0,
    device: str = "auto",
) -> "IndexSummary":
    """Rebuild an index with its own model or another."""
    from cxrtext.device import choose_device
    from cxrtext.index import rewrite
    from cxrtext.index.new_model import is_of, reembed

    if model is None or is_of(folder, model):
        return rewrite(folder, model, rebuild=True, wait_s=WAIT_S)
    return reembed(
        folder,
        model,
        device=str(choose_device(device)),
        cache=cache,
        features=features,
        max_rejected=max_rejected,
        progress=tell.of("embedding by the new model", "images"),
        wait_s=WAIT_S,
    )


def say_columns(
    table: Path | str,
    say: Callable[[str], None],
    columns: str | Mapping[str, str] = "",
    *,
    text: bool = True,
) -> dict[str, str]:
    """The user's names for a table's columns, as a mapping; says how the others are read."""
    from cxrtext.records.columns import parse_columns, shown
    from cxrtext.records.report_sources import is_table
    from cxrtext.records.rows import TableRows

    given = parse_columns(columns) if isinstance(columns, str) else dict(columns)
    path = Path(table)
    if is_table(path) and "sentence" not in TableRows(path).headers:
        line = shown(TableRows.known(path, given, text=text).names)
        say(line) if line else None
    return given


def shares(of: Mapping[str, float]) -> str:
    """Shares by name, the largest first: "en 93 %, unknown 0 %"."""
    ordered = sorted(of.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {100 * share:.0f} %" for name, share in ordered)
