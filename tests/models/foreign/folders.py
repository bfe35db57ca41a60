"""Folders of finished pairs with random weights, in the names that each library saves.

Names are written here from the other side than the product reads them: what transformers computes
with its own names is what a folder in another library's names has to give.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import save_file
from torch import Tensor, nn

from cxrtext.models.foreign.towers import cxr_bert_head

SENTENCES = ["left pleural effusion .", "no effusion", "heart"]
TOWER: dict[str, Any] = {"hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 256}
D = 16
Answer = tuple[Tensor, Tensor]
"""Embeddings of an image and of sentences, not yet of length 1, by a library's own classes."""
Forward = Callable[[Tensor, Mapping[str, Tensor]], Answer]
"""From pixels [1, 3, H, W], scaled by the model's own mean and std, and tokens."""


def write_clip_words(folder: Path) -> int:
    """A short list of byte pairs as transformers saves it, and the number of pieces in it."""
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    words = ["l e", "e f", "le f", "lef t</w>", "n o</w>", "h e", "he a", "r t</w>", "hea rt</w>"]
    letters = bytes_to_unicode().values()
    pieces = [*letters, *(f"{letter}</w>" for letter in letters)]
    pieces += [word.replace(" ", "") for word in words] + ["<|startoftext|>", "<|endoftext|>"]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    said = {"model": {"type": "BPE", "vocab": vocabulary, "merges": words}}
    (folder / "tokenizer.json").write_text(json.dumps(said))
    return len(pieces)


def write_words(folder: Path) -> int:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "left", "pleural", "effusion", "no", "."]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    return len(words)


def clip_model(folder: Path) -> Any:
    torch.manual_seed(3)
    text = {**TOWER, "vocab_size": write_clip_words(folder), "eos_token_id": 2}
    vision = {**TOWER, "image_size": 32, "patch_size": 16}
    for tower in (text, vision):
        tower |= {"num_attention_heads": 1, "hidden_act": "quick_gelu"}
    config = transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=D)
    model = transformers.CLIPModel(config).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.2)
    model.logit_scale.data.fill_(3.0)
    return model


def of_clip(model: Any) -> Forward:
    def forward(pixels: Tensor, tokens: Mapping[str, Tensor]) -> Answer:
        found = model(pixel_values=pixels, **tokens)
        return found.image_embeds, found.text_embeds

    return forward


def write_clip(folder: Path) -> Forward:
    model = clip_model(folder)
    model.save_pretrained(folder)
    write_processor(folder, {"shortest_edge": 32}, crop_size=32)
    return of_clip(model)


def write_siglip(folder: Path) -> Forward:
    torch.manual_seed(3)
    pieces = ["<pad>", "</s>", "<unk>", "▁left", "▁pleural", "▁effusion", "▁no", "▁heart", "▁"]
    vocabulary = [[piece, -float(number)] for number, piece in enumerate(pieces)]
    said = {"model": {"type": "Unigram", "unk_id": 2, "vocab": vocabulary}}
    (folder / "tokenizer.json").write_text(json.dumps(said))
    text = {**TOWER, "num_attention_heads": 2, "vocab_size": len(pieces)}
    text |= {"max_position_embeddings": 12, "projection_size": 64}
    vision = {**TOWER, "num_attention_heads": 2, "image_size": 32, "patch_size": 16}
    config = transformers.SiglipConfig(text_config=text, vision_config=vision)
    model = transformers.SiglipModel(config).eval()
    model.logit_scale.data.fill_(1.5)
    model.logit_bias.data.fill_(-3.0)
    model.save_pretrained(folder)
    write_processor(folder, {"height": 32, "width": 32})

    def forward(pixels: Tensor, tokens: Mapping[str, Tensor]) -> Answer:
        ids = tokens["input_ids"].masked_fill(tokens["attention_mask"] == 0, 1)
        ids = F.pad(ids, (0, 12 - ids.shape[1]), value=1)  # all to the length of its training
        found = model(pixel_values=pixels, input_ids=ids)
        return found.image_embeds, found.text_embeds

    return forward


def write_processor(folder: Path, size: Mapping[str, int], **more: Any) -> None:
    kind = "CLIPImageProcessor" if more else "SiglipImageProcessor"
    said = {"image_processor_type": kind, "size": size, "resample": 3, **more}
    said |= {"image_mean": MEAN, "image_std": STD}
    (folder / "preprocessor_config.json").write_text(json.dumps(said))


