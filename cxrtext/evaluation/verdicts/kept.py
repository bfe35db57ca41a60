"""The file ``verdicts.json`` of a checkpoint: what findings are judged by, and the errors made."""

from pathlib import Path
from typing import Annotated, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field

from cxrtext.evaluation.kept import load_kept
from cxrtext.evaluation.verdicts.evidence import Contrast
from cxrtext.files import write_sealed
from cxrtext.models import ImageTextModel
from cxrtext.text.assertions import Vocabulary

VERDICTS = "verdicts.json"
"""In a checkpoint's folder."""
MISSING = (
    "this checkpoint has no calibrated verdicts; make them with 'cxrtext calibrate CHECKPOINT "
    "--data DIR'"
)

Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0)]


class Kept(BaseModel):
    """Part of the file; nothing in it may be missing, unknown or infinite."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Tails(Kept):
    """Where the evidence of validation images with and without something ends.

    ``below[k - 1]`` leaves at most 0.05 / k of those with it below itself, ``above[k - 1]`` at most
    0.05 / k of those without it above; None where there are too few images.  ``with_below`` and
    ``without_above`` are the shares measured for k = 1 on images that the thresholds were not made
    from.  ``reason`` says why nothing may be judged by it; None where it may.
    """

    with_images: Count
    without_images: Count
    auc: Share | None = None
    below: tuple[float | None, ...] = ()
    above: tuple[float | None, ...] = ()
    with_below: Share | None = None
    without_above: Share | None = None
    reason: str | None = None


class FindingVerdicts(Kept):
    """How a finding is judged.

    ``named`` says what the images without it are: those whose report rules it out, or, where fewer
    do than are wanted, those whose report does not name it.  ``side`` has the tails of the named
    side against the other one; None where no sentences name one.  The vectors are those of
    :class:`~cxrtext.evaluation.verdicts.evidence.Contrast`, kept where it may be judged.
    """

    without: Literal["ruled out", "not named"] = "ruled out"
    presence: Tails
    side: Tails | None = None
    there: tuple[float, ...] = ()
    absent: tuple[float, ...] = ()
    left: tuple[float, ...] = ()
    right: tuple[float, ...] = ()

    def contrast(self) -> Contrast:
        """The vectors that ask for it."""
        sides = (torch.tensor(one) if one else None for one in (self.left, self.right))
        return Contrast(torch.tensor(self.there), torch.tensor(self.absent), *sides)


class VerdictCounts(Kept):
    """Verdicts on sentences whose truth the reports tell, thresholds made from other images."""

    true_sentences: Count = 0
    true_unsupported: Count = 0
    true_supported: Count = 0
    true_not_judged: Count = 0
    false_sentences: Count = 0
    false_unsupported: Count = 0
    false_supported: Count = 0
    false_not_judged: Count = 0


class KeptVerdicts(Kept):
    """What the sentences of a report are judged by.

    ``fingerprint`` is the model's; ``data`` the data folder's name without its path, ``split``,
    ``images``, ``patients`` and ``names`` (SHA-256 of the images' names, sorted, a line each) say
    which validation images were used; ``regions`` how many regions each has.  ``findings`` are by
    name; ``measured`` by direction.  ``forms``, ``modifiers`` and ``excludes`` are those of
    :class:`~cxrtext.text.assertions.Vocabulary`.
    """

    format: Literal["cxrtext verdicts"] = "cxrtext verdicts"
    version: Literal[1] = 1
    fingerprint: str
    data: str
    split: str = "val"
    images: Count
    patients: Count
    names: str
    regions: Count
    findings: dict[str, FindingVerdicts]
    measured: dict[Literal["affirmed", "negated"], VerdictCounts] = {}
    forms: dict[str, str]
    modifiers: tuple[str, ...] = ()
    excludes: dict[str, tuple[str, ...]] = {}

    def summary(self) -> str:
        """In a few words: how many images, and which findings are judged."""
        judged = [name for name, one in self.findings.items() if one.presence.reason is None]
        which = ", ".join(judged) if judged else "no finding"
        return f"{which} judged by {self.images} validation images"

    def vocabulary(self) -> Vocabulary:
        return Vocabulary(self.forms, frozenset(self.modifiers), self.excludes)

    def contrasts(self) -> dict[str, Contrast]:
        """The vectors of the findings that may be judged."""
        return {name: one.contrast() for name, one in self.findings.items() if one.there}


def save_verdicts(folder: Path, kept: KeptVerdicts) -> Path:
    """Put verdicts into their checkpoint, whose fingerprint stays as it is."""
    write_sealed(folder / VERDICTS, kept.model_dump(mode="json"))
    return folder / VERDICTS


def verdicts_beside(model: ImageTextModel) -> KeptVerdicts | None:
    """The verdicts kept with a model's checkpoint, if there are some."""
    if model.folder is None:
        return None
    return load_kept(model.folder / VERDICTS, KeptVerdicts, "the verdicts", model.fingerprint)
