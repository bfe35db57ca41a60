"""SSD section 3.1: the true class probability of each image, where classes are unequally common."""

from cxrtext.experiments.experiment import Claim, Experiment, Group, Measure, Scale
from cxrtext.experiments.papers.recipes import ADAM, LARGE, cpu, row, smoke

FRACTIONS = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9)
SMALL = {0.1: ("smoke", "cpu", *LARGE), 0.5: ("cpu", *LARGE)}
"""The fractions that are trained below scale paper, and where."""
LABELS = (0.01, 0.1)
"""Fractions of the labels that the probe is trained with, beside all of them."""
OF_LABELS = tuple(Measure(f"accuracy, {100 * part:g} % of labels") for part in LABELS)
MEASURES = (Measure("accuracy"), Measure("accuracy, thinned classes"), *OF_LABELS)


def _group(r: float) -> Group:
    low, high = 0.2 * r / (1 + r), 0.2 / (1 + r)
    scales = SMALL.get(r, ("paper",))
    rows = (
        row(f"cl-{r:g}", "CL", "info-nce", scales=scales),
        row(f"dcl-low-{r:g}", f"DCL-η_Low, η = {low:.3f}", "dcl-eta", eta=low, scales=scales),
        row(f"dcl-high-{r:g}", f"DCL-η_High, η = {high:.3f}", "dcl-eta", eta=high, scales=scales),
        row(f"dcl-true-{r:g}", "DCL-η_True", "dcl-eta-true", scales=scales),
    )
    name, title, data = f"r-{r:g}", f"CIFAR10-{r:g}", f"cifar10-r-{r:g}"
    return Group(name, title, data, "labels", MEASURES, f"cl-{r:g}", rows)


def _claims(r: float) -> list[Claim]:
    """Figure 2: accuracy against r on the left; against the fraction of labels, at 0.5."""
    return [
        Claim(f"dcl-true-{r:g}", f"{other}-{r:g}", measure.name)
        for measure in (MEASURES[0], *(OF_LABELS if r == 0.5 else ()))
        for other in ("cl", "dcl-low", "dcl-high")
    ]


CIFAR10_R = Experiment(
    name="cifar10-r",
    summary="class probabilities of each image's own, CIFAR-10 with unequally common classes",
    title="CIFAR10-r: class probabilities of each image's own",
    source="Wang et al. 2023 (sample-specific debiasing), section 3.1, figures 2 and 4",
    question="is DCL-η_True more accurate than CL and than either constant η where classes are "
    "unequally common (r of 0.5 and below)?",
    given="cifar10",
    groups=tuple(_group(r) for r in FRACTIONS),
    settings={**ADAM, "batch": 128, "epochs": 300},
    scales={
        "smoke": smoke(400),
        "cpu": cpu(250),
        "gpu": Scale({"steps": 2000, "precision": "bfloat16"}),
        "paper": Scale({}),
    },
    claims=tuple(claim for r in FRACTIONS if r <= 0.5 for claim in _claims(r)),
    different=(
        "The paper gives figures 2 and 4 without numbers, so there is an order to compare and no "
        "column of the paper's.",
    ),
)
