"""SSD table 1: its rows, what each trains with, what the paper reports, and its scales.

At all scales but "paper" every row goes on from a common aligned start, an InfoNCE run on an image
encoder that knows the words of findings: with both encoders locked, so that rows
differ by their objective and little else, and some rows once more with everything trained ("live").

Source: Wang et al. 2023 (sample-specific debiasing), tables 1 and 3; section 3.2.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cxrtext.evaluation import paper
from cxrtext.evaluation.classification.prompts import Prompts
from cxrtext.evaluation.rows import OF_FINDING
from cxrtext.evaluation.settings import TRUTH, TRUTH_BINS
from cxrtext.experiments.experiment import Claim, Measure, Settings, Trial
from cxrtext.models.folders import DEFAULT_MODEL

CONFIG = "train.yaml"
"""What a run is trained with, in its folder."""

MEASURES = {
    name: Measure(name, 1, smaller=True, paper_digits=0)
    if name == "MedR"
    else Measure(name, 3, paper_digits=2, most=None if name == "CNR" else 1)
    for name in paper.TABLE1_COLUMNS
}
"""The columns of the table."""
MORE_PROMPTS, TOP10 = "AUC, more prompts", "R@10, sentences"
BEYOND = {
    name: Measure(name, 3, table="What the paper does not measure", most=1)
    for name in (MORE_PROMPTS, TOP10, TRUTH, *TRUTH_BINS)
}
ALL_MEASURES = MEASURES | BEYOND
BY_FINDING = tuple(
    Measure(OF_FINDING + name, 3, table="AUC by finding", compared=False, most=1)
    for name in paper.TABLE3_COLUMNS
)
DIFFERENT = (
    "The paper's figures are of models trained on MIMIC-CXR: their order is to be compared, not "
    "their height.",
    "What the paper does not measure: AUC with several prompts a side; the share of sentences of "
    "reports whose image is among the first ten; and, known of drawn images alone, truthAUC: for "
    "each distinct sentence, AUC of its scores against the truth of what it says, mean over "
    "sentences; ρ is the probability that a sentence is true of a random study.",
)
PROMPTS = {
    "Cardiomegaly": Prompts(
        ("Cardiomegaly", "Cardiomegaly.", "The heart is enlarged."),
        ("Heart size normal", "Heart size is normal.", "The heart is normal in size."),
    ),
    "Edema": Prompts(
        ("Pulmonary edema", "Pulmonary edema.", "There is pulmonary edema."),
        ("No pulmonary edema", "No pulmonary edema.", "There is no pulmonary edema."),
    ),
    "Pleural Effusion": Prompts(
        (
            "Pleural effusions",
            "There is a left pleural effusion.",
            "There is a right pleural effusion.",
            "Bilateral pleural effusions.",
        ),
        ("No pleural effusions", "No pleural effusion.", "There is no pleural effusion."),
    ),
    "Pneumonia": Prompts(
        (
            "Findings suggesting pneumonia",
            "Findings suggesting pneumonia.",
            "There is a consolidation in the right lung.",
            "There is a consolidation in the left lung.",
        ),
        ("No signs of pneumonia", "No signs of pneumonia.", "No focal consolidation."),
    ),
    "Pneumothorax": Prompts(
        ("Pneumothorax", "There is a left pneumothorax.", "There is a right pneumothorax."),
        ("No pneumothorax", "No pneumothorax.", "There is no pneumothorax."),
    ),
}
"""Several phrasings a side, which are averaged: those of the demonstration."""
BASELINE = "lse-nl"
"""The row that every other one is compared with: the same model, nothing corrected."""
PROPOSED = "dcl-eta-lm"
"""The row that the paper proposes."""
OURS = "remove-by-report"
"""The row of an objective that is not in the paper."""
CEILING = "remove-by-truth"
"""The row that removes the false negatives themselves."""
LOCKED, LIVE = "locked", "live"


def table_row(
    name: str,
    title: str,
    objective: str = "",
    needs: str = "",
    sections: Settings | None = None,
    **keys: Any,
) -> Trial:
    """A row with the paper's figures, by default of its name's objective; ``keep`` is a share."""
    areas = paper.TABLE3.get(paper.PROPOSED if name == PROPOSED else title, ())
    printed = dict(zip(MEASURES, paper.TABLE1.get(title, ()), strict=False))
    printed |= dict(zip((one.name for one in BY_FINDING), areas, strict=False))
    return Trial(
        name,
        title,
        {"objective": {"name": objective or name, **keys}, **(sections or {})},
        {measure: float(figure) for measure, figure in printed.items()},
        needs=needs,
    )


TABLE1 = (
    table_row(
        "biovil", "BioViL", "info-nce", symmetric=True,
        sections={"model": {"similarity": "global"}, "training": {"mlm_weight": 0.1}},
    ),
    table_row(BASELINE, "LSE+NL", "info-nce"),
    table_row("remove-by-labels", "remove by CheX5 labels", needs="labels.csv"),
    table_row("resample-by-text", "resample by text similarity", keep=0.5),
    table_row("remove-by-text", "remove by text similarity"),
    table_row("reweight-by-text", "reweight by text similarity"),
    table_row("dcl-eta-0.05", "DCL-η, η = 0.05", "dcl-eta", eta=0.05),
    table_row("dcl-eta-0.1", "DCL-η, η = 0.1", "dcl-eta", eta=0.1),
    table_row(PROPOSED, "DCL-η_LM"),
    table_row("dcl-eta-true", "DCL-η_True", needs="truth.csv"),
    table_row(OURS, "remove by report"),
    table_row(CEILING, "true false negatives removed", needs="phantom.json"),
)  # fmt: skip
"""Table 1, and below it what is not in the paper: bounds that only data with known classes allow,
and an objective of ours.

