"""Run experiments: train and measure the rows in turn, then draw the tables."""

import platform
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from cxrtext import __version__
from cxrtext.config import first_difference
from cxrtext.errors import ConfigError, CxrTextError, WorkError
from cxrtext.experiments.definition import (
    EXPERIMENTS,
    ExperimentListener,
    ExperimentOptions,
    Group,
    Outcome,
    Row,
    load_experiment,
)
from cxrtext.experiments.given import identity_of
from cxrtext.experiments.page import failed_lines, head_of, sections
from cxrtext.experiments.runs import (
    FORMAT,
    MEASURES,
    METRICS,
    Finished,
    Measures,
    Run,
    claim,
    machine,
    paired,
    read_json,
    read_measures,
    write_measures,
)
from cxrtext.experiments.table import group_table, order_of, trainings_of
from cxrtext.files import only_one, write_json, write_sealed, write_text
from cxrtext.page import html_page, markdown


class Work(Protocol):
    """What rows are trained on, and how: pairs (table 1), or views of small images."""

    def prepare(self, groups: Iterable[Group]) -> dict[str, Any]:
        """Make what all rows share; returns its notes."""

    def missing(self, needed: str) -> str:
        """Why these data cannot train a row that needs this file; "" if they can."""

    def settings(self, group: Group, row: Row, seed: int) -> dict[str, Any]:
        """What decides a run, as plain values."""

    def train(self, run: Run) -> tuple[dict[str, Any], Measures]:
        """Train and measure: ``steps``, ``images``, ``seconds``, ``device``; and the measures."""


def run_experiment(
    name: str,
    options: ExperimentOptions | None = None,
    listener: ExperimentListener | None = None,
) -> Outcome:
    """Run an experiment (one of ``EXPERIMENTS``), or resume it; nothing finished is repeated.

    The table is also written to ``table.html`` and ``table.json``.  If every row fails, a WorkError
    is raised; otherwise failed rows are in ``Outcome.failed``.
    """
    if name not in EXPERIMENTS:
        known = "; ".join(f"{key}: {what}" for key, what in EXPERIMENTS.items())
        raise ConfigError(f"there is no experiment '{name}'; there is {known}")
    asked, heard = options or ExperimentOptions(), listener or ExperimentListener()
    if asked.seeds is not None and asked.seeds < 1:
        raise ConfigError(f"--seeds {asked.seeds}: must be 1 or more")
    out = asked.out or Path("experiments") / f"{name}-{asked.scale}"
    if out.exists() and not out.is_dir():
        raise ConfigError(f"{out}: is a file; name a folder with --out")
    if name == "when-it-helps":
        for option in ("data", "features", "rows"):
            if getattr(asked, option) is not None:
                raise ConfigError(f"--{option}: when-it-helps takes none")
        from cxrtext.experiments.when_it_helps import when_it_helps

        return when_it_helps(asked, out, heard)
    return _Runner(name, asked, out, heard).run()


