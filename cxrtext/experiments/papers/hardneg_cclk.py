"""CCL-K section 4.3: hard negatives by the similarity of embeddings."""

from cxrtext.experiments.experiment import Experiment, Group, Measure, Scale, Trial


def _kernel(name: str, accuracy: float, scales: tuple[str, ...]) -> Trial:
    objective = {"name": "hardneg-cclk", "kernel": [{"name": name}]}
    return Trial(
        f"hardneg-cclk-{name}",
        f"HardNeg-CCLK, {name}",
        {"objective": objective},
        {"accuracy": accuracy},
        scales,
    )


ROWS = (
    Trial("info-nce", "InfoNCE", {"objective": {"name": "info-nce"}}, {"accuracy": 89.9}),
    Trial(
        "hardneg-info-nce",
        "HardNeg-InfoNCE",
        {"objective": {"name": "hard-negative", "tau_plus": 0.1, "beta": 1.0}},
        {"accuracy": 91.4},
    ),
    _kernel("rbf", 91.7, ("smoke", "cpu", "gpu", "paper")),
    _kernel("linear", 91.5, ("gpu", "paper")),
    _kernel("polynomial", 90.3, ("gpu", "paper")),
)

_SMALL = {"encoder": "resnet18", "optimizer": "adam", "lr": 1e-3}

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
            "info-nce", ROWS,
        ),
    ),
    settings={
        "encoder": "resnet50",
        "width": 64,
        "head": (2048, 2048, 128),
        "head_norm": True,
        "batch": 256,
        "epochs": 400,
        "lr": 1.5,
        "weight_decay": 1e-6,
        "gamma_sq": 2.0,
        "optimizer": "lars",
        "schedule": "cosine",
    },
    scales={
        "smoke": Scale(
            {**_SMALL, "width": 2, "head": (16, 8), "batch": 16, "steps": 3},
            train=200, test=100, steps=5, resamples=50, device="cpu",
        ),
        "cpu": Scale(
            {**_SMALL, "width": 16, "head": (128, 128), "batch": 64, "steps": 400},
            train=10_000, device="cpu",
        ),
        "gpu": Scale(
            {**_SMALL, "head": (512, 128), "steps": 1500, "precision": "bfloat16"},
        ),
        "paper": Scale({}),
    },
    different=(
        "Below scale paper: ResNet-18 and Adam for ResNet-50 and LARS, which want long training.",
        "Temperature (γ² = 2), τ⁺ = 0.1, β = 1 and the width of the kernel are ours; the paper "
        "gives none. The cosine schedule is ours too.",
    ),
)  # fmt: skip