MEAN, STD = [0.4, 0.45, 0.5], [0.2, 0.25, 0.3]


def openai_names(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """transformers' CLIP in the names of OpenAI's own module."""
    said = {
        "vision_model.embeddings.class_embedding": "visual.class_embedding",
        "vision_model.embeddings.patch_embedding.weight": "visual.conv1.weight",
        "vision_model.embeddings.position_embedding.weight": "visual.positional_embedding",
        "text_model.embeddings.token_embedding.weight": "token_embedding.weight",
        "text_model.embeddings.position_embedding.weight": "positional_embedding",
        "logit_scale": "logit_scale",
    }
    found: dict[str, Tensor] = {}
    for name, tensor in state.items():
        new = said.get(name, name)
        new = new.replace("vision_model.pre_layrnorm", "visual.ln_pre")
        new = new.replace("vision_model.post_layernorm", "visual.ln_post")
        new = new.replace("text_model.final_layer_norm", "ln_final")
        new = new.replace("vision_model.encoder.layers", "visual.transformer.resblocks")
        new = new.replace("text_model.encoder.layers", "transformer.resblocks")
        new = new.replace("layer_norm", "ln_").replace("mlp.fc1", "mlp.c_fc")
        new = new.replace("mlp.fc2", "mlp.c_proj").replace("self_attn.out_proj", "attn.out_proj")
        if ".self_attn." in new:
            layer, _, kind = re.fullmatch(r"(.+)\.self_attn\.(.)_proj\.(.+)", new).groups()  # type: ignore[union-attr]
            parts = [state[re.sub(r"\.[kqv]_proj\.", f".{one}_proj.", name)] for one in "qkv"]
            found[f"{layer}.attn.in_proj_{kind}"] = torch.cat(parts)
        else:
            found[new] = tensor
    found["visual.proj"] = found.pop("visual_projection.weight").T.contiguous()
    found["text_projection"] = found.pop("text_projection.weight").T.contiguous()
    return found


def write_openai(folder: Path) -> Forward:
    model = clip_model(folder)
    torch.save(openai_names(model.state_dict()), folder / "best_64.pt")
    return of_clip(model)


def _write_open_clip(folder: Path, vision: Any, text: Any, state: Mapping[str, Tensor]) -> None:
    model = {"embed_dim": D, "vision_cfg": vision, "text_cfg": text}
    images = {"mean": MEAN, "std": STD, "interpolation": "bicubic", "resize_mode": "squash"}
    said = {"model_cfg": model, "preprocess_cfg": images}
    (folder / "open_clip_config.json").write_text(json.dumps(said))
    save_file({k: x.contiguous() for k, x in state.items()}, folder / "open_clip_model.safetensors")


def bert(folder: Path) -> Any:
    config = transformers.BertConfig(
        **TOWER, num_attention_heads=1, vocab_size=write_words(folder), max_position_embeddings=40
    )
    return transformers.BertModel(config, add_pooling_layer=False).eval()


def mean_of(states: Tensor, real: Tensor) -> Tensor:
    """The mean state of each sentence's own pieces."""
    return torch.stack(
        [one[:count].mean(dim=0) for one, count in zip(states, real.sum(1), strict=True)]
    )


def write_biomedclip(folder: Path, pooler: str = "cls_last_hidden_state_pooler") -> Forward:
    """timm's ViT and a BERT with a projection of two layers."""
    torch.manual_seed(3)
    config = transformers.ViTConfig(
        **TOWER, num_attention_heads=1, image_size=32, patch_size=16, layer_norm_eps=1e-6
    )
    trunk, text = transformers.ViTModel(config, add_pooling_layer=False).eval(), bert(folder)
    image_head, inner = nn.Linear(64, D, bias=False), nn.Linear(64, 40, bias=False)
    text_head = nn.Sequential(inner, nn.GELU(), nn.Linear(40, D, bias=False))
    state = {f"visual.trunk.{k}": x for k, x in timm_names(trunk.state_dict()).items()}
    state |= {f"text.transformer.{k}": x for k, x in text.state_dict().items()}
    state |= {f"text.proj.{k}": x for k, x in text_head.state_dict().items()}
    state |= {"visual.head.proj.weight": image_head.weight.detach()}
    state |= {"logit_scale": torch.tensor(4.0)}
    vision = {"timm_model_name": "vit_base_patch16_224", "timm_pool": "", "image_size": 32}
    said = {"hf_model_name": "a/bert", "hf_pooler_type": pooler}
    _write_open_clip(folder, vision, {**said, "context_length": 40}, state)

    def forward(pixels: Tensor, tokens: Mapping[str, Tensor]) -> Answer:
        first = trunk(pixel_values=pixels).last_hidden_state[:, 0]
        states = text(**tokens).last_hidden_state
        mean = pooler == "mean_pooler"
        pooled = mean_of(states, tokens["attention_mask"]) if mean else states[:, 0]
        return image_head(first), text_head(pooled)

    return forward


def timm_names(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """transformers' ViT in timm's names."""
    found: dict[str, Tensor] = {}
    for name, tensor in state.items():
        new = name.replace("embeddings.cls_token", "cls_token")
        new = new.replace("embeddings.position_embeddings", "pos_embed")
        new = new.replace("embeddings.patch_embeddings.projection", "patch_embed.proj")
        new = new.replace("layers.", "blocks.").replace("attention.o_proj", "attn.proj")
        new = new.replace("layernorm_before", "norm1").replace("layernorm_after", "norm2")
        new = new.replace("layernorm", "norm")
        if "_proj." in new:
            parts = [state[re.sub(r"\.[qkv]_proj", f".{one}_proj", name)] for one in "qkv"]
            found[re.sub(r"attention\.[qkv]_proj", "attn.qkv", new)] = torch.cat(parts)
        else:
            found[new] = tensor
    return found


def resnet() -> tuple[Any, dict[str, Tensor]]:
    """A ResNet of transformers, and its tensors in torchvision's names."""
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[16, 24], depths=[2, 1], layer_type="bottleneck"
    )
    trunk = transformers.ResNetModel(config).eval()
    for name, buffer in trunk.named_buffers():
        if name.endswith(("mean", "var")):
            buffer.uniform_(0.5, 1.5)
    named: dict[str, Tensor] = {}
    for name, tensor in trunk.state_dict().items():
        new = re.sub(r"embedder\.embedder\.convolution", "conv1", name)
        new = re.sub(r"embedder\.embedder\.normalization", "bn1", new)
        new = re.sub(r"encoder\.stages\.(\d)\.layers\.", lambda m: f"layer{int(m[1]) + 1}.", new)
        new = re.sub(r"layer\.(\d)\.convolution", lambda m: f"conv{int(m[1]) + 1}", new)
        new = re.sub(r"layer\.(\d)\.normalization", lambda m: f"bn{int(m[1]) + 1}", new)
        new = new.replace("shortcut.convolution", "downsample.0")
        named[new.replace("shortcut.normalization", "downsample.1")] = tensor
    return trunk, named


def write_biovil(folder: Path, *, prior: bool = False) -> Forward:
    torch.manual_seed(3)
    trunk, named = resnet()
    width = 2 * 10 if prior else 24
    project = nn.Sequential(
        nn.Conv2d(width, D, 1, bias=False), nn.BatchNorm2d(D), nn.ReLU(), nn.Conv2d(D, D, 1)
    ).eval()
    state = {f"encoder.encoder.{k}": x for k, x in named.items()}
    state |= {f"projector.model.{k}": x for k, x in project.state_dict().items()}
    reduce, missing = nn.Conv2d(24, 10, 1, bias=False), torch.randn(1, 10, 1, 1)
    if prior:
        state["encoder.backbone_to_vit.weight"] = reduce.weight.detach()
        state["encoder.missing_previous_emb"] = missing
        state["encoder.vit_pooler.blocks.0.norm1.weight"] = torch.ones(10)  # of pairs of films
    torch.save(state, folder / f"biovil{'_t' * prior}_image_proj_size_{D}.pt")
    text = bert(folder)
    head: Any = cxr_bert_head(64, D)
    config = {**text.config.to_dict(), "model_type": "cxr-bert", "projection_size": D}
    (folder / "config.json").write_text(json.dumps(config))
    kept = {f"bert.{k}": x for k, x in text.state_dict().items()}
    kept |= {f"cls_projection_head.{k}": x for k, x in head.state_dict().items()}
    save_file({k: x.clone() for k, x in kept.items()}, folder / "model.safetensors")

    def forward(pixels: Tensor, tokens: Mapping[str, Tensor]) -> Answer:
        cells = trunk(pixel_values=pixels).last_hidden_state
        if prior:
            own = reduce(cells)
            cells = torch.cat([own, missing.expand_as(own)], dim=1)
        first = text(**tokens).last_hidden_state[:, 0]
        hidden = F.layer_norm(F.gelu(head.dense_to_hidden(first)), (D,), eps=1e-12)
        return project(cells).mean(dim=(2, 3)), head.dense_to_output(hidden)

    return forward


def swin() -> tuple[Any, dict[str, Tensor]]:
    """A Swin, and its tensors by their own names."""
    trunk = transformers.SwinModel(SMALL_SWIN).eval()
    return trunk, trunk.state_dict()


SMALL_SWIN = transformers.SwinConfig(
    image_size=64, embed_dim=12, depths=[1, 1], num_heads=[1, 1], window_size=4
)


def write_cxr_clip(folder: Path, pooling: str = "eos", image: str = "resnet") -> Forward:
    torch.manual_seed(3)
    (trunk, named), text = resnet() if image == "resnet" else swin(), bert(folder)
    heads = nn.Linear(24, D), nn.Linear(64, D)
    prefix = "resnet" if image == "resnet" else "image_encoder"
    state = {f"image_encoder.{prefix}.{k}": x for k, x in named.items()}
    state |= {f"text_encoder.text_encoder.{k}": x for k, x in text.state_dict().items()}
    for name, head in zip(("image", "text"), heads, strict=True):
        state |= {f"{name}_projection.projection.{k}": x for k, x in head.state_dict().items()}
    state["logit_scale"] = torch.tensor(2.0)
    kind = {"name": "resnet"} if image == "resnet" else {"model_type": "swin"}
    towers = {"image_encoder": kind, "text_encoder": {"pooling": pooling}}
    config = {"base": {"image_size": 64, "text_max_length": 40}, "model": towers}
    torch.save({"model": state, "config": config, "epoch": 3}, folder / "r50_m.tar")

    def forward(pixels: Tensor, tokens: Mapping[str, Tensor]) -> Answer:
        cells = trunk(pixel_values=pixels).last_hidden_state
        states, real = text(**tokens).last_hidden_state, tokens["attention_mask"]
        last = states[torch.arange(len(states)), real.sum(dim=1) - 1]
        pooled = {"eos": last, "bos": states[:, 0], "mean": mean_of(states, real)}[pooling]
        first_or_mean = cells[:, 0] if image == "swin" else cells.mean(dim=(2, 3))
        return heads[0](first_or_mean), heads[1](pooled)

    return forward


WRITERS: dict[str, Callable[[Path], Forward]] = {
    "clip": write_clip,
    "siglip": write_siglip,
    "openai": write_openai,
    "biomedclip": write_biomedclip,
    "biovil": write_biovil,
    "biovil-t": lambda folder: write_biovil(folder, prior=True),
    "cxr-clip": write_cxr_clip,
    "biomedclip, mean": lambda folder: write_biomedclip(folder, "mean_pooler"),
    "cxr-clip, mean": lambda folder: write_cxr_clip(folder, "mean"),
    "cxr-clip, bos, swin": lambda folder: write_cxr_clip(folder, "bos", "swin"),
}
SCALES = {"siglip": math.exp(1.5), "biovil": 1.0, "biovil-t": 1.0} | {
    **dict.fromkeys(("clip", "openai"), math.exp(3.0)),
    **dict.fromkeys(("biomedclip", "biomedclip, mean"), math.exp(4.0)),
    **dict.fromkeys(("cxr-clip", "cxr-clip, mean", "cxr-clip, bos, swin"), math.exp(2.0)),
}
"""What each multiplies its similarities by; classify's probabilities follow from it."""
IMAGENET = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
LEVELS: dict[str, tuple[list[float], list[float]]] = {
    "openai": ([101.48761 / 255] * 3, [83.43944 / 255] * 3),
    "biovil": ([0.0] * 3, [1.0] * 3),
    "biovil-t": ([0.0] * 3, [1.0] * 3),
    **dict.fromkeys(("cxr-clip", "cxr-clip, mean"), IMAGENET),
    "cxr-clip, bos, swin": ([0.5] * 3, [0.5] * 3),
}
"""Mean and std that a layout has of its own; all others say them in a file."""
