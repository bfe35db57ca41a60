"""SSD section 3.1: the true class probability of each image, where classes are unequally common."""

from cxrtext.experiments.experiment import Claim, Experiment, Group, Measure, Scale, Trial

FRACTIONS = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9)
AT_SMALL_SCALE = (0.1, 0.5)
LABELS = (0.01, 0.1)
"""Fractions of the labels that the probe is trained with, beside all of them."""

ACCURACY = "accuracy"
MEASURES = (
    Measure(ACCURACY),
    Measure("accuracy, thinned classes"),
    *(Measure(f"accuracy, {100 * part:g} % of labels") for part in LABELS),
)


def _group(r: float) -> Group:
    scales = ("cpu", "gpu", "paper") if r in AT_SMALL_SCALE else ("paper",)
    if r == AT_SMALL_SCALE[0]:
        scales = ("smoke", *scales)
    low, high = 0.2 * r / (1 + r), 0.2 / (1 + r)
    objectives = (
        ("cl", "CL", {"name": "info-nce"}),
        ("dcl-low", f"DCL-η_Low, η = {low:.3f}", {"name": "dcl-eta", "eta": low}),
        ("dcl-high", f"DCL-η_High, η = {high:.3f}", {"name": "dcl-eta", "eta": high}),
        ("dcl-true", "DCL-η_True", {"name": "dcl-eta-true"}),
    )
    return Group(
        name=f"r-{r:g}",
        title=f"CIFAR10-{r:g}",
        data=f"cifar10-r-{r:g}",
        probe="labels",
        measures=MEASURES,
        baseline=f"cl-{r:g}",
        trials=tuple(
            Trial(f"{name}-{r:g}", title, {"objective": objective}, scales=scales)
            for name, title, objective in objectives
        ),
    )


def _claims(r: float) -> list[Claim]:
    """Figure 2: accuracy against r on the left; against the fraction of labels, at 0.5."""
    measures = MEASURES if r == 0.5 else MEASURES[:1]
    return [
        Claim(f"dcl-true-{r:g}", f"{other}-{r:g}", measure.name)
        for measure in measures
        if measure.name != "accuracy, thinned classes"
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
    settings={
        "encoder": "resnet18",
        "width": 64,
        "head": (512, 128),
        "batch": 128,
        "epochs": 300,
        "lr": 1e-3,
        "weight_decay": 1e-6,
        "gamma_sq": 2.0,
        "optimizer": "adam",
    },
    scales={
        "smoke": Scale(
            {"width": 2, "head": (16, 8), "batch": 16, "steps": 3},
            train=400, test=100, epochs=2, resamples=50, device="cpu",
        ),
        "cpu": Scale(
            {"width": 16, "head": (128, 128), "batch": 64, "steps": 250},
            train=10_000, device="cpu",
        ),
        "gpu": Scale({"steps": 2000, "precision": "bfloat16"}),
        "paper": Scale({}),
    },
    claims=tuple(claim for r in FRACTIONS if r <= 0.5 for claim in _claims(r)),
    different=(
        "The paper gives figures 2 and 4 without numbers, so there is an order to compare and no "
        "column of the paper's.",
    ),
)  # fmt: skip
