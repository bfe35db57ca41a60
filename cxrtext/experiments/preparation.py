"""What all rows of table 1 share, made once: data, text, images, and where training starts."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from cxrtext.defaults import DEFAULT_A, DEFAULT_K
from cxrtext.errors import DataError
from cxrtext.evaluation.data import find_table, manifest_of, reports_of
from cxrtext.experiments.experiment import ExperimentListener
from cxrtext.experiments.papers.table1 import CONFIG, Scale
from cxrtext.experiments.stages import stage
from cxrtext.files import sha256
from cxrtext.images import Preprocessing
from cxrtext.images.cache import DecodedCache
from cxrtext.phantom.write import write_phantoms
from cxrtext.records import read_manifest
from cxrtext.records.columns import SECTION_COLUMNS
from cxrtext.records.tables import read_table, write_table

STEMS = ("manifest", "reports", "labels", "boxes", "truth")
"""The tables of a data folder."""
TRAINING, LEARNING = "train.csv", "learning.csv"
"""Reports of the training split, and of training and validation."""
SENTENCES = "sentences.csv"


def fingerprints(data: Path) -> dict[str, str]:
    manifest_of(data)
    return {path.name: sha256(path) for stem in STEMS if (path := find_table(data, stem))}


def write_learning_reports(data: Path, manifest: Path, out: Path) -> dict[str, int]:
    """Write the reports that text models may see, of train and also of val; gives their rows."""
    path = reports_of(manifest)
    if path is None:
        raise DataError(f"{data}: holds no reports.csv, and its manifest has no column of reports")
    table = read_table(path, required=["study_id"])
    split = {record.study_id: record.split for record in read_manifest(manifest)}
    counts = {}
    for name, splits in ((TRAINING, ("train",)), (LEARNING, ("train", "val"))):
        rows = [row for row in table.rows if split.get(row["study_id"].strip()) in splits]
        if not rows:
            raise DataError(
                f"{path}: no report of a study of split 'train' in {manifest}; check that both "
                "tables use the same study_id"
            )
        columns = [c for c in table.columns if c in ("study_id", "report", *SECTION_COLUMNS)]
        write_table(out / name, columns, rows)
        counts[name] = len(rows)
    return counts


def relative(path: Path, folder: Path) -> str:
    return os.path.relpath(path.resolve(), folder.resolve())


@dataclass(frozen=True, slots=True)
class Prepared:
    """What the rows train on, and what was noted of each stage.

    The sentences are those of the training and validation studies, scored; the language model is
    a folder, or a hub id; the cache a folder of decoded images; the starts are checkpoints that
    rows go on from, none where they begin anew; features stand in place of decoded images.
    """

    data: Path
    manifest: Path
    sentences: Path
    language_model: str
    cache: Path
    stages: dict[str, dict[str, Any]]
    starts: tuple[Path, ...] = ()
    features: Path | None = None

    def tree(self, scale: Scale, folder: Path) -> dict[str, Any]:
        tree: dict[str, Any] = {name: dict(section) for name, section in scale.config.items()}
        places = ["manifest", "sentences", "cache"]
        if self.features is not None:
            tree["data"], places[2] = {}, "features"
            tree["model"].pop("image")
        for key in places:
            tree["data"][key] = relative(getattr(self, key), folder)
        model = Path(self.language_model)
        tree["model"]["text"] = relative(model, folder) if model.is_dir() else self.language_model
        tree["out"] = "train"
        return tree


@contextmanager
def _one_thread() -> Iterator[None]:
    """One torch thread inside: the language models are so small that a second only costs."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _language_model(
    out: Path, reports: Path, options: Mapping[str, Any], listener: ExperimentListener
) -> dict[str, Any]:
    from cxrtext.language import pretrain_text

    heard = listener.counting("language model", "steps")
    with _one_thread():
        summary = pretrain_text(reports, out, **options, progress=heard)
    return {"pseudo-perplexity a word piece": summary.perplexity, "epochs": summary.epochs}


def _decode(
    cache: Path, manifest: Path, section: Mapping[str, Any], listener: ExperimentListener
) -> dict[str, Any]:
    records = read_manifest(manifest)
    squares = DecodedCache(cache, listener.say).fill(
        [record.path for record in records],
        Preprocessing(resize=section["resize"], crop=section["crop"]),
        progress=listener.counting("decoding", "images"),
    )
    return {"images": len(records), "unreadable": int((squares.slots < 0).sum())}


