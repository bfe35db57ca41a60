"""How long a project takes, how much space it needs, and how to spend a time budget.

Speeds are measured on the archive's own images and this machine's cores, for a few seconds.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional

from cxrtext.device import autocast, choose_device, choose_precision, limited_threads
from cxrtext.images import Preprocessing, read_image
from cxrtext.jobs.encode import BATCH as ENCODE_BATCH
from cxrtext.jobs.encode import MAP_IMAGES
from cxrtext.language.pretraining.pretrain import new_model
from cxrtext.language.pretraining.settings import SHAPES
from cxrtext.language.pretraining.train import precision_on
from cxrtext.project.facts import Facts
from cxrtext.project.layout import GRID
from cxrtext.project.recipe import MOST_LONGER, Recipe
from cxrtext.text.tokenizer import train_tokenizer
from cxrtext.training.image_pretraining.networks import build_network

if TYPE_CHECKING:
    from cxrtext.models.foreign import Backbone

START_S = 6.0
"""To start a stage (libraries, tables) and to compute its figures at the end."""
PIECES_A_LETTER = 0.3
BATCH = 32
STEP_PIECES, STEP_S, VALIDATION_S = 48, 0.06, 2.0
"""For a training on embedded images: word pieces that a step passes through the text encoder, for
each image of its batch; the rest of a step; and a validation."""
FEATURES_S = 0.002
"""To read an image's features and bring them to the joint space."""
PIXEL_BYTES = 120
"""Memory for each input pixel while an encoder works, for a ViT-B."""
CHANNELS = 1024
"""Channels of features; most encoders have fewer."""
SLOW_S = 0.3
"""Images that take longer are timed one at a time, not in a batch."""
FEW_PIXELS = 128
"""Side of the training images if time is short; a multiple of the stride."""
GIB = 2**30


@dataclass(frozen=True, slots=True)
class Speeds:
    """Seconds on this machine."""

    reading: float  # to read an image and make its square
    learning: float  # to train the image encoder on an image
    embedding: float  # to embed an image for evaluation and index
    language: float  # to train the language model on a word piece
    network: int = 0  # bytes of the image encoder


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds of each stage, in order; bytes on disk and in memory."""

    seconds: Mapping[str, float]
    disk: int
    memory: int

    @property
    def total(self) -> float:
        return sum(self.seconds.values())


def measure_speeds(recipe: Recipe, facts: Facts, given: "Backbone | None") -> Speeds:
    """Measure how fast a recipe's stages run here, in some ten seconds.

    ``given`` is the frozen encoder; measuring takes longer with a large one.
    """
    encoder, device = recipe.image_encoder, choose_device("auto")
    shape = Preprocessing(resize=encoder.resize, crop=encoder.crop)
    reading = _each(lambda: [shape.square(read_image(path)) for path in facts.sample[:8]], 8)
    with limited_threads(recipe.threads):
        language = _language_speed(recipe.language_model.size, device)
        network = (given or build_network(encoder.image)).to(device)
        size = sum(4 * tensor.numel() for tensor in network.parameters())
        images = torch.rand(BATCH, 1, encoder.crop, encoder.crop, device=device)
        precision = choose_precision("auto", device)

        def learn() -> None:
            with autocast(device, precision):
                loss = network(images).last_hidden_state.float().square().mean()
            loss.backward()
            _wait(device)

        def embed(count: int = BATCH) -> None:
            with torch.inference_mode():
                output = network(images[:count])
                float((output if given else output.last_hidden_state).sum())

        if given:
            alone = _each(lambda: embed(1), 1)
            embedding = alone if alone > SLOW_S else _each(embed, BATCH)
            return Speeds(reading, 0.0, embedding, language, size)
        learning = _each(learn, BATCH)
        network.eval()
        embedding = _each(embed, BATCH)
    return Speeds(reading, learning, embedding, language, size)


def _wait(device: torch.device) -> None:
    """Wait until a GPU has finished its work, before a time is taken."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _each(work: Callable[[], Any], count: int) -> float:
    """Seconds for each of ``count``: the median of three runs after a first one."""
    work()
    taken = []
    for _ in range(3):
        begun = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begun)
    return sorted(taken)[1] / count


