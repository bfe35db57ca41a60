"""CCL-K section 4.1: positives with similar attributes."""

from typing import Any

from cxrtext.experiments.experiment import Experiment, Group, Measure, Scale, Trial

LARGE = ("gpu", "paper")
ATTRIBUTES = ("attributes",)
"""The column stands for all of them."""

MEASURES = (Measure("accuracy", apart=0.7), Measure("AUC", 3))
SIGMA = {"rbf": 2.0, "laplacian": 4.0}
"""In attributes that differ, of 28 that are 0 or 1."""


def _kernel(name: str, accuracy: float, scales: tuple[str, ...]) -> Trial:
    width = {"sigma": SIGMA[name]} if name in SIGMA else {}
    kernel: dict[str, Any] = {"name": name, **width}
    objective = {"name": "weaksup-cclk", "condition": ATTRIBUTES, "kernel": [kernel]}
    title = f"WeaklySup-CCLK, {name}"
    paper = {"accuracy": accuracy}
    return Trial(f"weaksup-cclk-{name}", title, {"objective": objective}, paper, scales)


def _clusters(count: int, paper: dict[str, float], scales: tuple[str, ...]) -> Trial:
    objective = {"name": "weaksup-info-nce", "condition": ATTRIBUTES, "clusters": count}
    title = f"WeaklySup-InfoNCE, {count} clusters"
    return Trial(f"weaksup-info-nce-{count}", title, {"objective": objective}, paper, scales)


SMALL = ("smoke", "cpu", *LARGE)
ROWS = (
    Trial("info-nce", "InfoNCE", {"objective": {"name": "info-nce"}}, {"accuracy": 77.8}),
    _clusters(10, {}, LARGE),
    _clusters(30, {"accuracy": 84.6}, SMALL),
    _clusters(100, {}, LARGE),
    _kernel("cosine", 86.6, SMALL),
    _kernel("rbf", 86.5, SMALL),
    _kernel("laplacian", 86.8, LARGE),
    _kernel("linear", 86.5, LARGE),
    Trial("supcon", "SupCon by the class itself (bound)", {"objective": {"name": "supervised"}}),
)

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
            "phantoms-attributes", "kinds", MEASURES, "info-nce", ROWS,
            {"augmentation": {"scale": (0.5, 1.0), "flip": 0.0, "grey": 0.0}},
        ),
    ),
    settings={
        "encoder": "resnet50",
        "width": 64,
        "head": (2048, 2048, 128),
        "head_norm": True,
        "batch": 152,
        "epochs": 1000,
        "lr": 1.5 * 152 / 256,
        "weight_decay": 1e-6,
        "gamma_sq": 10.0,
        "optimizer": "lars",
        "schedule": "cosine",
    },
    scales={
        "smoke": Scale(
            {"encoder": "resnet18", "optimizer": "adam", "lr": 1e-3, "width": 2, "head": (16, 8),
             "batch": 16, "steps": 3},
            studies=120, steps=5, resamples=50, device="cpu",
        ),
        "cpu": Scale(
            {"encoder": "resnet18", "optimizer": "adam", "lr": 1e-3, "width": 16,
             "head": (128, 128), "batch": 64, "steps": 250},
            studies=3000, device="cpu",
        ),
        "gpu": Scale(
            {"encoder": "resnet18", "optimizer": "adam", "lr": 1e-3, "head": (512, 128),
             "batch": 128, "steps": 800, "precision": "bfloat16"},
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
