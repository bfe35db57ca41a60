"""When does a correction for false negatives help?  Simulated pairs, and the optimum of the losses.

A study has a class, a film around its class's center, and a sentence, one of the class's wordings.
Sentences are a table of vectors, films go through one hidden layer; sentences are the anchors.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cxrtext import objectives
from cxrtext.errors import ConfigError
from cxrtext.experiments.definition import ExperimentListener, ExperimentOptions, Outcome
from cxrtext.experiments.runs import claim, stage
from cxrtext.files import only_one, write_json, write_text
from cxrtext.metrics.intervals import quantile
from cxrtext.page import Figure, Section, Table, Text, draw_svg, html_page, markdown

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

CLASSES, PIXELS, HIDDEN, DIMENSION = 10, 100, 64, 16
SPREAD = 4.0
"""Deviation of films around their class's center; centers themselves have deviation 1."""
CONSTANT, A, K = 0.05, 0.2, 0.35
METHODS = {
    "info-nce": "InfoNCE",
    "constant": f"η = {CONSTANT}",
    "likelihood": f"η = {A} p^{K}",
    "true": "true η",
    "shuffled": "true η, shuffled",
    "removed": "removal",
}
"""p is the probability of the sentence; "shuffled" shuffles η among the anchors of a batch;
"removed" removes all negatives of the anchor's class."""
MEASURES = {"auc": "Films for a sentence: mean AUC", "accuracy": "Sentences for a film: accuracy"}
"""In percent: each sentence's AUC for films of its class; films whose best sentence is of theirs.
"""
STEPS = {"smoke": (5, 10), "cpu": (25, 50, 100, 200, 400)}
"""Steps after which the model is measured, by scale; the last is the end of training."""
FILMS = {"smoke": 200, "cpu": 2000}
"""As many each for training, validation and test."""


@dataclass(frozen=True, slots=True)
class Setting:
    """``common`` is the share of the most common class; the others are equally rare."""

    common: float = 0.6
    wordings: int = 4
    batch: int = 256
    gamma_sq: float = 14.0

    @property
    def prior(self) -> Tensor:
        rare = (1 - self.common) / (CLASSES - 1)
        return torch.tensor([self.common, *[rare] * (CLASSES - 1)])

    @property
    def false_negatives(self) -> float:
        """Expected number for an anchor in a batch: (batch − 1) · mean η."""
        return (self.batch - 1) * float(self.prior.square().sum())


BASE = Setting()
SETTINGS = {
    "base": BASE,
    "equal classes": replace(BASE, common=0.1),
    "equal, batch 32": replace(BASE, common=0.1, batch=32),
    "1 wording": replace(BASE, wordings=1),
    "20 wordings": replace(BASE, wordings=20),
    "batch 64": replace(BASE, batch=64),
    "γ² = 2": replace(BASE, gamma_sq=2.0),
}


@dataclass(frozen=True, slots=True)
class Studies:
    films: Tensor  # [n, PIXELS]
    classes: Tensor  # [n]
    sentences: Tensor  # [n], class · wordings + wording


def draw_studies(
    setting: Setting, centers: Tensor, count: int, generator: torch.Generator
) -> Studies:
    classes = torch.multinomial(setting.prior, count, True, generator=generator)
    films = centers[classes] + SPREAD * torch.randn(count, PIXELS, generator=generator)
    wording = torch.randint(setting.wordings, (count,), generator=generator)
    return Studies(films, classes, classes * setting.wordings + wording)