def _language_speed(size: str, device: torch.device) -> float:
    """Seconds to train on a word piece, from one batch forward and back."""
    shape = SHAPES[size]
    model = new_model(shape, train_tokenizer(["no effusion"], 200), seed=0)
    nn.Module.to(model, device)
    ids = torch.randint(5, int(model.config.vocab_size), (shape.batch_tokens // 16, 16)).to(device)

    def learn() -> None:
        with autocast(device, precision_on(device)):
            logits = model(ids)
        functional.cross_entropy(logits.float().flatten(0, 1), ids.flatten()).backward()
        _wait(device)

    return _each(learn, ids.numel())


def estimate(recipe: Recipe, facts: Facts, speeds: Speeds, *, imports: bool) -> Estimate:
    """What a recipe takes; ``imports`` says whether the images are imported first."""
    encoder, training = recipe.image_encoder, recipe.config()["training"]
    frozen = recipe.frozen is not None
    steps = encoder.settings().steps(max(facts.training, BATCH))
    held_out = facts.images * facts.held_out
    read = facts.images * speeds.reading / recipe.threads
    words = facts.letters * PIECES_A_LETTER
    shape = SHAPES[recipe.language_model.size]
    epochs = recipe.language_model.epochs
    pieces = epochs * words if epochs else max(shape.tokens, 3 * words)
    language = 1.2 * pieces * speeds.language
    watched = 5 * held_out * speeds.embedding / 2
    learn = steps * BATCH * speeds.learning + watched
    few = encoder.settings().steps(max(facts.training // 3, BATCH))  # for the learning curve
    again = few * BATCH * speeds.learning + watched
    locked = (training.get("unlock") or training["steps"]) if training.get("lock") else 0
    batch = training.get("batch", 64)
    cores = recipe.threads + 1  # for the training; speeds are for the encoder's threads
    embedding, stage, of_images = speeds.embedding, "image encoder", read + learn
    if frozen:  # every core has a process that reads and encodes; later stages read features
        passes = facts.images + min(MAP_IMAGES, facts.training)
        of_images = passes * (speeds.reading + speeds.embedding * recipe.threads) / cores
        embedding, stage, again, locked = FEATURES_S, "features", 0.0, training["steps"]
    text_step = STEP_S + STEP_PIECES * batch * speeds.language * recipe.threads / cores
    validations = max(1, training["steps"] / training["validate_every"])
    align = facts.training * embedding + training["steps"] * text_step + VALIDATION_S * validations
    live = training["steps"] - locked
    align += live * batch * 1.3 * speeds.learning * (recipe.threads + 0.25) / cores
    measure = held_out * embedding + 5
    seconds = {
        "import": facts.images * 0.004 + facts.bytes / 150e6 if imports else 0.0,
        "check": read,
        "labels": 0.0 if facts.has_labels else facts.letters / 150_000,
        "findings": facts.letters / 150_000,
        "language model": language,
        "likelihoods": 0.15 * language,
        stage: of_images,
        "training": align,
        "learning curve": (again + align / 2 + measure + 2 * START_S) * recipe.learning_curve,
        "evaluation": measure,
        "index": facts.images * embedding,
    }
    seconds = {name: START_S + value for name, value in seconds.items() if value}
    if recipe.threads < (torch.get_num_threads() or 1):  # the text runs beside the images
        beside = seconds["language model"] + seconds["likelihoods"]
        gained = beside * (1 - 1 / cores) if frozen else beside
        seconds[stage] -= min(seconds[stage] - START_S, gained)
    if recipe.source.model:  # nothing is trained
        kept = ("import", "check", "labels", "evaluation", "index")
        seconds = {name: value for name, value in seconds.items() if name in kept}
    decoded = facts.images * encoder.resize**2
    side = min(GRID, encoder.crop // 14) if frozen else encoder.crop // 32
    regions = facts.images * side**2 * 128 * 2
    copied = facts.bytes if imports and not recipe.source.link else 0
    if frozen:
        features = regions * CHANNELS // 128
        worker = 0.7 * GIB + speeds.network + ENCODE_BATCH * PIXEL_BYTES * encoder.crop**2
        return Estimate(
            seconds,
            round(copied + 2 * speeds.network + features + regions + 0.3 * GIB),
            round(1.5 * GIB + cores * worker),
        )
    return Estimate(
        seconds,
        round(copied + decoded + 2 * regions + 0.3 * GIB),
        round(1.5 * GIB + facts.training * encoder.resize**2 + regions),
    )


def fitted(
    recipe: Recipe,
    facts: Facts,
    speeds_of: Callable[[Recipe], Speeds],
    budget: float,
    *,
    imports: bool,
) -> Recipe:
    """The recipe for a budget of seconds; if that is too short for any, the shortest one.

    Spare time goes to the image encoder, where most time is spent and most is gained.  If time is
    short, the result is the largest of :func:`smaller` that still trains the encoder for half as
    long as usual; a learning curve, which improves no model, is kept only beside the usual epochs.
    """
    usual = recipe.image_encoder.settings().steps(max(facts.training, BATCH))
    normal = max(1, round(usual / max(1, facts.training // BATCH)))
    tried = recipe
    for tried in smaller(recipe):
        speeds = speeds_of(tried)
        fewest = normal if tried.learning_curve else max(1, normal // 2)
        least, most = (1, 1) if tried.frozen else (fewest, MOST_LONGER * normal)

        def takes(epochs: int, tried: Recipe = tried, speeds: Speeds = speeds) -> float:
            return estimate(with_epochs(tried, epochs), facts, speeds, imports=imports).total

        if takes(least) <= budget:
            return with_epochs(tried, max(n for n in range(least, most + 1) if takes(n) <= budget))
    return with_epochs(tried, 1)


def with_epochs(recipe: Recipe, epochs: int) -> Recipe:
    """The recipe with this number of epochs for the image encoder, if it is trained."""
    kept = None if recipe.frozen else epochs
    encoder = recipe.image_encoder.model_copy(update={"epochs": kept})
    return recipe.model_copy(update={"image_encoder": encoder})


def smaller(recipe: Recipe) -> Iterator[Recipe]:
    """The recipe, then ever smaller ones.

    First the learning curve goes, then the training of an encoder from elsewhere, then the larger
    language model, and last the size of the training images.
    """
    encoder = recipe.image_encoder
    kept = encoder.model_copy(update={"tune": False})
    for each in [encoder, kept] if encoder.tune else [encoder]:
        recipe = recipe.model_copy(update={"image_encoder": each})
        yield recipe
        if recipe.learning_curve:
            yield recipe.model_copy(update={"learning_curve": False})
    recipe = recipe.model_copy(update={"learning_curve": False})
    if recipe.language_model.size != "demo":
        language = recipe.language_model.model_copy(update={"size": "demo"})
        recipe = recipe.model_copy(update={"language_model": language})
        yield recipe
    if recipe.frozen is None and encoder.crop > FEW_PIXELS:
        few = {"crop": FEW_PIXELS, "resize": round(encoder.resize * FEW_PIXELS / encoder.crop)}
        train = {**recipe.train, "data": {**recipe.train.get("data", {}), **few}}
        small = encoder.model_copy(update=few)
        yield recipe.model_copy(update={"image_encoder": small, "train": train})