class _Runner:
    def __init__(
        self, name: str, options: ExperimentOptions, out: Path, listener: ExperimentListener
    ) -> None:
        self.name, self.options, self.out, self.listener = name, options, out, listener
        self.experiment = load_experiment(name)
        self.scale = self.experiment.scale(options.scale)
        self.rows = self.experiment.choose(options.scale, options.rows)
        self.failures: dict[str, list[dict[str, Any]]] = {}

    def _work(self) -> Work:
        # Imported here, because they need torch, and listing does not.
        if self.experiment.given == "pairs":
            from cxrtext.experiments.pairs import Pairs

            return Pairs(self.experiment, self.scale, self.options, self.out, self.listener)
        from cxrtext.experiments.small_images import SmallImages

        return SmallImages(self.experiment, self.scale, self.options, self.listener)

    def run(self) -> Outcome:
        identity = identity_of(self.experiment, self.options)
        work = self._work()
        with only_one(self.out / self.name):
            claim(self.out, {"experiment": self.name, **identity})
            stages = work.prepare(group for group, _ in self.rows)
            finished = self._train(work)
            return self._write({**self._table(finished), "stages": stages})

    def _train(self, work: Work) -> list[Finished]:
        finished: list[Finished] = []
        for _, row in self.rows:
            if row.needs and (line := work.missing(row.needs)):
                self._fail(row.name, None, line)
        rows = [(group, row) for group, row in self.rows if row.name not in self.failures]
        seeds = range(self.options.seeds or self.scale.seeds)
        for group, row, seed in ((*pair, seed) for seed in seeds for pair in rows):
            try:
                folder = self.out / "runs" / row.name / f"seed-{seed}"
                settings = work.settings(group, row, seed)
                one = self._finish(work, Run(row.name, seed, folder, group.name, settings))
                _check_paired(one, [other for other in finished if other.run.group == group.name])
                finished.append(one)
            except CxrTextError as error:
                self._fail(row.name, seed, str(error).splitlines()[0])
        if not finished:
            first = next(iter(failed_lines(self.failures)), "none was asked")
            raise WorkError(f"every row failed; the first, {first}")
        return finished

    def _fail(self, row: str, seed: int | None, line: str) -> None:
        self.failures.setdefault(row, []).append({"seed": seed, "line": line})
        self.listener.say(f"{row}{'' if seed is None else f', seed {seed}'}: failed: {line}")

    def _finish(self, work: Work, run: Run) -> Finished:
        """Train and measure a run, unless it is measured already."""
        path = run.folder / METRICS
        noted = read_json(path)
        # A key that only a newer version has is at its default, which the older version used.
        if noted and (d := first_difference(noted["settings"], run.settings, shared=True)):
            raise WorkError(
                f"{run.folder}: was trained with {d[0]} {d[1]!r}, not {d[2]!r}; remove the folder "
                "to train it again"
            )
        if not noted or noted["format"] != FORMAT or not (run.folder / MEASURES).is_file():
            trained, measures = work.train(run)
            if not measures:
                raise WorkError(f"{run.name}: nothing could be measured on these data")
            trained["machine"] = machine(trained.pop("device"))
            write_measures(run.folder / MEASURES, measures)
            noted = {"format": FORMAT, "settings": run.settings, "versions": versions(), **trained}
            write_sealed(path, noted)
            self.listener.say(f"{run.name}: done in {trained['seconds']:.0f} s")
        return Finished(run, noted, read_measures(run.folder / MEASURES))

    def _table(self, finished: Sequence[Finished]) -> dict[str, Any]:
        experiment, groups = self.experiment, {group.name: group for group, _ in self.rows}
        measures = {m.name: m for group in experiment.groups for m in group.measures}
        trainings = trainings_of(finished, self.scale.starts)
        tables = []
        for group in groups.values():
            rows = [row for other, row in self.rows if other.name == group.name]
            some = [one for one in finished if one.run.group == group.name]
            tables.append(group_table(group, rows, some, self.failures, self.scale.starts))
        data = self.options.data
        drawn = f"{self.scale.studies} drawn studies of {self.scale.size} px"
        return {
            "experiment": self.name,
            **{key: getattr(experiment, key) for key in ("title", "source", "question")},
            "different": list(experiment.different),
            "scale": self.options.scale,
            "given": drawn if data is None else f"'{data.resolve().name}'",
            "about": str(finished[0].noted.get("about", "")),
            "seeds": self.options.seeds or self.scale.seeds,
            "starts": self.scale.starts,
            "machine": "; ".join(sorted({one.noted["machine"] for one in finished})),
            "versions": ", ".join(f"{name} {version}" for name, version in versions().items()),
            "groups": tables,
            "order": order_of(experiment.all_claims(), trainings, measures),
        }

    def _write(self, table: Mapping[str, Any]) -> Outcome:
        heading, head = table["title"], head_of(table)
        written = (self.out / "table.html", self.out / "table.json")
        write_text(written[0], html_page(heading, sections(table), head=head))
        write_json(written[1], table)
        page = markdown(heading, sections(table), head)
        return Outcome(page, dict(table), written, tuple(failed_lines(self.failures)))


def _check_paired(one: Finished, others: Sequence[Finished]) -> None:
    """Refuse a run that was measured on other images than its group."""
    for other in others[:1]:
        # A model may have no such measure: a map that is flat in every box has no CNR.
        common = one.measures.keys() & other.measures.keys()
        if not all(paired(one.measures[name], other.measures[name]) for name in common):
            raise WorkError(
                f"{one.run.folder / MEASURES}: was measured on other images than "
                f"{other.run.name}; remove {METRICS} beside it, and the command measures again"
            )


def versions() -> dict[str, str]:
    import torch

    return {
        "cxrtext": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
