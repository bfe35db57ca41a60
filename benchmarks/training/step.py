"""A whole training step: ours against a plain PyTorch loop that does the same work.

    python benchmarks/training/step.py [--size 256] [--crop 224] [--batch 32] [--steps 8]

Both train the same model (ResNet-18, a small BERT of random weights, LSE+NL, InfoNCE) on the same
drawn files with AdamW and clipping.  Theirs is what one writes first: a ``DataLoader`` whose
workers open each file with PIL, resize, crop and jitter it, and sentences padded to the longest.
Ours reads the decoded cache, which is filled before the clock starts and timed by itself.  On CUDA
both use bfloat16, and our share of the device's matmul peak is printed.
"""

import argparse
import csv
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

WORDS = "the lungs are clear small left right pleural effusion heart size is normal no acute edema"
WARM = 2


def write_data(folder: Path, images: int, side: int) -> tuple[Path, Path]:
    """Smooth noise with sentences of random words; returns manifest and sentences."""
    generator = np.random.default_rng(0)
    words = WORDS.split()
    manifest, sentences = [], []
    for i in range(images):
        coarse = generator.integers(0, 255, (side // 8, side // 8)).astype(np.uint8)
        picture = Image.fromarray(coarse).resize((side, side), Image.Resampling.BICUBIC)
        picture.save(folder / f"{i}.png")
        manifest.append({"image": f"{i}.png", "study_id": f"s{i}", "split": "train"})
        for position in range(3):
            chosen = generator.choice(words, generator.integers(4, 30))
            sentences.append(
                {
                    "study_id": f"s{i}",
                    "section": "findings",
                    "position": position,
                    "sentence": " ".join(chosen),
                    "n_tokens": len(chosen),
                    "log_likelihood": -1.0,
                    "eta": 0.1,
                }
            )
    for name, rows in (("manifest", manifest), ("sentences", sentences)):
        with (folder / f"{name}.csv").open("w", newline="") as handle:
            writer = csv.DictWriter(handle, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    return folder / "manifest.csv", folder / "sentences.csv"


def write_language_model(folder: Path) -> Path:
    """A BERT of 4 layers and 256 dimensions, with random weights."""
    from transformers import BertConfig, BertForMaskedLM

    from cxrtext.text.tokenizer import train_tokenizer

    tokenizer = train_tokenizer([WORDS] * 3, 200)
    tokenizer.save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=1024,
        max_position_embeddings=128,
    )
    BertForMaskedLM(config).save_pretrained(folder)
    return folder


def ours(config: Any, steps: int) -> dict[str, float]:
    """Images a second, share of waiting, seconds of decoding, and operations a step."""
    from torch.utils.flop_counter import FlopCounterMode

    from cxrtext.device import choose_device
    from cxrtext.records import Rejects
    from cxrtext.training.image_text import gather_examples, look_of, read_tables
    from cxrtext.training.initialization import build_model, build_optimizer, training_arguments
    from cxrtext.training.loop.distributed import Processes
    from cxrtext.training.loop.job import train_steps
    from cxrtext.training.objectives.shared.objective import as_objective
    from cxrtext.training.step import build_learner, pair_job

    device = choose_device("auto")
    tables, model = read_tables(config), build_model(config)
    begun = time.perf_counter()
    examples, _ = gather_examples(config, tables, model, Rejects(), look_of(config, model))
    decoding = time.perf_counter() - begun
    arguments = training_arguments(config, device)
    model.to(device)
    model.image_encoder.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    learner = build_learner(
        model,
        None,
        build_optimizer(model, None, config),
        precision=arguments.precision,
        processes=Processes(),
    )
    reports = train_steps(pair_job(learner, examples, as_objective(config.objective), arguments))
    for _ in range(WARM):
        next(reports)
    with FlopCounterMode(display=False) as counter:
        next(reports)
    begun = time.perf_counter()
    taken = [next(reports) for _ in range(steps)]
    spent = time.perf_counter() - begun
    reports.close()
    return {
        "images_per_second": steps * arguments.batch / spent,
        "waiting": float(np.mean([report.waiting for report in taken])),
        "decoding": decoding,
        "flops": counter.get_total_flops() * steps / spent,
    }


class Files(torch.utils.data.Dataset[tuple[Tensor, str]]):
    """Opens, resizes, crops and jitters a file each time it is asked for."""

    def __init__(self, config: Any, tables: Any) -> None:
        self.records, self.data = tables.records, config.data
        self.said: dict[str, list[str]] = {}
        for sentence in tables.sentences:
            self.said.setdefault(sentence.study_id, []).append(sentence.sentence)

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, row: int) -> tuple[Tensor, str]:
        resize, crop = self.data.resize, self.data.crop
        picture = Image.open(self.records[row].path).convert("L")
        picture = picture.resize((resize, resize), Image.Resampling.BILINEAR)
        top, left = torch.randint(resize - crop + 1, (2,)).tolist()
        pixels = torch.from_numpy(np.asarray(picture)[top : top + crop, left : left + crop] / 255.0)
        contrast, brightness = (torch.rand(2) * 0.2 - 0.1).tolist()
        seen = ((pixels.float() - 0.5) * (1 + contrast) + 0.5 + brightness).clamp(0, 1)
        said = self.said[self.records[row].study_id]
        return (seen[None] - 0.5) / 0.25, said[int(torch.randint(len(said), ()))]


def theirs(config: Any, steps: int, workers: int) -> dict[str, float]:
    """Images a second of the plain loop."""
    from cxrtext.device import choose_device
    from cxrtext.training.image_text import read_tables
    from cxrtext.training.initialization import build_model

    device = choose_device("auto")
    model = build_model(config).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.01)
    loader = torch.utils.data.DataLoader(
        Files(config, read_tables(config)),
        batch_size=config.training.batch,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        pin_memory=device.type == "cuda",
        persistent_workers=workers > 0,
    )
    done, begun = 0, 0.0
    half = device.type == "cuda"
    while True:
        for images, sentences in loader:
            tokens = model.tokenize(sentences)
            with torch.autocast(device.type, dtype=torch.bfloat16, enabled=half):
                regions = model.embed_images(images.to(device, non_blocking=True))
                texts = model.embed_tokens(*(t.to(device) for t in tokens.values()))
            scores = model.gamma_sq * model.scores(regions.float().flatten(1, 2), texts.float())
            target = torch.arange(len(images), device=device)
            loss = nn.functional.cross_entropy(scores, target)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            loss.item()
            done += 1
            if done == WARM + 1:
                begun = time.perf_counter()
            if done == WARM + 1 + steps:
                spent = time.perf_counter() - begun
                return {"images_per_second": steps * config.training.batch / spent}


