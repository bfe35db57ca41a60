"""How long a project takes, what room it needs, and how a budget of time is spent.

Speeds are measured on the archive's own images and this machine's own cores, for a few seconds.
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from cxrtext.errors import ConfigError
from cxrtext.images import Preprocessing, read_image
from cxrtext.language.pretraining.pretrain import new_model
from cxrtext.language.pretraining.settings import BATCH_TOKENS, SHAPES
from cxrtext.project.facts import Facts
from cxrtext.project.recipe import MOST_LONGER, Recipe
from cxrtext.text.tokenizer import train_tokenizer
from cxrtext.training.image_pretraining.networks import build_network
from cxrtext.training.loop.device import autocast, choose_device, choose_precision

START_S = 6.0
"""What it takes to start a stage: its libraries, its tables, its figures at the end."""
PIECES_A_LETTER = 0.3
BATCH = 32
TEXT_STEP_S = 0.25
"""Of a step that trains the text encoder on embedded images, on one core."""
GIB = 2**30


@dataclass(frozen=True, slots=True)
class Speeds:
    """Seconds on this machine."""

    reading: float  # to read an image and make its square
    learning: float  # to train the image encoder on an image
    embedding: float  # to embed an image as evaluation and index do
    language: float  # to train the language model on a word piece


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds of each stage, in order; bytes on disk and in memory."""

    seconds: Mapping[str, float]
    disk: int
    memory: int

    @property
    def total(self) -> float:
        return sum(self.seconds.values())


def measure_speeds(recipe: Recipe, facts: Facts) -> Speeds:
    """Measure the speeds that a recipe's stages have here, in some ten seconds."""
    encoder, device = recipe.image_encoder, choose_device("auto")
    shape = Preprocessing(resize=encoder.resize, crop=encoder.crop)
    reading = _each(lambda: [shape.square(read_image(path)) for path in facts.sample[:8]], 8)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(recipe.threads)
        network = build_network(encoder.image).to(device)
        images = torch.rand(BATCH, 1, encoder.crop, encoder.crop, device=device)
        precision = choose_precision("auto", device)

        def learn() -> None:
            with autocast(device, precision):
                loss = network(images).last_hidden_state.float().square().mean()
            loss.backward()
            if device.type == "cuda":
                torch.cuda.synchronize()

        def embed() -> None:
            with torch.inference_mode():
                float(network(images).last_hidden_state.sum())

        learning = _each(learn, BATCH)
        network.eval()
        embedding = _each(embed, BATCH)
        language = _language_speed(recipe.language_model.size)
    finally:
        torch.set_num_threads(threads)
    return Speeds(reading, learning, embedding, language)


def _each(work: Callable[[], Any], count: int) -> float:
    """Seconds for each of so many, the first time apart; the median of three."""
    work()
    taken = []
    for _ in range(3):
        begun = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begun)
    return sorted(taken)[1] / count


def _language_speed(size: str) -> float:
    """Seconds to train on a word piece, a batch forward and back."""
    model = new_model(SHAPES[size], train_tokenizer(["no effusion"], 200), seed=0)
    ids = torch.randint(5, int(model.config.vocab_size), (BATCH_TOKENS // 16, 16))

    def learn() -> None:
        logits = model(input_ids=ids).logits
        functional.cross_entropy(logits.flatten(0, 1), ids.flatten()).backward()

    return _each(learn, ids.numel())


def estimate(recipe: Recipe, facts: Facts, speeds: Speeds, *, imports: bool) -> Estimate:
    """What a recipe takes; ``imports`` says whether the images are brought over first."""
    encoder, training = recipe.image_encoder, recipe.config()["training"]
    steps = encoder.settings().steps(max(facts.training, BATCH))
    held_out = facts.images * facts.held_out
    read = facts.images * speeds.reading / recipe.threads
    words = facts.letters * PIECES_A_LETTER
    shape = SHAPES[recipe.language_model.size]
    epochs = recipe.language_model.epochs
    pieces = epochs * words if epochs else max(shape.tokens, 3 * words)
    language = 1.2 * pieces * speeds.language
    learn = steps * BATCH * speeds.learning + 5 * held_out * speeds.embedding / 2
    locked = (training.get("unlock") or training["steps"]) if training.get("lock") else 0
    batch = training.get("batch", 64)
    cores = recipe.threads + 1  # of the training; speeds are of the encoder's threads
    align = facts.training * speeds.embedding + training["steps"] * TEXT_STEP_S / cores
    live = training["steps"] - locked
    align += live * batch * 1.3 * speeds.learning * (recipe.threads + 0.25) / cores
    measure = held_out * speeds.embedding + 5
    seconds = {
        "import": facts.images * 0.004 + facts.bytes / 150e6 if imports else 0.0,
        "check": read,
        "labels": 0.0 if facts.has_labels else facts.letters / 150_000,
        "language model": language,
        "likelihoods": 0.15 * language,
        "image encoder": read + learn,
        "training": align,
        "learning curve": (learn / 3 + align / 2 + measure) * recipe.learning_curve,
        "evaluation": measure,
        "calibration": measure,
        "index": facts.images * speeds.embedding,
    }
    seconds = {name: START_S + value for name, value in seconds.items() if value}
    if recipe.threads < (torch.get_num_threads() or 1):  # beside the image encoder
        seconds["image encoder"] -= min(
            seconds["image encoder"] - START_S,
            seconds["language model"] + seconds["likelihoods"],
        )
    decoded = facts.images * encoder.resize**2
    regions = facts.images * (encoder.crop // 32) ** 2 * 128 * 2
    copied = facts.bytes if imports and not recipe.source.link else 0
    return Estimate(
        seconds,
        round(copied + decoded + 2 * regions + 0.3 * GIB),
        round(1.5 * GIB + facts.training * encoder.resize**2 + regions),
    )


def fitted(recipe: Recipe, facts: Facts, speeds: Speeds, budget: float, *, imports: bool) -> Recipe:
    """The recipe for a budget of seconds (ConfigError where it is too short for anything).

    Time that is left, or lacks, is the image encoder's: most of it is spent there, and most is
    gained.  Where it lacks, the learning curve goes first.
    """
    usual = recipe.image_encoder.settings().steps(max(facts.training, BATCH))
    epoch = max(1, facts.training // BATCH)

    def with_epochs(epochs: int, curve: bool) -> Recipe:
        encoder = recipe.image_encoder.model_copy(update={"epochs": epochs})
        return recipe.model_copy(update={"image_encoder": encoder, "learning_curve": curve})

    def takes(epochs: int, curve: bool) -> float:
        return estimate(with_epochs(epochs, curve), facts, speeds, imports=imports).total

    normal = max(1, round(usual / epoch))
    for curve in (recipe.learning_curve, False):
        if takes(max(1, normal // 2), curve) <= budget or not curve:
            break
    most = MOST_LONGER * normal
    epochs = max((n for n in range(1, most + 1) if takes(n, curve) <= budget), default=0)
    if not epochs:
        least = math.ceil(takes(1, False) / 60)
        raise ConfigError(
            f"--budget: at least {least} minutes are needed here for {facts.studies} studies; "
            "give more, or fewer studies"
        )
    return with_epochs(epochs, curve)
