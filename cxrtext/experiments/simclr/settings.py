"""What a training on views is given: images with what is known of them, and how to train."""

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from torch import Tensor

from cxrtext.config import ObjectiveSection
from cxrtext.images.simclr import SimclrSpec
from cxrtext.training.losses.metadata import Kind

FREE = ("save_every", "log_every")
"""Settings that a resumed run may have otherwise."""


@dataclass(frozen=True)
class ViewSet:
    """8-bit images [n, 1 or 3, H, W] in memory and what is known of them.

    ``labels`` [n], int64: classes, for supervised, and for removing negatives of the same class.
    ``eta`` [n], float32: the probability of each image's class, for dcl-eta-true.  ``metadata``
    [n, M], float32: standardized numbers and categories as whole numbers, a kind a column; or
    clusters in column 0, for weaksup-info-nce and fair-info-nce.
    """

    images: Tensor
    labels: Tensor | None = None
    eta: Tensor | None = None
    metadata: Tensor | None = None
    kinds: tuple[Kind, ...] = ()

    def __len__(self) -> int:
        return len(self.images)


@dataclass(frozen=True)
class ViewSettings:
    """How to train an encoder on views of images.

    The objective needs no text (:mod:`~.simclr.losses` has a table); encoder and width are those of
    :func:`~cxrtext.experiments.simclr.encoders.build_small_encoder`; ``head`` has the sizes of the
    projection head's linear maps, the last D, and batch norms where ``head_norm``.  ``gamma_sq``
    is γ², one over the temperature; fixed.  ``positives`` is M, views of an image beside the
    anchor: ``aggregate`` "loss" averages the losses with each as the positive, "group" takes all
    into the loss's estimate.  ``without_same_class`` leaves out negatives of the anchor's class.
    The optimizer is Adam with L2, AdamW, or LARS with momentum 0.9; biases and norms do not decay.
    ``warmup`` steps are linear; ``seed`` is of everything that is drawn; a state is saved and a
    line of ``metrics.jsonl`` written every so many steps.
    """

    objective: ObjectiveSection
    encoder: str
    width: int
    head: tuple[int, ...]
    steps: int
    batch: int
    lr: float
    gamma_sq: float = 2.0
    positives: int = 1
    aggregate: Literal["loss", "group"] = "loss"
    without_same_class: bool = False
    optimizer: str = "adam"
    weight_decay: float = 0.0
    schedule: Literal["constant", "cosine"] = "constant"
    warmup: int = 0
    augmentation: SimclrSpec = field(default_factory=SimclrSpec)
    precision: str = "float32"
    seed: int = 0
    save_every: int = 1000
    log_every: int = 50
    head_norm: bool = False

    def deciding(self) -> dict[str, Any]:
        """What must be equal to resume a run, as nested numbers and texts."""
        plain = asdict(self) | {"objective": self.objective.model_dump(mode="json")}
        kept = {key: value for key, value in plain.items() if key not in FREE}
        listed: dict[str, Any] = json.loads(json.dumps(kept))  # tuples come back as lists
        return listed
