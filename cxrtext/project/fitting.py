"""``cxrtext fit``: from an archive to a model that says how good it is."""

import os
import re
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cxrtext.errors import ConfigError, DataError
from cxrtext.project.processes import Process, running
from cxrtext.project.stages import (
    CURVE,
    KEPT,
    LOGS,
    NOTES,
    Progress,
    Stage,
    Teller,
    check_stage,
    curve_stages,
    evaluation_stage,
    file_of,
    import_stage,
    index_stage,
    label_stage,
    model_stages,
    training_stage,
)

if TYPE_CHECKING:
    from cxrtext.datasets.importing import ImportOptions
    from cxrtext.evaluation.how_good import HowGood
    from cxrtext.project.encoders import GivenEncoder
    from cxrtext.project.estimate import Estimate, Speeds
    from cxrtext.project.facts import Facts
    from cxrtext.project.recipe import Recipe, Source

_BUDGET = re.compile(r"(\d+(?:\.\d+)?)\s*(m|min|h|d)")
_SECONDS = {"m": 60, "min": 60, "h": 3600, "d": 86400}


def prepare(
    archive: Path,
    out: Path,
    *,
    encoder: str | None = None,
    budget: str | None = None,
    tell: Teller | None = None,
    **given: Any,
) -> "Fit":
    """Check what ``cxrtext fit`` is asked for; nothing is made yet.

    ``given`` are fields of :class:`Source`; the others stay as in the project's recipe.
    """
    from cxrtext.project.encoders import find_encoder
    from cxrtext.project.layout import RECIPE
    from cxrtext.project.recipe import read_recipe

    tell, limit = tell or Teller(), None if budget is None else _seconds(budget)
    is_project = (archive / RECIPE).is_file()
    out = archive if is_project else out
    given = {
        name: str(value.absolute()) if isinstance(value, Path) else value
        for name, value in given.items()
        if value
    }
    given |= {} if is_project else {"archive": str(archive.absolute())}
    if encoder and "model" in given:
        raise ConfigError("--encoder: a finished model has its own; leave --encoder or --model out")
    claim(out, archive)
    chosen = None
    if (out / RECIPE).is_file():
        source = read_recipe(out).source.model_copy(update=given)
        if limit is not None:
            tell.say(f"{out / RECIPE} stays as it is; remove it to choose again for --budget")
        if encoder is not None:
            tell.say(f"{out / RECIPE} says which image encoder to start from; change it there")
    else:
        source = _source(given)
        if encoder is not None:
            chosen = find_encoder(encoder)
            licence = chosen.backbone.licence or "its folder names none"
            tell.say(f"image encoder: {chosen.name}; its licence: {licence}")
        elif source.model is not None:
            from cxrtext.models import load_model

            load_model(Path(source.model))  # refuse a bad one before films are imported
        else:
            tell.say(
                "a pretrained image encoder usually finds more: 'cxrtext encoders' lists some; "
                "give one with --encoder"
            )
    return Fit(out, source, chosen, limit, tell)


def _source(given: dict[str, Any]) -> "Source":
    from pydantic import ValidationError

    from cxrtext.project.recipe import Source

    try:
        return Source(**given)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        name = str(fault["loc"][0]).replace("_", "-")
        raise ConfigError(f"--{name}: {fault['msg'][0].lower()}{fault['msg'][1:]}") from None


def claim(out: Path, archive: Path) -> None:
    """Refuse a folder that holds anything but a project, or only the archive."""
    own = {NOTES, archive.name} if archive.resolve().parent == out.resolve() else {NOTES}
    left = {path.name for path in out.iterdir()} - own if out.is_dir() else set()
    if left and not (out / NOTES).is_dir():
        raise DataError(f"{out}: holds '{min(left)}' and no project; name a folder with --out")


def _seconds(budget: str) -> float:
    match = _BUDGET.fullmatch(budget.strip())
    if not match:
        raise ConfigError(f"--budget: '{budget}' is not a time; give 20m, 8h or 2d")
    return float(match[1]) * _SECONDS[match[2]]


def cores() -> int:
    return len(os.sched_getaffinity(0))


