"""What a finished pair gains from an archive's reports, and from reports of other studies.

A small CLIP in transformers' layout is trained on one drawn set; adapters on its locked towers are
trained on another set by three seeds, with its own reports and with those of other studies.
Zero-shot AUC is of 1,200 further drawings.

    python benchmarks/models/adapters.py --out adapters
"""

import argparse
import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

from cxrtext.images import Preprocessing, read_image
from cxrtext.models.pairs.tokenizers import clip_tokenizer
from cxrtext.project.archive import prompts_of
from cxrtext.project.recipe import adapting
from cxrtext.records import read_manifest, read_sentences, write_table
from cxrtext.records.tables import read_table

SIDE, PATCH, BATCH, PIECES = 96, 16, 64, 800
MEAN, STD = 0.48, 0.27
TOWER = {
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "hidden_act": "gelu",
}


def cxrtext(*words: Any) -> str:
    done = subprocess.run(
        [str(Path(sys.executable).parent / "cxrtext"), *map(str, words)],
        check=True,
        stdout=subprocess.PIPE,
    )
    return done.stdout.decode()


def write_merges(folder: Path, sentences: list[str]) -> int:
    """OpenAI's list of merges, learned from sentences; gives how many there are."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

    learned = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    learned.normalizer = normalizers.Lowercase()
    learned.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.BpeTrainer(vocab_size=PIECES, end_of_word_suffix="</w>", show_progress=False)
    learned.train_from_iterator(sentences, trainer)
    merges = [" ".join(pair) for pair in json.loads(learned.to_str())["model"]["merges"]]
    text = "\n".join(["#version: 0.2", *merges])
    (folder / "bpe_simple_vocab_16e6.txt.gz").write_bytes(gzip.compress(text.encode()))
    return len(merges)


def train_clip(data: Path, sentences: Path, folder: Path, steps: int) -> None:
    """Train a CLIP on a data folder, and save it as transformers does."""
    import transformers

    folder.mkdir(parents=True)
    said: dict[str, list[str]] = {}
    for one in read_sentences(sentences):
        said.setdefault(one.study_id, []).append(one.sentence)
    rows = [r for r in read_manifest(data / "manifest.csv") if r.split == "train"]
    rows = [r for r in rows if r.study_id in said]
    merges = write_merges(folder, [one for own in said.values() for one in own])
    tokenizer = clip_tokenizer(folder)
    shape = Preprocessing(SIDE, SIDE, MEAN, STD)
    pixels = np.stack([shape.normalize(shape.square(read_image(r.path))) for r in rows])
    text = {**TOWER, "vocab_size": 512 + merges + 2, "max_position_embeddings": 77}
    text |= {"bos_token_id": 512 + merges, "eos_token_id": 512 + merges + 1}
    vision = {**TOWER, "image_size": SIDE, "patch_size": PATCH}
    torch.manual_seed(0)
    config = transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=128)
    model = transformers.CLIPModel(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
    decay = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-3, steps, pct_start=0.1)
    rng = np.random.default_rng(0)
    for step in range(steps):
        chosen = rng.choice(len(rows), BATCH, replace=False)
        ids = tokenizer(
            [str(rng.choice(said[rows[i].study_id])) for i in chosen],
            padding=True, truncation=True, max_length=77, return_tensors="pt",
        )  # fmt: skip
        images = torch.from_numpy(pixels[chosen]).expand(-1, 3, -1, -1)
        loss = model(pixel_values=images, **ids, return_loss=True).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        decay.step()
        if step % 100 == 0:
            print(f"CLIP: step {step} of {steps}, loss {loss.item():.3f}", file=sys.stderr)
    model.save_pretrained(folder)
    processor = {
        "image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": SIDE},
        "crop_size": SIDE, "resample": 3, "image_mean": [MEAN] * 3, "image_std": [STD] * 3,
    }  # fmt: skip
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))


def shuffle(sentences: Path, data: Path, out: Path, seed: int) -> None:
    """Write the sentences with those of each training study given to another one."""
    table = read_table(sentences)
    train = sorted({r.study_id for r in read_manifest(data / "manifest.csv") if r.split == "train"})
    other = dict(zip(train, np.random.default_rng(seed).permutation(train), strict=True))
    rows = [
        {**row, "study_id": str(other.get(row["study_id"], row["study_id"]))} for row in table.rows
    ]
    write_table(out, table.columns, rows)


def adapt(clip: Path, data: Path, sentences: Path, out: Path, seed: int) -> Path:
    """Train adapters by the recipe of ``fit --improve``; gives the best checkpoint."""
    manifest = data / "manifest.csv"
    studies = len({r.study_id for r in read_manifest(manifest) if r.split == "train"})
    config = adapting({"name": "dcl-eta-lm"}, studies) | {"out": str(out)}
    config["data"] = {
        "manifest": str(manifest),
        "sentences": str(sentences),
        "cache": str(data.parent / "decoded"),
    }
    config["model"] |= {"init": str(clip)}
    config["training"] |= {"seed": seed, "prompts": str(data.parent / "prompts.yaml")}
    path = out.with_suffix(".yaml")
    path.write_text(yaml.safe_dump(config))
    done = json.loads(cxrtext("train", path, "--json"))
    print(f"{out.name}: best after {done['best_step']} of {done['steps']} steps", file=sys.stderr)
    return out / "checkpoint-best"


def main() -> None:
    parser = argparse.ArgumentParser(description="What a finished pair gains from reports.")
    parser.add_argument("--out", type=Path, default=Path("adapters"))
    parser.add_argument("--steps", type=int, default=800, help="of the CLIP")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--language", default="en", help="of the archive's reports: en, de or es")
    given = parser.parse_args()
    out = given.out
    elsewhere, here, further = (out / name for name in ("elsewhere", "here", "further"))
    drawn = ["--size", 144, "--language", given.language]
    if not elsewhere.exists():
        cxrtext("phantom", elsewhere, "--studies", 1500, "--size", 144, "--seed", 11)
    if not here.exists():
        cxrtext("phantom", here, "--studies", 900, "--seed", 12, *drawn)
    if not further.exists():
        cxrtext("phantom", further, "--studies", 1200, "--seed", 77, *drawn)
    model, clip = out / "language-model", out / "clip"
    if not model.exists():
        cxrtext(
            "pretrain-text", here / "reports.csv", "--out", model, "--size", "demo", "--epochs", 1
        )
    for data in (elsewhere, here):
        if not (to := out / f"{data.name}.csv").exists():
            cxrtext("score-text", data / "reports.csv", "--model", model, "--out", to)
    if not clip.exists():
        train_clip(elsewhere, out / "elsewhere.csv", clip, given.steps)
    prompts = out / "prompts.yaml"
    prompts.write_text(prompts_of(here))
    found = {"as it is": clip}
    for seed in range(given.seeds):
        other = out / f"shuffled-{seed}.csv"
        shuffle(out / "here.csv", here, other, seed)
        for name, table in {"own reports": out / "here.csv", "of others": other}.items():
            run = out / f"{name.replace(' ', '-')}-{seed}"
            found[f"{name}, seed {seed}"] = adapt(clip, here, table, run, seed)
    measured = [out / f"evaluation-{number}" for number in range(len(found))]
    for (name, checkpoint), to in zip(found.items(), measured, strict=True):
        own = ["--data", further, "--split", "all", "--prompts", prompts, "--out", to]
        cxrtext("evaluate", checkpoint, *own, "--cache", out / "decoded")
        print(f"{name}: {to}", file=sys.stderr)
    cxrtext("compare", *measured, "--out", out / "comparison")
    told = json.loads((out / "comparison/comparison.json").read_text())
    for name, to in zip(found, measured, strict=True):
        auc = told["measures"][to.name]["AUC"]
        print(name, *(f"{auc[key]:.3f}" for key in ("value", "low", "high")))
    for line in told["differences"]:
        if line["measure"] == "AUC" and line["first"] == measured[0].name:
            gain = (f"{line[key]:+.3f}" for key in ("estimate", "low", "high"))
            print(f"gain of {line['second']}:", *gain)


if __name__ == "__main__":
    main()
