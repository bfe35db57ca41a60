"""The rows of SSD table 1: what each trains with, and what the paper reports."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cxrtext.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table.

    Args:
        name: As ``--rows`` takes it; also the name of its folder.
        title: As the table shows it.
        changes: The sections of the configuration in which it differs from every other row.
        paper: The paper's figures by measure; empty where the paper has no such row.
        paper_auc: The paper's AUC by finding, where it reports them.
        needs: A file of the data folder without which the row cannot be trained, or "".

    Source: Wang et al. 2023 (sample-specific debiasing), tables 1 and 3.
    """

    name: str
    title: str
    changes: Mapping[str, Mapping[str, Any]]
    paper: Mapping[str, float] = field(default_factory=dict)
    paper_auc: Mapping[str, float] = field(default_factory=dict)
    needs: str = ""


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