def _score(
    out: Path, model: str, listener: ExperimentListener, eta: tuple[float, float]
) -> dict[str, Any]:
    from cxrtext.language import ScoreSettings, score_reports

    with _one_thread():
        summary = score_reports(
            out.with_name(LEARNING),
            out,
            ScoreSettings(a=eta[0], k=eta[1]),
            model=model,
            progress=listener.counting("likelihoods", "sentences"),
        )
    return {"sentences": summary.sentences, "distinct": summary.distinct_sentences}


def _heard(stage_name: str, listener: ExperimentListener) -> Any:
    from cxrtext.training.loop.steps import Listener

    return Listener(
        say=listener.say,
        step=lambda report, total: listener.progress(stage_name, report.step, total, "steps"),
    )


def _image_encoder(
    out: Path, manifest: Path, cache: Path, scale: Scale, listener: ExperimentListener
) -> dict[str, Any]:
    from cxrtext.training.image_pretraining import ImagePretrainSettings, pretrain_image

    data = scale.config["data"]
    with _one_thread():
        summary = pretrain_image(
            manifest,
            out,
            settings=ImagePretrainSettings(
                image=scale.config["model"]["image"],
                resize=data["resize"],
                crop=data["crop"],
                **scale.image,
            ),
            cache=cache,
            resume=(out / "state").is_dir(),
            device=scale.config["training"]["device"],
            listener=_heard("image encoder", listener),
        )
    return {"learned": len(summary.findings), "epochs": summary.epochs}


def _aligned(
    out: Path,
    weights: Path | None,
    prepared: Prepared,
    scale: Scale,
    seed: int,
    listener: ExperimentListener,
) -> dict[str, Any]:
    """Train a common start: InfoNCE, on the image encoder of the finding words."""
    from cxrtext.config import load_config, write_config
    from cxrtext.training import train

    tree = prepared.tree(scale, out)
    if weights is not None:
        tree["model"]["image_weights"] = relative(weights, out)
    tree["objective"] = {"name": "info-nce"}
    tree["training"].update(scale.start, seed=seed)
    write_config(out / CONFIG, tree)
    config = load_config(out / CONFIG)
    resume, heard = (config.out / "state").is_dir(), _heard("common start", listener)
    with _one_thread():
        return {"steps": train(config, resume=resume, listener=heard).steps}


def sentences_with(sentences: Path, eta: tuple[float, float]) -> Path:
    return sentences.with_stem(f"{sentences.stem}-{eta[0]:g}-{eta[1]:g}")


def prepare(
    out: Path,
    given: Path | None,
    scale: Scale,
    listener: ExperimentListener,
    etas: Iterable[tuple[float, float]] = (),
    features: Path | None = None,
) -> Prepared:
    """Make what all rows share, unless an earlier run has; ``etas``: a and k beside the usual."""
    notes: dict[str, dict[str, Any]] = {}

    def once(name: str, product: Path, work: Callable[[], Mapping[str, Any]]) -> None:
        notes[name] = stage(out, name, product, work)

    data = given or out / "data"
    if given is None:
        heard = listener.counting("phantoms", "images")
        draw = partial(write_phantoms, data, studies=scale.studies, size=scale.size, progress=heard)
        once("phantoms", data / "manifest.csv", lambda: asdict(draw()))
    manifest, text, cache = manifest_of(data), out / "text", out / "decoded"
    once("reports", text / LEARNING, lambda: write_learning_reports(data, manifest, text))
    if isinstance(scale.language_model, str):
        model = scale.language_model
        notes["language-model"] = {"hub id": model}
    else:
        folder, options = out / "language-model", scale.language_model
        once(
            folder.name,
            folder / "model.safetensors",
            lambda: _language_model(folder, text / TRAINING, options, listener),
        )
        model = str(folder)
    sentences, usual = text / SENTENCES, (DEFAULT_A, DEFAULT_K)
    once("score-text", sentences, lambda: _score(sentences, model, listener, usual))
    for eta in etas:  # likelihoods come from the cache of the first
        table = sentences_with(sentences, eta)
        once(table.stem, table, partial(_score, table, model, listener, eta))
    if features is None:
        once("decode", cache, lambda: _decode(cache, manifest, scale.config["data"], listener))
    prepared = Prepared(data, manifest, sentences, model, cache, notes, features=features)
    if not scale.columns:
        return prepared
    weights = None
    if features is None:
        encoder = out / "image-encoder"
        weights = encoder / "encoder.safetensors"
        learn = partial(_image_encoder, encoder, manifest, cache, scale, listener)
        once("pretrain-image", weights, learn)
    starts = []
    for seed in range(scale.starts):
        folder = out / (f"start-{seed}" if seed else "start")
        starts.append(folder / "train/checkpoint")
        align = partial(_aligned, folder, weights, prepared, scale, seed, listener)
        once(folder.name, starts[-1], align)
    return replace(prepared, starts=tuple(starts))
