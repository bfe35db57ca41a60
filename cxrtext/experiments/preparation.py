"""What all rows share, made once: data, language model, scored sentences, decoded images."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cxrtext.experiments.data_tables import (
    LEARNING,
    TRAINING,
    manifest_of,
    write_learning_reports,
)
from cxrtext.experiments.options import ExperimentListener
from cxrtext.experiments.scales import Scale
from cxrtext.experiments.stages import stage
from cxrtext.images import Preprocessing
from cxrtext.images.cache import DecodedCache
from cxrtext.phantom.write import write_phantoms
from cxrtext.records import read_manifest

SENTENCES = "sentences.csv"


@dataclass(frozen=True, slots=True)
class Prepared:
    """What the rows train on.

    Args:
        data: The data folder.
        manifest: Its manifest.
        sentences: The scored sentences of the training and validation studies.
        language_model: A folder, or a hub id.
        cache: The folder of decoded images.
        stages: What was noted of each stage.
    """

    data: Path
    manifest: Path
    sentences: Path
    language_model: str
    cache: Path
    stages: dict[str, dict[str, Any]]


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
    out: Path, reports: Path, scale: Scale, listener: ExperimentListener
) -> tuple[str, dict[str, Any]]:
    if isinstance(scale.language_model, str):
        return scale.language_model, {"hub id": scale.language_model}
    folder, options = out / "language-model", dict(scale.language_model)

    def work() -> dict[str, Any]:
        from cxrtext.language import pretrain_text

        with _one_thread():
            summary = pretrain_text(
                reports,
                folder,
                **options,
                progress=lambda done, total: listener.progress(
                    "language model", done, total, "steps"
                ),
            )
        return {"pseudo-perplexity a word piece": summary.perplexity, "epochs": summary.epochs}

    return str(folder), stage(out, "language-model", folder / "model.safetensors", work)


def _decode(
    cache: Path, manifest: Path, section: Mapping[str, Any], listener: ExperimentListener
) -> dict[str, Any]:
    records = read_manifest(manifest)
    squares = DecodedCache(cache, listener.say).fill(
        [record.path for record in records],
        Preprocessing(resize=section["resize"], crop=section["crop"]),
        progress=lambda done, total: listener.progress("decoding", done, total, "images"),
    )
    return {"images": len(records), "unreadable": int((squares.slots < 0).sum())}


def _draw(out: Path, scale: Scale, listener: ExperimentListener) -> dict[str, Any]:
    return asdict(
        write_phantoms(
            out,
            studies=scale.studies,
            size=scale.size,
            progress=lambda done, total: listener.progress("phantoms", done, total, "images"),
        )
    )


def _score(text: Path, model: str, listener: ExperimentListener) -> dict[str, Any]:
    from cxrtext.language import score_reports

    with _one_thread():
        summary = score_reports(
            text / LEARNING,
            text / SENTENCES,
            model=model,
            progress=lambda done, total: listener.progress("likelihoods", done, total, "sentences"),
        )
    return {"sentences": summary.sentences, "distinct": summary.distinct_sentences}


def prepare(out: Path, given: Path | None, scale: Scale, listener: ExperimentListener) -> Prepared:
    """Make what all rows share, as far as an earlier run has not.

    Args:
        out: The experiment's folder.
        given: A data folder, or None for phantoms.
        scale: How much.
        listener: Who hears how it goes.

    Returns:
        Where everything lies.

    Raises:
        DataError: The data lack what is needed.
    """
    notes: dict[str, dict[str, Any]] = {}
    data = given or out / "data"
    if given is None:
        notes["phantoms"] = stage(
            out, "phantoms", data / "manifest.csv", lambda: _draw(data, scale, listener)
        )
    manifest, text, cache = manifest_of(data), out / "text", out / "decoded"
    notes["reports"] = stage(
        out, "reports", text / LEARNING, lambda: write_learning_reports(data, manifest, text)
    )
    model, notes["language-model"] = _language_model(out, text / TRAINING, scale, listener)
    notes["score-text"] = stage(
        out, "score-text", text / SENTENCES, lambda: _score(text, model, listener)
    )
    notes["decode"] = stage(
        out, "decode", cache, lambda: _decode(cache, manifest, scale.config["data"], listener)
    )
    return Prepared(data, manifest, text / SENTENCES, model, cache, notes)
