"""SSD table 1: its rows, what each trains with, what the paper reports, and its scales.

Source: Wang et al. 2023 (sample-specific debiasing), tables 1 and 3; section 3.2.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cxrtext.errors import ConfigError
from cxrtext.models.folders import DEFAULT_MODEL


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table, named as ``--rows`` takes it.

    ``changes`` are the sections of the configuration in which it differs from every other row;
    ``paper`` the paper's figures by measure, ``paper_auc`` its AUC by finding, as far as it has
    them; ``needs`` a file of the data folder without which the row cannot be trained.
    """

    name: str
    title: str
    changes: Mapping[str, Mapping[str, Any]]
    paper: Mapping[str, float] = field(default_factory=dict)
    paper_auc: Mapping[str, float] = field(default_factory=dict)
    needs: str = ""


CONFIG = "train.yaml"
"""What a run is trained with, in its folder."""

MEASURES = ("AUC", "ACC", "CNR", "mIoU", "Recall", "MedR")
"""The columns of the table; a smaller MedR is better, of the others a larger one is."""

BASELINE = "lse-nl"
"""The row that every other one is compared with: the same model, nothing corrected."""

PROPOSED = "dcl-eta-lm"
"""The row that the paper proposes."""

_FINDINGS = ("Cardiomegaly", "Edema", "Pleural Effusion", "Pneumonia", "Pneumothorax")


def _paper(*figures: float) -> dict[str, float]:
    return dict(zip(MEASURES, figures, strict=True))


def _areas(*areas: float) -> dict[str, float]:
    return dict(zip(_FINDINGS, areas, strict=True))


def _objective(name: str, **more: Any) -> dict[str, dict[str, Any]]:
    return {"objective": {"name": name, **more}}


TABLE1 = (
    Row(
        "biovil",
        "BioViL",
        {
            "model": {"similarity": "global"},
            "objective": {"name": "info-nce", "symmetric": True},
            "training": {"mlm_weight": 0.1},
        },
        _paper(0.78, 0.62, 1.14, 0.17, 0.25, 148),
        _areas(0.752, 0.887, 0.914, 0.768, 0.594),
    ),
    Row(
        BASELINE,
        "LSE+NL",
        _objective("info-nce"),
        _paper(0.79, 0.65, 1.40, 0.19, 0.29, 115),
        _areas(0.888, 0.876, 0.798, 0.853, 0.526),
    ),
    Row(
        "remove-by-labels",
        "remove by CheX5 labels",
        _objective("remove-by-labels"),
        _paper(0.86, 0.71, 1.37, 0.19, 0.29, 113),
        needs="labels.csv",
    ),
    Row(
        "resample-by-text",
        "resample by text similarity",
        _objective("resample-by-text"),
        _paper(0.82, 0.71, 1.37, 0.19, 0.30, 111),
    ),
    Row(
        "remove-by-text",
        "remove by text similarity",
        _objective("remove-by-text"),
        _paper(0.84, 0.72, 1.39, 0.19, 0.30, 112),
    ),
    Row(
        "reweight-by-text",
        "reweight by text similarity",
        _objective("reweight-by-text"),
        _paper(0.84, 0.69, 1.40, 0.19, 0.29, 113),
    ),
    Row(
        "dcl-eta-0.05",
        "DCL-η, η = 0.05",
        _objective("dcl-eta", eta=0.05),
        _paper(0.80, 0.72, 1.46, 0.19, 0.30, 104),
    ),
    Row(
        "dcl-eta-0.1",
        "DCL-η, η = 0.1",
        _objective("dcl-eta", eta=0.1),
        _paper(0.85, 0.72, 1.45, 0.19, 0.29, 111),
    ),
    Row(
        PROPOSED,
        "DCL-η_LM",
        _objective("dcl-eta-lm"),
        _paper(0.86, 0.72, 1.49, 0.20, 0.30, 104),
        _areas(0.884, 0.889, 0.913, 0.861, 0.760),
    ),
    Row("dcl-eta-true", "DCL-η_True", _objective("dcl-eta-true"), needs="truth.csv"),
)
"""Table 1, and below it the bound that only data with known classes allow."""


def choose_rows(names: Sequence[str] | None) -> tuple[Row, ...]:
    """The rows of some names, in the order of the table; None is all.

    Raises:
        ConfigError: A name is not one of the table's.
    """
    if names is None:
        return TABLE1
    known = {row.name: row for row in TABLE1}
    for name in names:
        if name not in known:
            raise ConfigError(f"--rows: there is no row '{name}'; there are {', '.join(known)}")
    if not names:
        raise ConfigError(f"--rows: names no row; there are {', '.join(known)}")
    return tuple(row for row in TABLE1 if row.name in names)


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
        language_model={
            "vocabulary_size": 300,
            "hidden": 32,
            "layers": 1,
            "heads": 2,
            "epochs": 1,
        },
        config={
            "data": {"resize": 64, "crop": 48},
            "model": {"image": "resnet-narrow", "dimension": 16},
            "training": {
                "steps": 8,
                "batch": 16,
                "sentences": 2,
                "lr": 1e-3,
                "warmup": 2,
                "precision": "float32",
                "device": "cpu",
                "log_every": 2,
                "validate_every": 4,
                "save_every": 2,
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
                "steps": 800,
                "batch": 64,
                "sentences": 6,
                "lr": 3e-3,
                "warmup": 40,
                "precision": "float32",
                "device": "cpu",
                "log_every": 10,
                "validate_every": 200,
                "save_every": 100,
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
                "steps": 4000,
                "batch": 256,
                "sentences": 6,
                "lr": 1e-3,
                "warmup": 200,
                "precision": "bfloat16",
                "device": "auto",
                "log_every": 20,
                "validate_every": 500,
                "save_every": 200,
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
                "steps": 100_000,
                "batch": 64,
                "sentences": 1,
                "lr": 1e-5,
                "warmup": 2000,
                "clip": 0.0,
                "center_projections": False,
                "precision": "auto",
                "device": "auto",
                "log_every": 20,
                "validate_every": 2000,
                "save_every": 2000,
            },
        },
    ),
}


def scale_named(name: str) -> Scale:
    """The scale of a name.

    Raises:
        ConfigError: There is none.
    """
    if name not in SCALES:
        raise ConfigError(f"--scale {name}: is not one of {', '.join(SCALES)}")
    return SCALES[name]