def measure(scores: Tensor, classes: Tensor, wordings: int) -> dict[str, float]:
    """``MEASURES`` for scores [films, sentences]."""
    from scipy.stats import rankdata

    ranks = rankdata(scores.numpy(), axis=0)
    areas = []
    for code in range(CLASSES):
        of_class = (classes == code).numpy()
        n, m = int(of_class.sum()), int((~of_class).sum())
        if n and m:
            sums = ranks[of_class, code * wordings : (code + 1) * wordings].sum(axis=0)
            areas.append(float(np.mean((sums - n * (n + 1) / 2) / (n * m))))
    right = (scores.argmax(dim=1) // wordings == classes).float().mean()
    return {"auc": 100 * float(np.mean(areas)), "accuracy": 100 * float(right)}


def optimum(posterior: Tensor, prior: Tensor, eta: Tensor | float, gamma_sq: float) -> Tensor:
    """Scores of the best possible model, up to a constant for each sentence: [films, classes].

    With many negatives and positives, InfoNCE (η = 0) ends in ``log r``, ``r = p(class | film) /
    p(class)``, and the debiased loss in ``log( (1 − η) r / (1 − η r) )``, with ``1 − η r`` at least
    its floor.  Both rise with r: the order of films for one sentence is the same, the order of
    sentences for one film is not.  With the true η, the latter is the order of odds ratios.

    Source: Poole et al. 2019 (InfoNCE); p⁻ = (p − η p⁺) / (1 − η) in SSD eq. 6.
    """
    ratio = posterior / prior
    eta = torch.as_tensor(eta)
    rest = (1 - eta * ratio).clamp(min=float(np.exp(-gamma_sq)))
    return torch.log((1 - eta) * ratio / rest)


def losses_of(
    method: str, setting: Setting, scores: Tensor, classes: Tensor, generator: torch.Generator
) -> Tensor:
    if method == "info-nce":
        return objectives.info_nce(scores)
    if method == "removed":
        return objectives.remove_negatives(scores, classes[:, None] == classes)
    eta = setting.prior[classes]
    if method == "constant":
        eta = torch.full_like(eta, CONSTANT)
    elif method == "likelihood":
        eta = objectives.class_probability((eta / setting.wordings).log(), A, K)
    elif method == "shuffled":
        eta = eta[torch.randperm(len(eta), generator=generator)]
    return objectives.debiased(scores, eta, setting.gamma_sq)


def train_pairs(
    method: str, setting: Setting, seed: int, parts: Sequence[Studies], steps: Sequence[int]
) -> Iterator[dict[str, Any]]:
    """Train on the first part; yields measures on validation and test after some steps."""
    batches, shuffles = (torch.Generator().manual_seed(2 * seed + k) for k in (0, 1))
    torch.manual_seed(seed)
    learn, validation, test = parts
    sentences = nn.Parameter(torch.randn(CLASSES * setting.wordings, DIMENSION) / DIMENSION**0.5)
    encoder = nn.Sequential(nn.Linear(PIXELS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, DIMENSION))
    optimizer = torch.optim.AdamW([sentences, *encoder.parameters()], lr=0.01)
    for step in range(1, steps[-1] + 1):
        rows = torch.randint(len(learn.classes), (setting.batch,), generator=batches)
        anchors = F.normalize(sentences[learn.sentences[rows]], dim=1)
        films = F.normalize(encoder(learn.films[rows]), dim=1)
        scores = setting.gamma_sq * anchors @ films.T
        loss = losses_of(method, setting, scores, learn.classes[rows], shuffles).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step in steps:
            measured: dict[str, Any] = {"step": step}
            for name, part in (("validation", validation), ("test", test)):
                with torch.no_grad():
                    films = F.normalize(encoder(part.films), dim=1)
                    scores = films @ F.normalize(sentences, dim=1).T
                measured[name] = measure(scores, part.classes, setting.wordings)
            yield measured


def run_setting(setting: Setting, seed: int, scale: str) -> dict[str, Any]:
    """All methods on the same studies and batches, and the optimum."""
    generator = torch.Generator().manual_seed(seed)
    centers = torch.randn(CLASSES, PIXELS, generator=generator)
    parts = [draw_studies(setting, centers, FILMS[scale], generator) for _ in range(3)]
    test = parts[2]
    distance = (test.films[:, None] - centers).square().sum(dim=2)
    posterior = (setting.prior.log() - distance / (2 * SPREAD**2)).softmax(dim=1).double()
    prior = setting.prior.double()
    best = {
        name: measure(optimum(posterior, prior, eta, setting.gamma_sq), test.classes, 1)
        for name, eta in (("info-nce", 0.0), ("constant", CONSTANT), ("true", prior))
    }
    best["bayes"] = measure(posterior, test.classes, 1)
    trained = {
        method: list(train_pairs(method, setting, seed, parts, STEPS[scale])) for method in METHODS
    }
    return {"optimum": best, "trained": trained}


def when_it_helps(options: ExperimentOptions, out: Path, listener: ExperimentListener) -> Outcome:
    """Train every method in every setting, and write the page: ``table.html``, ``table.json``."""
    if options.scale not in STEPS:
        raise ConfigError(f"--scale {options.scale}: is not one of {', '.join(STEPS)}")
    seeds = options.seeds or 3
    cells: dict[str, list[dict[str, Any]]] = {}
    with only_one(out / "when-it-helps"):
        claim(out, {"experiment": "when-it-helps", "scale": options.scale})
        for number, (name, setting) in enumerate(SETTINGS.items()):
            for seed in range(seeds):
                work = partial(run_setting, setting, seed, options.scale)
                note = stage(out, f"setting-{number}-{seed}", out, work)
                cells.setdefault(name, []).append(note)
                done = sum(map(len, cells.values()))
                listener.progress("settings", done, seeds * len(SETTINGS), "trainings of 6 methods")
        return _write(out, cells, options.scale, seeds)


def _write(out: Path, cells: Mapping[str, list[dict[str, Any]]], scale: str, seeds: int) -> Outcome:
    gains = {
        name: {
            measured: {stop: _gains(several, measured, stop) for stop in ("end", "stopped")}
            for measured in MEASURES
        }
        for name, several in cells.items()
    }
    figure = draw_svg(960, 640, partial(_draw, cells=cells, gains=gains))
    sections = [
        Section("At the optimum", [_optimum_table(cells)]),
        *(
            Section(
                title,
                [
                    Text("At the end of training:"),
                    _gains_table(gains, measured, "end"),
                    Text("Stopped by validation:"),
                    _gains_table(gains, measured, "stopped"),
                ],
            )
            for measured, title in MEASURES.items()
        ),
        Section("Paths", [Figure([(figure, "Paths of training, and gains by setting")])]),
    ]
    head = [
        Text(
            f"Simulated pairs, {seeds} seed(s), {FILMS[scale]} films, measured after "
            f"{', '.join(map(str, STEPS[scale]))} steps. Base: a common class of "
            f"{BASE.common:.0%}, nine rare ones, {BASE.wordings} wordings a class, batch "
            f"{BASE.batch}, γ² = {BASE.gamma_sq:g}. Gains are paired by seed, ± half a 95 % "
            "interval (Student's t over seeds)."
        )
    ]
    title = "When does a correction for false negatives help?"
    data = {"experiment": "when-it-helps", "scale": scale, "seeds": seeds, "gains": gains}
    data |= {"cells": {name: list(several) for name, several in cells.items()}}
    written = (out / "table.html", out / "table.json", out / "figure.svg")
    write_text(written[0], html_page(title, sections, head=head))
    write_json(written[1], data)
    write_text(written[2], figure.decode())
    return Outcome(markdown(title, sections, head), data, written)


def _values(
    several: Sequence[Mapping[str, Any]], method: str, measured: str, stop: str
) -> list[float]:
    """By seed, after the last step or the step with the highest AUC on validation films."""
    values = []
    for cell in several:
        path = cell["trained"][method]
        best = max(path, key=lambda step: step["validation"]["auc"])
        values.append((path[-1] if stop == "end" else best)["test"][measured])
    return values


def _gains(several: Sequence[Mapping[str, Any]], measured: str, stop: str) -> dict[str, Any]:
    base = np.array(_values(several, "info-nce", measured, stop))
    gains: dict[str, Any] = {"info-nce": {"value": float(base.mean())}}
    for method in list(METHODS)[1:]:
        gain = np.array(_values(several, method, measured, stop)) - base
        n, reach = len(gain), None
        if n > 1:
            reach = quantile(0.95, n - 1) * float(gain.std(ddof=1)) / n**0.5
        gains[method] = {"value": float(gain.mean()), "reach": reach}
    return gains


def _gains_table(gains: Mapping[str, Any], measured: str, stop: str) -> Table:
    lines = [["setting", "false negatives an anchor", *METHODS.values()]]
    for name, setting in SETTINGS.items():
        cells = gains[name][measured][stop]
        texts = [f"{cells['info-nce']['value']:.1f}"]
        for method in list(METHODS)[1:]:
            reach = cells[method]["reach"]
            tail = "" if reach is None else f" ± {reach:.1f}"
            texts.append(f"{cells[method]['value']:+.1f}{tail}")
        lines.append([name, f"{setting.false_negatives:.0f}", *texts])
    return Table(lines)


def _optimum_table(cells: Mapping[str, list[dict[str, Any]]]) -> Table:
    names = {"info-nce": "InfoNCE", "constant": METHODS["constant"], "true": "true η"}
    names["bayes"] = "most probable class"
    lines = [["setting", "measure", *names.values()]]
    for name in ("base", "equal classes"):
        for measured, title in MEASURES.items():
            means = [np.mean([c["optimum"][one][measured] for c in cells[name]]) for one in names]
            lines.append([name, title, *(f"{mean:.1f}" for mean in means)])
    return Table(lines)


def _draw(
    drawing: "Drawing",
    cells: Mapping[str, list[dict[str, Any]]],
    gains: Mapping[str, Mapping[str, Any]],
) -> None:
    axes = drawing.subplots(2, 2)
    for column, (measured, title) in enumerate(MEASURES.items()):
        path, bars = axes[0][column], axes[1][column]
        for number, (method, name) in enumerate(METHODS.items()):
            paths = [cell["trained"][method] for cell in cells["base"]]
            steps = [one["step"] for one in paths[0]]
            means = np.mean([[one["test"][measured] for one in each] for each in paths], axis=0)
            path.plot(steps, means, marker="o", label=name)
            if method == "info-nce":
                continue
            places = np.arange(len(gains)) + 0.15 * (number - 3)
            for stop, fill in (("end", "full"), ("stopped", "none")):
                shown = [gains[one][measured][stop][method] for one in gains]
                values, reach = ([one[key] or 0 for one in shown] for key in ("value", "reach"))
                bars.errorbar(
                    places,
                    values,
                    reach,
                    fmt="o",
                    fillstyle=fill,
                    color=f"C{number}",
                    elinewidth=0.5,
                )
        path.set(title=title, xscale="log", xlabel="steps (base setting)", ylabel="%")
        path.set_xticks(steps, [str(step) for step in steps])
        path.minorticks_off()
        bars.axhline(0, color="#56616c", linewidth=0.8)
        labels = [name.replace(",", "").replace(" ", "\n", 1) for name in gains]
        bars.set_xticks(range(len(gains)), labels)
        bars.set(title="Gain over InfoNCE: ● at the end, ○ stopped by validation", ylabel="points")
    axes[0][0].legend(ncols=2, fontsize=7)
