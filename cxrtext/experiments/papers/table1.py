"""SSD table 1: its rows, what each trains with, what the paper reports, and its scales.

Source: Wang et al. 2023 (sample-specific debiasing), tables 1 and 3; section 3.2.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cxrtext.evaluation import paper
from cxrtext.experiments.experiment import Measure, Settings, Trial
from cxrtext.models.folders import DEFAULT_MODEL

CONFIG = "train.yaml"
"""What a run is trained with, in its folder."""

MEASURES = {
    name: Measure(name, 1 if name == "MedR" else 3, smaller=name == "MedR")
    for name in paper.TABLE1_COLUMNS
}
"""The columns of the table."""
BASELINE = "lse-nl"
"""The row that every other one is compared with: the same model, nothing corrected."""
PROPOSED = "dcl-eta-lm"
"""The row that the paper proposes."""


def _figure(printed: str) -> float:
    return float(printed) if "." in printed else int(printed)


def _row(
    name: str,
    title: str,
    objective: str = "",
    needs: str = "",
    sections: Settings | None = None,
    **keys: Any,
) -> Trial:
    """A row with its figures in the paper; its objective is that of its name by default."""
    areas = paper.TABLE3.get(paper.PROPOSED if name == PROPOSED else title, ())
    return Trial(
        name,
        title,
        {"objective": {"name": objective or name, **keys}, **(sections or {})},
        dict(zip(MEASURES, map(_figure, paper.TABLE1.get(title, ())), strict=False)),
        needs=needs,
        paper_auc=dict(zip(paper.TABLE3_COLUMNS, map(_figure, areas), strict=False)),
    )


TABLE1 = (
    _row(
        "biovil", "BioViL", "info-nce", symmetric=True,
        sections={"model": {"similarity": "global"}, "training": {"mlm_weight": 0.1}},
    ),
    _row(BASELINE, "LSE+NL", "info-nce"),
    _row("remove-by-labels", "remove by CheX5 labels", needs="labels.csv"),
    _row("resample-by-text", "resample by text similarity"),
    _row("remove-by-text", "remove by text similarity"),
    _row("reweight-by-text", "reweight by text similarity"),
    _row("dcl-eta-0.05", "DCL-η, η = 0.05", "dcl-eta", eta=0.05),
    _row("dcl-eta-0.1", "DCL-η, η = 0.1", "dcl-eta", eta=0.1),
    _row(PROPOSED, "DCL-η_LM"),
    _row("dcl-eta-true", "DCL-η_True", needs="truth.csv"),
)  # fmt: skip
"""Table 1, and below it the bound that only data with known classes allow.

The settings of a row are the sections of the configuration in which it differs from the others.
"""


@dataclass(frozen=True, slots=True)
class Scale:
    """How much data the table takes, and how long every row trains: the same for all.

    Phantoms to draw (0 where the data must be given), and their side in pixels; what
    ``pretrain_text`` is given, or the hub id of a model that is taken as it is; and the sections
    of the training configuration that all rows share.
    """

    studies: int
    size: int
    language_model: Mapping[str, Any] | str
    config: Mapping[str, Mapping[str, Any]]
    split: str = "test"
    resamples: int = 2000


SCALES = {
    # So few patients are held out that a finding may be missing among them: "all" is measured.
    "smoke": Scale(
        studies=60,
        size=64,
        language_model={"vocabulary_size": 300, "hidden": 32, "layers": 1, "heads": 2, "epochs": 1},
        config={
            "data": {"resize": 64, "crop": 48},
            "model": {"image": "resnet-narrow", "dimension": 16},
            "training": {
                "steps": 8, "batch": 16, "sentences": 2, "lr": 1e-3, "warmup": 2,
                "precision": "float32", "device": "cpu",
                "log_every": 2, "validate_every": 4, "save_every": 2,
            },
        },
        split="all",
        resamples=200,
    ),
    "cpu": Scale(
        studies=4000,
        size=128,
        language_model={"size": "demo"},
        config={
            "data": {"resize": 128, "crop": 112},
            "model": {"image": "resnet-narrow"},
            "training": {
                "steps": 800, "batch": 64, "sentences": 6, "lr": 3e-3, "warmup": 40,
                "precision": "float32", "device": "cpu",
                "log_every": 10, "validate_every": 200, "save_every": 100,
            },
        },
    ),
    "gpu": Scale(
        studies=20_000,
        size=256,
        language_model={"size": "compact"},
        config={
            "data": {"resize": 256, "crop": 224},
            "model": {"image": "resnet18"},
            "training": {
                "steps": 4000, "batch": 256, "sentences": 6, "lr": 1e-3, "warmup": 200,
                "precision": "bfloat16", "device": "auto",
                "log_every": 20, "validate_every": 500, "save_every": 200,
            },
        },
    ),
    # SSD section 3.2, as configs/ssd-mimic-cxr.yaml has it: without clipping, without centering.
    "paper": Scale(
        studies=0,
        size=0,
        language_model=DEFAULT_MODEL,
        config={
            "data": {"resize": 512, "crop": 480},
            "model": {"image": "resnet18", "dimension": 128},
            "training": {
                "steps": 100_000, "batch": 64, "sentences": 1, "lr": 1e-5, "warmup": 2000,
                "clip": 0.0, "center_projections": False,
                "precision": "auto", "device": "auto",
                "log_every": 20, "validate_every": 2000, "save_every": 2000,
            },
        },
    ),
}  # fmt: skip
