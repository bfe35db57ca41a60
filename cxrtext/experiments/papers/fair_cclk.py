"""CCL-K section 4.2: features that say little of a sensitive variable."""

from typing import Any

from cxrtext.experiments.experiment import Claim, Experiment, Group, Measure, Scale, Trial

COLOR = ("red", "green", "blue")
LARGE = ("gpu", "paper")
KERNELS = (
    ("cosine", 86.4, 64.7, True),
    ("rbf", 86.2, 57.6, True),
    ("polynomial", 86.7, 61.3, False),
    ("laplacian", 85.0, 72.8, False),
)
CLUSTERS = ((3, 82.12, 56.27), (5, 84.55, 58.67), (10, 85.90, 64.91), (15, 85.22, 65.02),
            (20, 84.23, 65.11))  # fmt: skip

PHANTOM_CROP = {"augmentation": {"scale": (0.5, 1.0), "flip": 0.0, "grey": 0.0, "jitter": 0.0}}


def _paper(accuracy: float, error: float) -> dict[str, float]:
    return {"accuracy": accuracy, "color MSE": error}


def _clusters(count: int, accuracy: float, error: float) -> Trial:
    objective: dict[str, Any] = {
        "name": "fair-info-nce", "condition": COLOR, "clusters": count
    }  # fmt: skip
    return Trial(
        f"fair-info-nce-{count}",
        f"Fair-InfoNCE, {count} clusters",
        {"objective": objective},
        _paper(accuracy, error),
        scales=("smoke", "cpu", *LARGE) if count == 10 else LARGE,
    )


def _kernel(name: str, accuracy: float, error: float, small: bool) -> Trial:
    objective = {"name": "fair-cclk", "condition": COLOR, "kernel": [{"name": name}]}
    return Trial(
        f"fair-cclk-{name}",
        f"Fair-CCLK, {name}",
        {"objective": objective},
        _paper(accuracy, error),
        scales=("smoke", "cpu", *LARGE) if small else LARGE,
    )


DIGITS = Group(
    "color-mnist",
    "ColorMNIST: the digit, and how badly the colour is told (tables 3, 5 and 8)",
    "color-mnist",
    "digit-color",
    (Measure("accuracy", apart=0.9), Measure("color MSE", apart=5.0)),
    "info-nce",
    (
        Trial("info-nce", "InfoNCE", {"objective": {"name": "info-nce"}}, _paper(84.1, 48.8)),
        *(_clusters(*one) for one in CLUSTERS),
        *(_kernel(*one) for one in KERNELS),
    ),
    {
        "encoder": "lenet5",
        # No colour is changed, else every row would learn to leave it out; digits have no mirror.
        "augmentation": {"scale": (0.4, 1.0), "flip": 0.0, "grey": 0.0, "jitter": 0.0},
    },
)

SITES = Group(
    "phantoms",
    "Drawn radiographs: findings, and how badly the site is told",
    "phantoms-site",
    "findings-site",
    (Measure("AUC", 3), Measure("site accuracy", smaller=True)),
    "phantom-info-nce",
    (
        Trial("phantom-info-nce", "InfoNCE", {"objective": {"name": "info-nce"}}),
        Trial(
            "phantom-fair-info-nce",
            "Fair-InfoNCE, the site",
            {"objective": {"name": "fair-info-nce", "condition": ("site",)}},
        ),
        Trial(
            "phantom-fair-cclk",
            "Fair-CCLK, the site",
            {"objective": {"name": "fair-cclk", "condition": ("site",)}},
        ),
    ),
    {"optimizer": "adam", "lr": 1e-3, "weight_decay": 1e-6, **PHANTOM_CROP},
)

FAIR_CCLK = Experiment(
    name="fair-cclk",
    summary="features that leave out a colour or a site, ColorMNIST and phantoms",
    title="Fair contrastive learning with kernels",
    source="Tsai et al. 2022 (CCL-K), section 4.2, tables 3, 5 and 8",
    question="do Fair-InfoNCE and Fair-CCLK tell the digit better than InfoNCE and the background "
    "colour worse? And on radiographs: does the site become unpredictable while findings stay?",
    given="mnist",
    groups=(DIGITS, SITES),
    settings={
        "encoder": "resnet18",
        "width": 64,
        "head": (128, 128),
        "batch": 256,
        "steps": 1175,
        "lr": 1.5,
        "weight_decay": 1e-6,
        "gamma_sq": 10.0,
        "optimizer": "lars",
    },
    scales={
        "smoke": Scale(
            {"width": 2, "head": (16, 8), "batch": 16, "steps": 3},
            train=200, test=100, studies=120, epochs=2, steps=5, resamples=50, device="cpu",
        ),
        "cpu": Scale(
            {},
            {"phantoms": {"width": 16, "batch": 64, "steps": 200}},
            studies=3000, device="cpu",
        ),
        "gpu": Scale(
            {},
            {"phantoms": {"batch": 128, "steps": 800, "precision": "bfloat16"}},
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
        "Colours are not changed, since that alone would make every row leave them out.",
        "Colour MSE is the mean over red, green and blue of 8-bit values, by ridge regression from "
        "the features; the paper does not state its unit, so compare the order and the ratio.",
        "The digits' strokes are those with grey values of 128 and more.",
        "The radiographs are not in the paper: the site is the drawing's scanner, compared by δ; "
        "clusters are the sites themselves.",
    ),
)  # fmt: skip