The settings of a row are the sections of the configuration in which it differs from the others.
"""


def live(row: Trial) -> Trial:
    name, title = f"{LIVE}-{row.name}", f"{row.title}, live"
    return replace(row, name=name, title=title, column=LIVE, paper={})


@dataclass(frozen=True, slots=True)
class PairTable:
    """Rows that are trained on images and sentences with an equal budget, and their page.

    ``live`` are those that are also trained live unless ``--rows`` says otherwise; ``claims`` what
    the paper says beside what follows from its figures.
    """

    name: str
    heading: str
    question: str
    rows: tuple[Trial, ...]
    live: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()
    different: tuple[str, ...] = DIFFERENT

    def trials(self, scale: "Scale") -> tuple[tuple[Trial, ...], tuple[Trial, ...]]:
        """The rows that a scale can train, and those that it does by default."""
        if not scale.columns:
            return self.rows, self.rows
        locked = tuple(replace(row, column=LOCKED) for row in self.rows)
        moving = tuple(live(row) for row in self.rows)
        if LIVE not in scale.columns:
            return locked, locked
        usual = [row for row in moving if row.name.removeprefix(f"{LIVE}-") in self.live]
        return locked + moving, (*locked, *usual)


PAPER_TABLE = PairTable(
    "table1",
    "Table 1: correcting for false negatives",
    "which corrections for false negatives help, with an equal budget?",
    TABLE1,
    live=(BASELINE, "remove-by-labels", PROPOSED, OURS, CEILING),
)


@dataclass(frozen=True, slots=True)
class Scale:
    """How much data the table takes, and how long every row trains: the same for all.

    Phantoms to draw (0 where the data must be given), and their side in pixels; what
    ``pretrain_text`` is given, or the hub id of a model that is taken as it is; and the sections
    of the training configuration that all rows share.  ``seeds`` is the number of trainings a row.
    Where there are ``columns``, rows go on from a common start: ``image`` is what
    ``pretrain_image`` is given, ``start`` how the start is trained on it, and the columns how rows
    go on from there, all three beside what rows share.  Of several ``starts`` seed s has the
    (s modulo ``starts``)-th.
    """

    studies: int
    size: int
    language_model: Mapping[str, Any] | str
    config: Mapping[str, Mapping[str, Any]]
    split: str = "test"
    seeds: int = 1
    image: Mapping[str, Any] = field(default_factory=dict)
    start: Mapping[str, Any] = field(default_factory=dict)
    starts: int = 1
    columns: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


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
                "batch": 16, "sentences": 2, "lr": 1e-3, "warmup": 2,
                "precision": "float32", "device": "cpu",
                "log_every": 2, "validate_every": 4, "save_every": 2,
            },
        },
        split="all",
        image={"epochs": 1, "batch": 16, "warmup": 2},
        start={"steps": 4, "lock": ["image"]},
        columns={LOCKED: {"steps": 8, "lock": ["image", "text"]}, LIVE: {"steps": 4}},
    ),
    "cpu": Scale(
        studies=4000,
        size=128,
        language_model={"size": "demo"},
        config={
            "data": {"resize": 128, "crop": 112},
            "model": {"image": "resnet-narrow"},
            "training": {
                "batch": 64, "sentences": 6, "lr": 3e-3, "warmup": 30,
                "precision": "auto", "device": "cpu",
                "log_every": 10, "validate_every": 400, "save_every": 100,
            },
        },
        seeds=3,
        image={"sides": True},
        start={"steps": 400, "lock": ["image"]},
        columns={
            LOCKED: {"steps": 400, "lock": ["image", "text"]},
            LIVE: {"steps": 200, "lr": 1e-3},
        },
    ),
    "films": Scale(
        studies=0,
        size=0,
        language_model={"size": "compact"},
        config={
            "data": {"resize": 256, "crop": 224},
            "model": {"image": "resnet50-half", "position": "additive"},
            "training": {
                "batch": 64, "sentences": 4, "lr": 2e-3, "warmup": 30,
                "precision": "auto", "device": "auto",
                "log_every": 10, "validate_every": 300, "save_every": 100,
            },
        },
        seeds=15,
        start={"steps": 300, "lock": ["image"]},
        starts=3,
        columns={LOCKED: {"steps": 300, "lock": ["image", "text"]}},
    ),
    "gpu": Scale(
        studies=20_000,
        size=256,
        language_model={"size": "compact"},
        config={
            "data": {"resize": 256, "crop": 224},
            "model": {"image": "resnet18"},
            "training": {
                "batch": 256, "sentences": 6, "lr": 1e-3, "warmup": 200,
                "precision": "bfloat16", "device": "auto",
                "log_every": 20, "validate_every": 500, "save_every": 200,
            },
        },
        seeds=3,
        image={"sides": True},
        start={"steps": 2000, "lock": ["image"]},
        columns={LOCKED: {"steps": 2000, "lock": ["image", "text"]}, LIVE: {"steps": 2000}},
    ),
    # SSD section 3.2, as ssd-mimic-cxr.yaml has it: without clipping, without centering.
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