def matmul_peak() -> float:
    """Operations a second of a large bfloat16 product on CUDA."""
    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    for _ in range(3):
        a @ a
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(20):
        a @ a
    torch.cuda.synchronize()
    return 20 * 2 * 8192**3 / (time.perf_counter() - begun)


def main() -> None:
    from cxrtext.config import load_config

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=256, help="side of the decoded images")
    parser.add_argument("--crop", type=int, default=224)
    parser.add_argument("--files", type=int, default=1024, help="side of the files")
    parser.add_argument("--images", type=int, default=96)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--workers", type=int, default=2, help="of the plain loop")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        manifest, sentences = write_data(folder, options.images, options.files)
        config = load_config(
            None,
            [
                f"data.manifest={manifest}",
                f"data.sentences={sentences}",
                f"data.resize={options.size}",
                f"data.crop={options.crop}",
                f"model.text={write_language_model(folder / 'language-model')}",
                f"training.batch={options.batch}",
                "training.steps=1000",
                "objective.name=info-nce",
                f"out={folder / 'run'}",
            ],
        )
        mine = ours(config, options.steps)
        peer = theirs(config, options.steps, options.workers)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, batch {options.batch}")
    one, other = mine["images_per_second"], peer["images_per_second"]
    print(f"ours {one:.1f} images/s   plain loop {other:.1f} images/s   ratio {one / other:.2f}")
    print(f"waiting for data: {mine['waiting']:.1%} of ours")
    print(f"decoding, once: {options.images / mine['decoding']:.1f} images/s")
    if torch.cuda.is_available():
        print(f"share of matmul peak: {mine['flops'] / matmul_peak():.1%}")


if __name__ == "__main__":
    main()
