"""CCL-K sections 4.1 to 4.3: weak supervision, fairness and hard negatives by kernels.

Source: Tsai et al. 2022 (CCL-K).
"""

from collections.abc import Mapping
from typing import Any

from cxrtext.experiments.experiment import (
    SCALES,
    Claim,
    Experiment,
    Group,
    Measure,
    Scale,
    Settings,
    Trial,
)
from cxrtext.experiments.papers.recipes import LARGE, LARS, RADIOGRAPHS, RESNET18, cpu, row, smoke

COLOR = ("red", "green", "blue")
ATTRIBUTES = ("attributes",)
"""The column stands for all of them."""
SIGMA = {"rbf": 2.0, "laplacian": 4.0}
"""In attributes that differ, of 28 that are 0 or 1."""
PLAIN: Settings = {"scale": (0.4, 1.0), "flip": 0.0, "gray": 0.0, "jitter": 0.0}
"""No color is changed, else every row would learn to leave it out; digits have no mirror."""


def _clusters(
    name: str,
    condition: tuple[str, ...],
    count: int,
    paper: Mapping[str, float],
    scales: tuple[str, ...],
) -> Trial:
    """A row of clusters: name is "Fair" or "WeaklySup"."""
    objective = f"{_SHORT[name]}-info-nce"
    title = f"{name}-InfoNCE, {count} clusters"
    return row(
        f"{objective}-{count}", title, objective, paper, scales=scales, condition=condition,
        clusters=count,
    )  # fmt: skip


def _kernel(
    name: str,
    kernel: str,
    paper: Mapping[str, float],
    scales: tuple[str, ...],
    condition: tuple[str, ...] = (),
    sigma: float | None = None,
) -> Trial:
    """A row of a kernel: name is "Fair", "WeaklySup" or "HardNeg"."""
    objective = f"{_SHORT[name]}-cclk"
    compared = {"name": kernel, **({} if sigma is None else {"sigma": sigma})}
    keys: dict[str, Any] = {"condition": condition} if condition else {}
    title = f"{name}-CCLK, {kernel}"
    return row(
        f"{objective}-{kernel}", title, objective, paper, scales=scales, kernel=[compared], **keys
    )


_SHORT = {"Fair": "fair", "WeaklySup": "weaksup", "HardNeg": "hardneg"}


def _fair(accuracy: float, error: float) -> dict[str, float]:
    return {"accuracy": accuracy, "color MSE": error}


WEAKSUP_CCLK = Experiment(
    name="weaksup-cclk",
    summary="attributes as weak labels, by clusters and by kernels, phantoms",
    title="Weakly supervised contrastive learning with kernels",
    source="Tsai et al. 2022 (CCL-K), section 4.1, table 2 (UT-Zappos)",
    question="do attributes help, more as a kernel (WeaklySup-CCLK) than as clusters "
    "(WeaklySup-InfoNCE), over InfoNCE?",
    given=None,
    groups=(
        Group(
            "phantoms", "Drawn radiographs with attributes; the paper's figures are of UT-Zappos",
            "phantoms-attributes", "kinds", (Measure("accuracy", apart=0.7), Measure("AUC", 3)),
            "info-nce",
            (
                row("info-nce", "InfoNCE", "info-nce", {"accuracy": 77.8}),
                *(
                    _clusters("WeaklySup", ATTRIBUTES, count, paper, scales)
                    for count, paper, scales in (
                        (10, {}, LARGE), (30, {"accuracy": 84.6}, SCALES), (100, {}, LARGE),
                    )
                ),
                *(
                    _kernel(
                        "WeaklySup", kernel, {"accuracy": accuracy}, scales, ATTRIBUTES,
                        SIGMA.get(kernel),
                    )
                    for kernel, accuracy, scales in (
                        ("cosine", 86.6, SCALES), ("rbf", 86.5, SCALES),
                        ("laplacian", 86.8, LARGE), ("linear", 86.5, LARGE),
                    )
                ),
                row("supcon", "SupCon by the class itself (bound)", "supervised"),
            ),
            RADIOGRAPHS,
        ),
    ),
    settings={**LARS, "batch": 152, "epochs": 1000, "lr": 1.5 * 152 / 256, "gamma_sq": 10.0},
    scales={
        "smoke": smoke(settings=RESNET18, studies=120),
        "cpu": cpu(250, RESNET18, None, studies=3000),
        "gpu": Scale(
            {**RESNET18, "head": (512, 128), "batch": 128, "steps": 800, "precision": "bfloat16"},
            studies=12_000, side=64,
        ),
        "paper": Scale({}, studies=50_000, side=64),
    },
    different=(
        "Drawn radiographs stand in for UT-Zappos, CUB and ImageNet-100, which cannot be had: the "
        "attributes are the findings, their places and their severities; the class is which of "
        "five findings is there (none, one of them alone, several), for the shoe's category.",
        "The paper's figures are of UT-Zappos: only the order can be compared. Its number of "
        "clusters was chosen by cross-validation; here 30, and 10 and 100 at larger scales.",
        "Temperature (γ² = 10), the widths of kernels and random crops are ours. Below scale "
        "paper: ResNet-18 and Adam for ResNet-50 and LARS.",
    ),
)  # fmt: skip