@dataclass
class Fit:
    """A run of ``cxrtext fit``."""

    folder: Path
    source: "Source"
    encoder: "GivenEncoder | None" = None  # for a new recipe
    budget: float | None = None  # seconds
    tell: Teller = field(default_factory=Teller)
    curve: bool = True  # whether a new recipe has a learning curve
    expected: dict[str, float] = field(default_factory=dict)  # seconds of each stage

    def run(self) -> "HowGood":
        """Do what is not done yet; returns how good the model is."""
        from cxrtext.files import only_one
        from cxrtext.project.encoders import keep_copy

        self.begun = time.monotonic()
        # An archive that cannot be imported is refused before a folder is made.
        imported = self._import_stage()
        (self.folder / LOGS).mkdir(parents=True, exist_ok=True)
        self.progress = Progress(self.folder)
        with only_one(self.folder / NOTES / "fit"), running() as self.running:
            if imported is not None:
                self._do(imported)
            self.recipe = self._recipe()
            if (name := self.recipe.image_encoder.encoder) and not self.recipe.source.model:
                keep_copy(self.folder, name)
            self._data()
            self._write_settings()
            source = self.recipe.source
            if source.model:
                self._take_model(Path(source.model))
            else:
                self._models()
            good = self._measure()
        self.tell.say(f"done in {duration(time.monotonic() - self.begun)}")
        return good

    # --- stages ---

    def _import_stage(self) -> Stage | None:
        """The import, or None if the archive is the project's own data folder."""
        from cxrtext.project.archive import listing
        from cxrtext.project.layout import DATA

        source = self.source
        if Path(source.archive).resolve() == (self.folder / DATA).resolve():
            if source.reports or source.labels:
                raise ConfigError(
                    f"{source.archive}: is the project's own data folder, used as it is; put the "
                    "tables into it as reports.csv and labels.csv"
                )
            return None
        return import_stage(self.folder, source, listing(source), options_of(source, self.folder))

    def _recipe(self) -> "Recipe":
        """The project's recipe, or a new one for what was imported."""
        from cxrtext.project.facts import facts_of_data
        from cxrtext.project.layout import DATA, RECIPE
        from cxrtext.project.recipe import read_recipe, write_recipe

        if not (self.folder / RECIPE).is_file():
            facts = facts_of_data(self.folder / DATA)
            used = time.monotonic() - self.begun
            left = None if self.budget is None or self.source.model else self.budget - used
            recipe, estimate = choose(
                self.source, facts, self.encoder, left, self.tell, imports=False, curve=self.curve
            )
            self.encoder = None  # free its memory
            write_recipe(self.folder, recipe)
            self.tell.say(found_line(facts))
            self.tell.say(
                f"recipe: {self.folder / RECIPE}; about {duration(estimate.total)} from here"
            )
            self.expected = dict(estimate.seconds)
        recipe = read_recipe(self.folder)
        if recipe.source != self.source:  # asked for again with other tables
            recipe = recipe.model_copy(update={"source": self.source})
            write_recipe(self.folder, recipe)
        return recipe

    def _data(self) -> None:
        from cxrtext.evaluation.data import find_table, manifest_of, reports_of
        from cxrtext.files import write_text
        from cxrtext.project.archive import prompts_of
        from cxrtext.project.layout import DATA, PROMPTS

        data = self.folder / DATA
        if (reports := reports_of(manifest_of(data))) is not None:
            labels = label_stage(self.folder, reports.name)
            if find_table(data, "labels") is None or self.progress.note(labels):
                self._do(labels)
        write_text(self.folder / PROMPTS, prompts_of(data))
        stems = ("manifest", "reports", "labels", "boxes")
        self.tables = [f"{DATA}/{t.name}" for stem in stems if (t := find_table(data, stem))]
        self._do(check_stage(self.folder, self.tables))

    def _models(self) -> None:
        from cxrtext.evaluation.data import manifest_of
        from cxrtext.files import write_private
        from cxrtext.project.facts import facts_of_data
        from cxrtext.project.layout import DATA, ENCODED, REPORTS
        from cxrtext.project.training_data import noted, training_data, write_training_data

        now, before = training_data(self.folder), noted(self.folder)
        text, images, trained = self._model_stages()
        stages = [*text, *images, *trained]
        if before is not None and before.serves(now, self.recipe.retrain_from):
            self.progress = Progress(self.folder, before.digest)
            if all(map(self.progress.is_done, stages)):
                if before.digest != now.digest:
                    self.tell.say(
                        f"the models stay: trained on {before.studies} studies, {now.studies} now; "
                        f"they are trained again from {self.recipe.retrain_from:g} times as many"
                    )
                return
        self.progress = Progress(self.folder, now.digest)
        if all(map(self.progress.is_done, stages)):
            return
        write_training_data(self.folder, now)
        for line in advice_on(facts_of_data(self.folder / DATA), self.recipe):
            self.tell.say(line)
        if self.recipe.frozen:
            write_private(
                self.folder / DATA / ENCODED, manifest_of(self.folder / DATA).read_bytes()
            )
        beside = []
        if cores() > 1 and not any(map(self.progress.is_done, [*images, text[-1]])):
            for encoder in images:
                beside_text = f"beside the text (its progress: {self._log(encoder)})"
                self.tell.say(f"{encoder.name}, {beside_text}{self._again(encoder)}")
                beside.append((encoder, self._start(encoder, self._log(encoder))))
        for stage in text:
            self._do(stage)
        for encoder, (process, begun) in beside:
            self._finish(encoder, process, begun, self._log(encoder))
        for stage in [*images, *trained]:
            self._do(stage)
        (self.folder / REPORTS).unlink(missing_ok=True)

    def _take_model(self, folder: Path) -> None:
        """Copy a finished model to where a trained one would be."""
        from cxrtext.models import load_model
        from cxrtext.models.checkpoint import checkpoint_fingerprint, copy_model
        from cxrtext.project.layout import CHECKPOINT

        best, model = self.folder / CHECKPOINT, load_model(folder)
        if best.is_dir() and checkpoint_fingerprint(best) == model.fingerprint:
            return
        copy_model(best, model)
        self.progress.took(training_stage(self.folder, self.recipe))
        self.tell.say(f"model: {model.spec.image_title}, as it is")

    def _model_stages(self) -> tuple[list[Stage], list[Stage], list[Stage]]:
        """The stages of the text, that of the images, and those that rest on both."""
        text, encoder = model_stages(self.folder, self.recipe)
        train = training_stage(self.folder, self.recipe)
        curve = self.recipe.learning_curve
        trained = curve_stages(self.folder, self.recipe, self.tables)[:-1] if curve else []
        return text, [encoder], [train, *trained]

    def _measure(self) -> "HowGood":
        from cxrtext.project.encoders import copy_of, keep_backbone
        from cxrtext.project.layout import CHECKPOINT

        if self.recipe.frozen:
            keep_backbone(self.folder / CHECKPOINT, copy_of(self.folder, self.recipe.frozen))
        if self.recipe.learning_curve:
            self._do(curve_stages(self.folder, self.recipe, self.tables)[-1])
        self._do(evaluation_stage(self.folder, self.recipe, self.tables))
        self._do(index_stage(self.folder, self.recipe, self.tables))
        return self._how_good()

    def _how_good(self) -> "HowGood":
        """What the evaluation kept with the model, plus the slope of the learning curve."""
        from cxrtext.evaluation import measure_file
        from cxrtext.evaluation.how_good import HowGood, with_curve
        from cxrtext.evaluation.predictions.file import NAME
        from cxrtext.models.checkpoint import checkpoint_fingerprint
        from cxrtext.models.folders import read_training
        from cxrtext.project.layout import CHECKPOINT, EVALUATION

        best = self.folder / CHECKPOINT
        fingerprint = checkpoint_fingerprint(best)
        good = HowGood.load(best, fingerprint) or HowGood(fingerprint=fingerprint)
        if self.recipe.learning_curve and good.measured:
            third = self.folder / CURVE
            pairs = (
                (third / "run/checkpoint-best", third / "evaluation"),
                (best, self.folder / EVALUATION),
            )
            trained = [
                (int(read_training(model)["studies"]), measure_file(to / NAME))
                for model, to in pairs
            ]
            good = with_curve(good, trained)
            good.save(best)
        return good

    def _write_settings(self) -> None:
        """Write the configurations of the trainings, and prompts unless the user wrote some."""
        import yaml

        from cxrtext.files import write_text
        from cxrtext.project.archive import prompts_of
        from cxrtext.project.layout import DATA
        from cxrtext.project.recipe import third_of

        about = "# Written by `cxrtext fit` from recipe.yaml; change it there.\n"
        train = self.recipe.config()
        for name, config in {"train": train, CURVE: third_of(train, CURVE)}.items():
            write_text(self.folder / f"{name}.yaml", about + yaml.safe_dump(config))
        if not (self.folder / "prompts.yaml").is_file():
            write_text(self.folder / "prompts.yaml", prompts_of(self.folder / DATA))

    # --- a stage ---

    def _log(self, stage: Stage) -> Path:
        return self.folder / LOGS / f"{file_of(stage.name)}.log"

    def _do(self, stage: Stage) -> None:
        """Do a stage unless it is done."""
        if self.progress.is_done(stage):
            return
        usual = self.expected.get(stage.name)
        about = f" (about {duration(usual)}, until {_clock(usual)})" if usual else ""
        self.tell.say(f"{stage.name}{about}{self._again(stage)}")
        if stage.trains:
            self._finish(stage, *self._start(stage, None), None)
            return
        from cxrtext.device import limited_threads

        begun = time.monotonic()
        with limited_threads(stage.threads):
            self._end(stage, begun, stage.work(self._begin(stage), self.tell))

    def _again(self, stage: Stage) -> str:
        again = self.progress.why_again(stage)
        return f", again: {again}" if again else ""

    def _begin(self, stage: Stage) -> bool:
        """Note that a stage begins; returns whether it can resume."""
        goes_on = self.progress.begin(stage)
        return bool(stage.state) and goes_on and (self.folder / stage.state).is_dir()

    def _start(self, stage: Stage, log: Path | None) -> tuple[Process, float]:
        begun, resume = time.monotonic(), self._begin(stage)
        process = self.running.start(self.folder, stage.name, stage.threads, log, resume=resume)
        return process, begun

    def _finish(self, stage: Stage, process: Process, begun: float, log: Path | None) -> None:
        self._end(stage, begun, self.running.finish(process, stage.name, log))

    def _end(self, stage: Stage, begun: float, made: str) -> None:
        seconds = time.monotonic() - begun
        self.progress.end(stage, seconds, made)
        self.tell.say(f"  {stage.name}, {duration(seconds)}: {made}")


