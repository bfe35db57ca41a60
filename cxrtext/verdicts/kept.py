"""The file ``verdicts.json`` of a checkpoint: what findings are judged by, and the errors made."""

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
    :class:`~cxrtext.verdicts.evidence.Contrast`, kept where it may be judged.
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


class KeptVerdicts(KeptFile):
    """What the sentences of a report are judged by.

    ``split``, ``images``, ``patients`` and ``names`` (SHA-256 of the images' names, sorted, a line
    each) say which validation images were used; ``regions`` how many regions each has.
    ``findings`` are by name; ``measured`` by direction.
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
        judged = [name for name, one in self.findings.items() if one.presence.reason is None]
        which = ", ".join(judged) if judged else "no finding"
        return f"{which} judged by {self.images} validation images"

    def contrasts(self) -> dict[str, Contrast]:
        """The vectors of the findings that may be judged."""
        return {name: one.contrast() for name, one in self.findings.items() if one.there}