DIGITS = Group(
    "color-mnist",
    "ColorMNIST: the digit, and how poorly the color is predicted (tables 3, 5 and 8)",
    "color-mnist", "digit-color",
    (Measure("accuracy", apart=0.9), Measure("color MSE", apart=5.0)), "info-nce",
    (
        row("info-nce", "InfoNCE", "info-nce", _fair(84.1, 48.8)),
        *(
            _clusters("Fair", COLOR, count, _fair(*paper), SCALES if count == 10 else LARGE)
            for count, *paper in (
                (3, 82.12, 56.27), (5, 84.55, 58.67), (10, 85.90, 64.91), (15, 85.22, 65.02),
                (20, 84.23, 65.11),
            )
        ),
        *(
            _kernel("Fair", kernel, _fair(*paper), scales, COLOR)
            for kernel, scales, *paper in (
                ("cosine", SCALES, 86.4, 64.7), ("rbf", SCALES, 86.2, 57.6),
                ("polynomial", LARGE, 86.7, 61.3), ("laplacian", LARGE, 85.0, 72.8),
            )
        ),
    ),
    {"encoder": "lenet5", "augmentation": PLAIN},
)  # fmt: skip

SITES = Group(
    "phantoms", "Drawn radiographs: findings, and how poorly the site is predicted",
    "phantoms-site", "findings-site", (Measure("AUC", 3), Measure("site accuracy", smaller=True)),
    "phantom-info-nce",
    (
        row("phantom-info-nce", "InfoNCE", "info-nce"),
        row(
            "phantom-fair-info-nce", "Fair-InfoNCE, the site", "fair-info-nce",
            condition=("site",),
        ),
        row("phantom-fair-cclk", "Fair-CCLK, the site", "fair-cclk", condition=("site",)),
    ),
    {
        "optimizer": "adam", "lr": 1e-3, "weight_decay": 1e-6,
        "augmentation": {**PLAIN, "scale": (0.5, 1.0)},
    },
)  # fmt: skip

FAIR_CCLK = Experiment(
    name="fair-cclk",
    summary="features that leave out a color or a site, ColorMNIST and phantoms",
    title="Fair contrastive learning with kernels",
    source="Tsai et al. 2022 (CCL-K), section 4.2, tables 3, 5 and 8",
    question="do Fair-InfoNCE and Fair-CCLK tell the digit better than InfoNCE and the background "
    "color worse? And on radiographs: does the site become unpredictable while findings stay?",
    given="mnist",
    groups=(DIGITS, SITES),
    settings={
        "encoder": "resnet18", "width": 64, "head": (128, 128), "batch": 256, "steps": 1175,
        "lr": 1.5, "weight_decay": 1e-6, "gamma_sq": 10.0, "optimizer": "lars",
    },
    scales={
        "smoke": smoke(200, studies=120),
        "cpu": Scale(
            {}, {"phantoms": {"width": 16, "batch": 64, "steps": 200}}, studies=3000, device="cpu"
        ),
        "gpu": Scale(
            {}, {"phantoms": {"batch": 128, "steps": 800, "precision": "bfloat16"}},
            studies=12_000, side=64,
        ),
        "paper": Scale({}, {"phantoms": {"epochs": 50, "batch": 128}}, studies=20_000, side=64),
    },
    claims=(
        Claim("fair-cclk-cosine", "fair-info-nce-10", "accuracy"),
        Claim("phantom-fair-info-nce", "phantom-info-nce", "site accuracy"),
        Claim("phantom-fair-cclk", "phantom-info-nce", "site accuracy"),
    ),
    different=(
        "The paper gives neither temperature nor augmentation: γ² = 10 and random crops are ours. "
        "Colors are not changed, since that alone would make every row leave them out.",
        "Color MSE is the mean over red, green and blue of 8-bit values, by ridge regression from "
        "the features; the paper does not state its unit, so compare the order and the ratio.",
        "The digits' strokes are those with gray values of 128 and more.",
        "The radiographs are not in the paper: the site is the drawing's scanner, compared by δ; "
        "clusters are the sites themselves.",
    ),
)  # fmt: skip

HARDNEG_CCLK = Experiment(
    name="hardneg-cclk",
    summary="hard negatives by kernels, CIFAR-10",
    title="Hard negatives with kernels",
    source="Tsai et al. 2022 (CCL-K), section 4.3, tables 4 to 6 (setting 1)",
    question="is HardNeg-CCLK more accurate than HardNeg-InfoNCE, and that more than InfoNCE?",
    given="cifar10",
    groups=(
        Group(
            "cifar10", "CIFAR-10", "cifar10", "classes-lbfgs", (Measure("accuracy", apart=0.25),),
            "info-nce",
            (
                row("info-nce", "InfoNCE", "info-nce", {"accuracy": 89.9}),
                row(
                    "hardneg-info-nce", "HardNeg-InfoNCE", "hard-negative", {"accuracy": 91.4},
                    tau_plus=0.1, beta=1.0,
                ),
                _kernel("HardNeg", "rbf", {"accuracy": 91.7}, SCALES),
                _kernel("HardNeg", "linear", {"accuracy": 91.5}, LARGE),
                _kernel("HardNeg", "polynomial", {"accuracy": 90.3}, LARGE),
            ),
        ),
    ),
    settings={**LARS, "batch": 256, "epochs": 400, "lr": 1.5, "gamma_sq": 2.0},
    scales={
        "smoke": smoke(200, RESNET18),
        "cpu": cpu(400, RESNET18),
        "gpu": Scale({**RESNET18, "head": (512, 128), "steps": 1500, "precision": "bfloat16"}),
        "paper": Scale({}),
    },
    different=(
        "Below scale paper: ResNet-18 and Adam for ResNet-50 and LARS, which want long training.",
        "Temperature (γ² = 2), τ⁺ = 0.1, β = 1 and the width of the kernel are ours; the paper "
        "gives none. The cosine schedule is ours too.",
    ),
)  # fmt: skip
