"""The image–text model: two encoders and a similarity."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor, nn

from cxrtext.images import Preprocessing
from cxrtext.models.heads import FindingHeads
from cxrtext.models.image_encoder import ImageEncoder, RegionEncoder
from cxrtext.models.similarity import (
    SIMILARITIES,
    build_query,
    lse,
    lse_nl_of_bags,
    non_local,
    non_local_bags,
    region_scores,
    similarity,
)
from cxrtext.models.text_encoder import POOLINGS, TextEncoder

MAX_DIMENSION = 16_384  # of the joint space
GAMMA_SQ_CAP = 100.0  # largest γ² that training can reach
BACKBONE = "backbone"
"""The image encoder of a model with a separate backbone."""

AboveZero = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """The parts of a model; kept in a checkpoint's ``config.json`` and checked by these types."""

    image: str
    text: Mapping[str, Any]  # the fields of the text encoder's configuration (text_config)
    dimension: Annotated[int, Field(gt=0, le=MAX_DIMENSION)] = 128  # D, of the joint space
    aggregator: str = "lse+nl"  # how region scores become one score
    lam: AboveZero = 10.0
    # the query map of the bags: "linear" or "none" (q = r)
    query: str = "linear"
    gamma_sq: AboveZero = 14.0  # initial γ²
    # longest sentence in word pieces, with special tokens
    max_tokens: Annotated[int, Field(gt=2, le=100_000)] = 96
    preprocessing: Preprocessing = field(default_factory=Preprocessing)  # how an image is prepared
    # how a region's place enters its embedding: "none", "additive" or "mlp"
    position: str = "none"
    # a sentence's state: "cls", from the first piece, or "mean", over all pieces
    pooling: str = "cls"
    # with `BACKBONE`, the backbone's note (without its folder) and, under reduce, how its regions
    # are reduced
    backbone: Mapping[str, Any] | None = None

    @property
    def image_title(self) -> str:
        """The image encoder's name, for people."""
        if self.backbone is None:
            return self.image
        return f"{self.backbone['name']} ({self.backbone['model_type']})"


class ImageTextModel(nn.Module):
    """Embeds images as regions and sentences as vectors, and scores one against the other.

    If the specification names a backbone, pass ``image_encoder``; a ResNet is built otherwise.
    ``text_encoder`` is for a finished pair from elsewhere (:mod:`cxrtext.models.foreign`).
    """

    def __init__(
        self,
        spec: ModelSpec,
        tokenizer: Any,
        image_encoder: RegionEncoder | None = None,
        text_encoder: nn.Module | None = None,
    ) -> None:
        super().__init__()
        if spec.aggregator not in SIMILARITIES:
            known = ", ".join(SIMILARITIES)
            raise ValueError(f"no similarity '{spec.aggregator}'; there are {known}")
        if spec.pooling not in POOLINGS:
            raise ValueError(f"no pooling '{spec.pooling}'; there are {', '.join(POOLINGS)}")
        self.tokenizer = tokenizer
        self.fingerprint = ""
        self.folder: Path | None = None
        self.heads: FindingHeads | None = None  # those of its checkpoint
        self.image_encoder: RegionEncoder = image_encoder or ImageEncoder(
            spec.image, spec.dimension, spec.position
        )
        self.spec = spec
        self.feed(spec.preprocessing)
        self.text_encoder: Any = text_encoder or TextEncoder(
            spec.text, spec.dimension, spec.pooling
        )
        self.query: nn.Module | None = None
        if spec.aggregator in ("nl", "lse+nl"):
            self.query = build_query(spec.query, spec.dimension)
        self.log_gamma_sq = nn.Parameter(torch.tensor(math.log(spec.gamma_sq)))
        self.bound()

    def feed(self, preprocessing: Preprocessing) -> None:
        """Change how images are prepared, to fit the image encoder's weights."""
        prepared = replace(preprocessing, offset=self.image_encoder.offset)
        self.spec = replace(self.spec, preprocessing=prepared)

    @property
    def device(self) -> torch.device:
        return self.log_gamma_sq.device

    @property
    def gamma_sq(self) -> Tensor:
        """γ², a scalar tensor; :meth:`bound` keeps it at most :data:`GAMMA_SQ_CAP`."""
        return self.log_gamma_sq.exp()

    @torch.no_grad()
    def bound(self) -> None:
        """Put γ² back to its cap if a step pushed it above; the loop does this after each step.

        A cap inside :attr:`gamma_sq` would have no gradient above it, so γ² would stay there
        forever.
        """
        self.log_gamma_sq.clamp_(max=math.log(GAMMA_SQ_CAP))

    def embed_images(self, images: Tensor) -> Tensor:
        """Embed prepared images [B, 1, H, W] as regions [B, h, w, D], unit vectors."""
        regions: Tensor = self.image_encoder(images)
        return regions

    def tokenize(self, sentences: Sequence[str]) -> dict[str, Tensor]:
        """Turn sentences into padded ``input_ids`` and ``attention_mask``, each [S, T].

        A sentence is cut after ``max_tokens`` word pieces.
        """
        encoded = self.tokenizer(
            list(sentences),
            padding=True,
            truncation=True,
            max_length=self.spec.max_tokens,
            return_tensors="pt",
            return_token_type_ids=False,
        )
        return {name: encoded[name] for name in ("input_ids", "attention_mask")}

    def embed_tokens(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Embed tokenized sentences as [S, D], unit vectors."""
        texts: Tensor = self.text_encoder(input_ids, attention_mask)
        return texts

    @torch.inference_mode()
    def embed_sentences(self, sentences: Sequence[str], batch: int = 256) -> Tensor:
        """Embed sentences as [S, D], unit vectors, without gradients.

        Batches are made by length, so the result does not depend on the order of the sentences.
        """
        vectors = torch.empty(len(sentences), self.spec.dimension, device=self.device)
        order = sorted(range(len(sentences)), key=lambda i: len(sentences[i]))
        for start in range(0, len(order), batch):
            rows = order[start : start + batch]
            tokens = self.tokenize([sentences[i] for i in rows])
            vectors[rows] = self.embed_tokens(
                tokens["input_ids"].to(self.device), tokens["attention_mask"].to(self.device)
            ).float()
        return vectors

    def bags(self, regions: Tensor) -> Tensor:
        """Bags [..., N, D] of regions [..., N, D], for :meth:`scores_of_bags`."""
        return non_local_bags(regions, self.query)

    @property
    def has_regions(self) -> bool:
        """Whether a sentence can be looked for in a part of an image."""
        return True

    def maps(self, regions: Tensor, texts: Tensor) -> Tensor:
        """Scores [S, B, N] of every region [B, N, D] with every text [S, D], in [−1, 1]."""
        return region_scores(regions, texts)

    def scores(self, regions: Tensor, texts: Tensor) -> Tensor:
        """Similarities [S, B] of regions [B, N, D] and texts [S, D], in [−1, 1], before γ²."""
        return similarity(self.spec.aggregator, regions, texts, self.spec.lam, self.query)

    def scores_of_bags(self, regions: Tensor, bags: Tensor, texts: Tensor) -> Tensor:
        """:meth:`scores`, [S, B], from bags [B, N, D] computed before."""
        match self.spec.aggregator:
            case "lse+nl":
                return lse_nl_of_bags(regions, bags, texts, self.spec.lam)
            case "nl":
                return non_local(region_scores(regions, texts), bags, texts)
            case "lse":
                return lse(region_scores(regions, texts), self.spec.lam)
        return similarity(self.spec.aggregator, regions, texts, self.spec.lam)
