"""Finished pairs beside the code of those who made them: largest difference, and time.

Random weights of each library's own class are saved as the library saves them, loaded here, and
compared for one image and three sentences.  Each peer wants its own packages, in an environment of
its own: transformers with sentencepiece and protobuf for SigLIP, open_clip_torch and timm for
open_clip and BiomedCLIP, and a checkout of CheXzero, hi-ml or CXR-CLIP.

    python benchmarks/models/pairs.py biomedclip
    python benchmarks/models/pairs.py chexzero --checkout CheXzero
    python benchmarks/models/pairs.py biovil biovil-t --checkout hi-ml/hi-ml-multimodal/src
"""

import argparse
import json
import math
import shutil
import sys
import tempfile
import time
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from cxrtext.models import load_model

SENTENCES = ["Small left pleural effusion. No pneumothorax.", "The heart is enlarged.", "Clear."]
OPENAI = ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))
CHEXZERO = ((101.48761 / 255,) * 3, (83.43944 / 255,) * 3)
PLAIN = ((0.0,) * 3, (1.0,) * 3)
BERT = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2}
TIMES = 5

Own = Callable[[Tensor], Tensor]
Peer = tuple[Own, Callable[[Any], Tensor], tuple[Any, Any]]
"""How the library embeds pixels, and sentences of the tokenizer here; and its mean and std."""


def words(folder: Path) -> int:
    found = sorted({word.strip(".").lower() for text in SENTENCES for word in text.split()})
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *found, "."]
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n")
    return len(pieces)


def tokens(model: Any, length: int = 0) -> Any:
    more = {"padding": "max_length", "max_length": length} if length else {"padding": True}
    return model.tokenizer(SENTENCES, return_tensors="pt", **more)


def biomedclip(folder: Path, _: argparse.Namespace) -> Peer:
    import open_clip
    import transformers
    from safetensors.torch import save_file

    bert = folder / "bert"
    own_bert = transformers.BertModel(transformers.BertConfig(vocab_size=words(folder), **BERT))
    own_bert.save_pretrained(bert)
    vision = {"timm_model_name": "vit_base_patch16_224", "timm_pool": "", "image_size": 224}
    text = {"hf_model_name": str(bert), "hf_pooler_type": "cls_last_hidden_state_pooler"}
    config = {"embed_dim": 512, "vision_cfg": {**vision, "timm_model_pretrained": False},
              "text_cfg": {**text, "context_length": 256}}  # fmt: skip
    own = open_clip.CustomTextCLIP(**config).eval()
    shutil.rmtree(bert)
    _configured(folder, config)
    state = {name: tensor.contiguous() for name, tensor in own.state_dict().items()}
    save_file(state, folder / "open_clip_model.safetensors")
    return own.encode_image, lambda m: own.encode_text(tokens(m, 256)["input_ids"]), OPENAI


def _configured(folder: Path, config: Mapping[str, Any]) -> None:
    images = {"mean": OPENAI[0], "std": OPENAI[1], "interpolation": "bicubic"}
    said = {"model_cfg": config, "preprocess_cfg": images}
    (folder / "open_clip_config.json").write_text(json.dumps(said))


def siglip(folder: Path, _: argparse.Namespace) -> Peer:
    import io

    import sentencepiece
    import transformers

    file = io.BytesIO()
    corpus = [*SENTENCES * 50, *["the lungs are clear no focal consolidation"] * 40]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus), model_writer=file, vocab_size=60, pad_id=0, eos_id=1,
        unk_id=2, bos_id=-1, hard_vocab_limit=False,
    )  # fmt: skip
    (folder / "spiece.model").write_bytes(file.getvalue())
    cut = transformers.SiglipTokenizer(str(folder / "spiece.model"), model_max_length=64)
    tower = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12}
    vision = {**tower, "image_size": 224, "patch_size": 16}
    config = transformers.SiglipConfig(
        text_config={**tower, "vocab_size": len(cut)}, vision_config=vision
    )
    own = transformers.SiglipModel(config).eval()
    own.save_pretrained(folder)
    transformers.SiglipImageProcessorPil(size={"height": 224, "width": 224}).save_pretrained(folder)
    ids = cut(SENTENCES, padding="max_length", max_length=64, return_tensors="pt")["input_ids"]
    return (
        lambda pixels: own.vision_model(pixel_values=pixels).pooler_output,
        lambda _: own.text_model(input_ids=ids).pooler_output,
        ((0.5,) * 3, (0.5,) * 3),
    )


def chexzero(folder: Path, given: argparse.Namespace) -> Peer:
    sys.path.insert(0, str(given.checkout))
    import clip
    from model import CLIP
    from transformers import CLIPTokenizer

    name = "openai/clip-vit-base-patch32"  # of the local cache
    CLIPTokenizer.from_pretrained(name, local_files_only=True).save_pretrained(folder)
    own = CLIP(
        embed_dim=512, image_resolution=224, vision_layers=12, vision_width=768,
        vision_patch_size=32, context_length=77, vocab_size=49408, transformer_width=512,
        transformer_heads=8, transformer_layers=12,
    ).eval()  # fmt: skip
    torch.save(own.state_dict(), folder / "best_64.pt")
    return own.encode_image, lambda _: own.encode_text(clip.tokenize(SENTENCES)), CHEXZERO