def _clock(seconds: float) -> str:
    return time.strftime("%H:%M", time.localtime(time.time() + seconds))


def options_of(source: "Source", out: Path) -> "ImportOptions":
    """How to import an archive, depending on what it holds."""
    from cxrtext.project.archive import import_options, opened

    reading = opened(source, out)
    # with labels alone, reports are made from them
    alone = reading.reports is None and source.reports is None and bool(reading.findings)
    keep = tuple(name for name in KEPT if name in reading.offered)
    return replace(import_options(source), keep=keep, label_sentences=alone)


def choose(
    source: "Source",
    facts: "Facts",
    encoder: "GivenEncoder | None",
    budget: float | None,
    tell: Teller,
    *,
    imports: bool,
    curve: bool = True,
) -> "tuple[Recipe, Estimate]":
    """The recipe for an archive and a budget of seconds, and what it takes here."""
    from cxrtext.project.estimate import estimate, fitted, measure_speeds
    from cxrtext.project.recipe import choose_recipe

    if not facts.has_reports and not facts.has_labels:
        raise DataError(f"{source.archive}: no reports and no labels; give --reports TABLE")
    recipe = choose_recipe(source, facts, encoder, max(1, cores() - 1), curve=curve)

    measured: dict[tuple[Any, ...], Speeds] = {}

    def speeds_of(tried: "Recipe") -> "Speeds":
        key = tried.frozen, tried.image_encoder.crop, tried.language_model.size
        if key not in measured:
            network = encoder.at(tried.image_encoder.crop) if encoder and tried.frozen else None
            measured[key] = measure_speeds(tried, facts, network)
        return measured[key]

    if budget is not None:
        recipe = fitted(recipe, facts, speeds_of, budget, imports=imports)
    expected = estimate(recipe, facts, speeds_of(recipe), imports=imports)
    if budget is not None and expected.total > budget:
        tell.say(
            f"--budget: the smallest recipe takes about {duration(expected.total)} here, which is "
            "longer than asked"
        )
    return recipe, expected


