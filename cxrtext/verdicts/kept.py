"""The file ``verdicts.json`` of a checkpoint: how findings are judged, and the errors made."""

from typing import Annotated, Literal

import torch
from pydantic import Field

from cxrtext.evaluation.kept import Kept, KeptFile, Share
from cxrtext.verdicts.evidence import Contrast

VERDICTS = "verdicts.json"
"""In a checkpoint's folder."""
MISSING = (
    "this checkpoint has no calibrated verdicts; make them with 'cxrtext calibrate CHECKPOINT "
    "--data DIR'"
)

Count = Annotated[int, Field(ge=0)]


class Tails(Kept):
    """Where the evidence of validation images with and without something ends.

    At most 0.05 / k of the images with it are below ``below[k - 1]``, and at most 0.05 / k of those
    without it above ``above[k - 1]``; None with too few images.  ``with_below`` and
    ``without_above`` are the shares measured for k = 1 on images that the thresholds were not made
    from.  ``reason`` says why it may not be used for verdicts; None if it may.
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

    ``without`` says what the images without it are: those whose report rules it out, or, if these
    are too few, those whose report does not name it.  ``side`` has the tails of the named side
    against the other one; None if no sentences name one.  The vectors are those of
    :class:`~cxrtext.verdicts.evidence.Contrast`, kept if the finding may be judged.
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
        sides = (torch.tensor(side) if side else None for side in (self.left, self.right))
        return Contrast(torch.tensor(self.there), torch.tensor(self.absent), *sides)


class VerdictCounts(Kept):
    """Verdicts on sentences that reports make true or false, with thresholds from other images."""

    true_sentences: Count = 0
    true_unsupported: Count = 0
    true_supported: Count = 0
    true_not_judged: Count = 0
    false_sentences: Count = 0
    false_unsupported: Count = 0
    false_supported: Count = 0
    false_not_judged: Count = 0


class KeptVerdicts(KeptFile):
    """What is needed to judge the sentences of a report.

    ``split``, ``images``, ``patients`` and ``names`` (SHA-256 of the images' names, sorted, a line
    each) say which validation images were used, ``regions`` how many regions each has.
    ``findings`` are by name, ``measured`` by direction.
    """

    FILE = VERDICTS

    format: Literal["cxrtext verdicts"] = "cxrtext verdicts"
    version: Literal[2] = 2
    split: str = "val"
    images: Count
    patients: Count
    names: str
    regions: Count
    findings: dict[str, FindingVerdicts]
    measured: dict[Literal["affirmed", "negated"], VerdictCounts] = Field(default_factory=dict)

    def summary(self) -> str:
        """In a few words: how many images, and which findings are judged."""
        judged = [name for name, kept in self.findings.items() if kept.presence.reason is None]
        which = ", ".join(judged) if judged else "no finding"
        return f"{which} judged by {self.images} validation images"

    def contrasts(self) -> dict[str, Contrast]:
        """The vectors of the findings that may be judged."""
        return {name: kept.contrast() for name, kept in self.findings.items() if kept.there}