def biovil(folder: Path, given: argparse.Namespace, kind: str = "biovil") -> Peer:
    sys.path.insert(0, str(given.checkout))
    for name in ("SimpleITK", "skimage", "skimage.io"):  # they read files there
        sys.modules.setdefault(name, types.ModuleType(name))
    sys.modules["skimage"].io = sys.modules["skimage.io"]  # type: ignore[attr-defined]
    import timm.layers

    sys.modules["timm.models.layers"] = timm.layers  # as it was called
    from health_multimodal.image.model.model import ImageModel
    from health_multimodal.text.model.configuration_cxrbert import CXRBertConfig
    from health_multimodal.text.model.modelling_cxrbert import CXRBertModel

    named = "resnet50" if kind == "biovil" else "resnet50_multi_image"
    images = ImageModel(img_encoder_type=named, joint_feature_size=128).eval()
    scattered(images)
    torch.save(images.state_dict(), folder / f"{kind}_image_model_proj_size_128.pt")
    CXRBertModel._tied_weights_keys = {}
    text = CXRBertModel(CXRBertConfig(projection_size=128, vocab_size=words(folder), **BERT)).eval()
    for parameter in text.cls_projection_head.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    text.save_pretrained(folder)

    def said(model: Any) -> Tensor:
        cut = tokens(model)
        found: Tensor = text.get_projected_text_embeddings(cut["input_ids"], cut["attention_mask"])
        return found

    return lambda pixels: images(pixels).projected_global_embedding, said, PLAIN


def scattered(network: torch.nn.Module) -> None:
    """Statistics of batch norms that are not 0 and 1, as a trained network's are not."""
    for name, buffer in network.named_buffers():
        if name.endswith(("running_mean", "running_var")):
            buffer.uniform_(0.5, 1.5)


def cxr_clip(folder: Path, given: argparse.Namespace) -> Peer:
    package = types.ModuleType("cxr_clip_model")  # its own wants packages of its training
    package.__path__ = [str(given.checkout / "cxrclip/model")]
    sys.modules["cxr_clip_model"] = package
    import torchvision
    import transformers
    from cxr_clip_model.modules import image_encoder
    from cxr_clip_model.modules.projection import LinearProjectionHead

    image_encoder.resnet50 = lambda pretrained: torchvision.models.resnet50()  # noqa: ARG005
    own = torch.nn.Module()
    own.image_encoder, own.text_encoder = image_encoder.ResNet50(), torch.nn.Module()
    scattered(own.image_encoder)
    config = transformers.BertConfig(vocab_size=words(folder), **BERT)
    own.text_encoder.text_encoder = transformers.BertModel(config)
    own.image_projection, own.text_projection = (
        LinearProjectionHead(width, 512) for width in (2048, 128)
    )
    own.logit_scale = torch.nn.Parameter(torch.tensor(math.log(1 / 0.07)))
    own.eval()
    towers = {"image_encoder": {"name": "resnet"}, "text_encoder": {"pooling": "eos"}}
    said = {"base": {"image_size": 224, "text_max_length": 256}, "model": towers}
    torch.save({"model": own.state_dict(), "config": said}, folder / "r50_m.tar")

    def text(model: Any) -> Tensor:
        cut = tokens(model)
        states = own.text_encoder.text_encoder(**cut).last_hidden_state
        last = states[torch.arange(len(states)), cut["attention_mask"].sum(dim=-1) - 1]
        found: Tensor = own.text_projection(last)
        return found

    levels = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    return lambda pixels: own.image_projection(own.image_encoder(pixels)), text, levels


PEERS: dict[str, Callable[[Path, argparse.Namespace], Peer]] = {
    "biomedclip": biomedclip,
    "siglip": siglip,
    "chexzero": chexzero,
    "biovil": biovil,
    "biovil-t": lambda folder, given: biovil(folder, given, "biovil_t"),
    "cxr-clip": cxr_clip,
}


def seconds(work: Callable[[], Any]) -> float:
    work()
    found = []
    for _ in range(TIMES):
        begun = time.perf_counter()
        work()
        found.append(time.perf_counter() - begun)
    return min(found)


@torch.no_grad()
def compare(name: str, given: argparse.Namespace) -> None:
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        image_of, text_of, (mean, std) = PEERS[name](folder, given)
        model = load_model(folder)
        gray = np.random.default_rng(0).integers(0, 256, (1, 600, 520), dtype=np.uint8)
        own = model.spec.preprocessing
        plain = torch.from_numpy(own.normalize(own.square(gray)))[None]
        levels = (torch.tensor(one).view(1, 3, 1, 1) for one in (mean, std))
        low, high = levels
        pixels = (plain.repeat(1, 3, 1, 1) - low) / high
        regions = model.embed_images(plain).flatten(1, 2)
        texts = model.embed_sentences(SENTENCES)
        image, text = (F.normalize(one, dim=-1) for one in (image_of(pixels), text_of(model)))
        global_ = F.normalize(regions.mean(dim=1), dim=-1)
        off = [
            (global_ - image).abs().max(),
            (texts - text).abs().max(),
            (model.scores(regions, texts) - text @ image.T).abs().max(),
        ]
        images = seconds(lambda: image_of(pixels)) / seconds(lambda: model.embed_images(plain))
        said = seconds(lambda: text_of(model)) / seconds(lambda: model.embed_sentences(SENTENCES))
        shown = ",".join(f"{float(value):.0e}" for value in off)
        print(f"{name},{shown},{images:.2f},{said:.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peers", nargs="+", choices=PEERS)
    parser.add_argument("--checkout", type=Path, help="of the peer's own code")
    given = parser.parse_args()
    torch.set_num_threads(1)
    print("pair,image,text,score,their time over ours for images,for sentences")
    for name in given.peers:
        compare(name, given)


if __name__ == "__main__":
    main()