def found_line(facts: "Facts") -> str:
    labels = "with labels" if facts.has_labels else "labels to be read from the reports"
    return (
        f"{facts.images:,} images of {facts.studies:,} studies, {facts.training:,} to train on; "
        f"shorter side {facts.side} px; {labels}"
    )


def advice_on(facts: "Facts", recipe: "Recipe") -> list[str]:
    """What to expect from a training; nothing for a finished model, or for drawings."""
    from cxrtext.project.outcome import advice
    from cxrtext.project.recipe import SMALL_SIDE

    if recipe.source.model or facts.side <= SMALL_SIDE:
        return []
    return advice(facts.tested, facts.training, given=recipe.image_encoder.encoder is not None)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run would do, and what it takes on this machine."""

    facts: "Facts"
    recipe: "Recipe"
    estimate: "Estimate"


def plan_of(fit: Fit) -> Plan:
    """Plan a run without writing anything."""
    from cxrtext.project.archive import facts_of_source
    from cxrtext.project.encoders import copy_of, find_encoder
    from cxrtext.project.estimate import estimate, measure_speeds
    from cxrtext.project.facts import facts_of_data
    from cxrtext.project.layout import DATA, RECIPE
    from cxrtext.project.recipe import read_recipe

    source, out = fit.source, fit.folder
    data = out / DATA
    imports = Path(source.archive).resolve() != data.resolve()
    if (data / "manifest.csv").is_file():
        facts = facts_of_data(data)
    else:
        facts = facts_of_source(source, out)
    if not (out / RECIPE).is_file():
        chosen = choose(source, facts, fit.encoder, fit.budget, fit.tell, imports=imports)
        return Plan(facts, *chosen)
    recipe, network = read_recipe(out), None
    if recipe.frozen:
        copy = copy_of(out, recipe.frozen)
        place, size = str(copy) if copy.is_dir() else recipe.frozen, recipe.image_encoder.crop
        network = find_encoder(place, size).backbone
    speeds = measure_speeds(recipe, facts, network)
    return Plan(facts, recipe, estimate(recipe, facts, speeds, imports=imports))


def duration(seconds: float) -> str:
    """Seconds in words."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"
