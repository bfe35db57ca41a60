"""A training step with locked encoders: against live training, and against a plain PyTorch loop.

    python benchmarks/training/locked.py [--studies 400] [--steps 40] [--batch 64] [--sentences 6]

All train the same model (resnet-narrow at 112 pixels, a BERT of 2 layers of 128, LSE+NL,
DCL-η) on the same drawn radiographs with their reports.  "plain" is what one writes first on cached
features: they lie in memory in float32, sentences are tokenized and padded in each step, and equal
sentences of a batch are embedded as often as they occur.  Each runs in a process of its own, which
tells the peak of its memory; features are computed before the clock starts and timed by themselves.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

WARM = 3
KINDS = {
    "live": [],
    "image locked": ["training.lock=[image]"],
    "both locked": ["training.lock=[image,text]"],
    "plain": ["training.lock=[image]"],
}


def write_data(folder: Path, studies: int) -> list[str]:
    """Phantoms, a table of their sentences, and an untrained BERT; settings of a run on them."""
    from transformers import BertConfig, BertForMaskedLM

    from cxrtext.evaluation.data import sentences_beside
    from cxrtext.phantom import write_phantoms
    from cxrtext.records import write_sentences
    from cxrtext.text import train_tokenizer

    write_phantoms(folder, studies=studies, size=144, seed=0)
    said = sentences_beside(folder / "manifest.csv") or []
    scored = [replace(one, n_tokens=1, log_likelihood=-1.0, eta=0.1) for one in said]
    write_sentences(folder / "sentences.csv", scored)
    tokenizer = train_tokenizer([one.sentence for one in said], 800)
    tokenizer.save_pretrained(folder / "bert")
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=128, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=512, max_position_embeddings=128,
    )  # fmt: skip
    BertForMaskedLM(config).save_pretrained(folder / "bert")
    return [
        f"data.manifest={folder / 'manifest.csv'}",
        f"data.sentences={folder / 'sentences.csv'}",
        "data.resize=128",
        "data.crop=112",
        "model.image=resnet-narrow",
        f"model.text={folder / 'bert'}",
        "objective.name=dcl-eta",
        "training.steps=1000",
    ]


def measure(kind: str, settings: list[str], steps: int) -> dict[str, float]:
    """Seconds a step, of computing the features, and the peak of memory in MB."""
    from cxrtext.config import load_config
    from cxrtext.records import Rejects
    from cxrtext.training.image_text import gather_examples, look_of, read_tables
    from cxrtext.training.initialization import build_model, build_optimizer, training_arguments
    from cxrtext.training.loop.device import choose_device

    config = load_config(None, [*settings, *KINDS[kind]])
    device = choose_device("auto")
    model = build_model(config).to(device)
    arguments = training_arguments(config, device)
    look = look_of(config, model)
    examples, _ = gather_examples(config, read_tables(config), model, Rejects(), look)
    features, begun = _features(model, examples, config, arguments), time.perf_counter()
    taken: Any
    if kind == "plain":
        taken = plain_steps(model, examples, features[0], config)
    else:
        examples = replace(examples, features=features[0], states=features[1])
        taken = our_steps(model, examples, config, arguments, build_optimizer)
    for number, _ in enumerate(taken, 1):
        if number == WARM:
            begun = time.perf_counter()
        if number == WARM + steps:
            break
    spent = (time.perf_counter() - begun) / steps
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": spent, "features": features[2], "memory": peak}


def _features(model: Any, examples: Any, config: Any, arguments: Any) -> tuple[Any, Any, float]:
    from cxrtext.training.data.locked_features import Keeping, lock_images, lock_sentences

    keeping, begun = Keeping(folder=Path(config.out)), time.perf_counter()
    images = states = None
    if "image" in arguments.lock:
        images = lock_images(model, examples.pixels, examples.rows, keeping)
    if "text" in arguments.lock:
        states = lock_sentences(model, examples.tokens, keeping)
    return images, states, time.perf_counter() - begun


def our_steps(model: Any, examples: Any, config: Any, arguments: Any, optimizer_of: Any) -> Any:
    """The library's steps."""
    from cxrtext.training.loop.distributed import Processes
    from cxrtext.training.loop.job import train_steps
    from cxrtext.training.loop.optimization import lock_towers
    from cxrtext.training.losses.objective import build_objective
    from cxrtext.training.step import build_learner, pair_job

    lock_towers(model, arguments.lock)
    learner = build_learner(
        model, None, optimizer_of(model, None, config), precision=arguments.precision, ema=0.0,
        processes=Processes(), locked=arguments.lock,
    )  # fmt: skip
    return train_steps(pair_job(learner, examples, build_objective(config.objective), arguments))


def plain_steps(model: Any, examples: Any, features: Any, config: Any) -> Any:
    """What one writes first."""
    from cxrtext.objectives import debiased

    kept = torch.from_numpy(features.of(np.arange(len(examples)))).float()
    trained = [p for n, p in model.named_parameters() if not n.startswith("image_encoder.backbone")]
    optimizer = torch.optim.AdamW(trained, lr=1e-5, weight_decay=0.01)
    model.train()
    while True:
        rows = torch.randperm(len(examples))[: config.training.batch]
        said, image_of = [], []
        for place, row in enumerate(rows.tolist()):
            drawn = np.random.permutation(examples.sentences[row])[: config.training.sentences]
            said += [examples.texts[i].sentence for i in drawn]
            image_of += [place] * len(drawn)
        tokens = model.tokenize(said)
        texts = model.embed_tokens(**tokens)
        regions = model.image_encoder.project(kept[rows]).flatten(1, 2)
        scores = model.gamma_sq * model.scores(regions, texts)
        own = torch.tensor(image_of)
        loss = debiased(scores, config.objective.eta, model.gamma_sq, positive=own).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        yield loss.item()


def main() -> None:
    """Print each kind's seconds and memory, and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=400)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--sentences", type=int, default=6)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, json.loads(sys.stdin.read()), options.steps)))
        return
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = write_data(folder, options.studies)
        settings += [f"training.batch={options.batch}", f"training.sentences={options.sentences}"]
        for kind in KINDS:
            out = folder / kind.replace(" ", "-")
            command = [sys.executable, __file__, "--one", kind, "--steps", str(options.steps)]
            given = json.dumps([*settings, f"data.cache={folder / 'cache'}", f"out={out}"])
            done = subprocess.run(command, input=given, capture_output=True, text=True, check=True)
            found[kind] = json.loads(done.stdout.splitlines()[-1])
    print(
        f"torch {torch.__version__}, {torch.get_num_threads()} threads, batch {options.batch}, "
        f"{options.sentences} sentences an image"
    )
    base = found["image locked"]
    for kind, one in found.items():
        print(
            f"{kind:13} {1e3 * one['seconds']:7.1f} ms a step, {one['memory']:6.0f} MB; "
            f"over 'image locked': time {one['seconds'] / base['seconds']:.2f}, "
            f"memory {one['memory'] / base['memory']:.2f}"
            + (f"; features, once: {one['features']:.1f} s" if one["features"] > 0.01 else "")
        )


if __name__ == "__main__":
    main()
