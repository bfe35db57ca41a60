"""What is done under the pretended GPU, in a process of its own.

Its ``found.json`` has what each piece of work found, or the end of its traceback.
"""

import json
import traceback
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.device import pretend

WORK: dict[str, Callable[[Path], dict[str, Any]]] = {}
STEPS = 3
QUERY = "Left pleural effusion."


def work(name: str, *given: Any) -> Callable[[Callable[..., dict[str, Any]]], Any]:
    """Have a function do a piece of work of that name; the pieces are done in order."""

    def noted(do: Callable[..., dict[str, Any]]) -> Any:
        WORK[name] = lambda folder: do(folder, *given)
        return do

    return noted


@work("golden")
def golden(folder: Path) -> dict[str, Any]:
    """Golden answers where a program has TF32 on, as torch has it from the beginning."""
    from cxrtext.models.foreign import load_backbone, make_golden
    from tests import small_backbones

    small_backbones.write(folder / "resnet", "resnet")
    on_gpu, on_cpu = (load_backbone(folder / "resnet", device=d) for d in ("cuda", "cpu"))
    image = torch.rand(1, 1, *(on_cpu.preprocessing.crop,) * 2)
    made, expected = (make_golden(backbone)["regions"] for backbone in (on_gpu, on_cpu))
    return {
        "tf32": torch.backends.cudnn.allow_tf32,
        "others apart": float((on_gpu(image.cuda()).cpu() - on_cpu(image)).abs().max()),
        "golden apart": float(np.abs(made - expected).max()),
    }


@work("device")
def device(_: Path) -> dict[str, Any]:
    from cxrtext.device import choose_device, choose_precision, gpus, has_bfloat16

    gpu, chosen = choose_device("auto"), {}
    for major in (7, 8):
        pretend.properties.major = major
        chosen[major] = [has_bfloat16(gpu), choose_precision("auto", gpu)]
    return {
        "chosen": chosen,
        "gpus": gpus(str(gpu)),
        "tf32": [torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32],
    }


@work("scoring")
def scoring(folder: Path) -> dict[str, Any]:
    from cxrtext.language import score_reports
    from tests.conftest import read_csv, write_data, write_language_model

    write_data(folder / "data", 24)
    write_language_model(folder / "lm")
    tables = {}
    for place in ("cpu", "cuda"):
        out = folder / f"{place}.csv"
        score_reports(folder / "data/reports.csv", out, model=folder / "lm", device=place)
        tables[place] = [float(row["log_likelihood"]) for row in read_csv(out)]
    apart = [abs(one - other) for one, other in zip(*tables.values(), strict=True)]
    return {"apart": max(apart), "sentences": len(apart)}


def trained(folder: Path, name: str, *more: str) -> dict[str, Any]:
    from cxrtext.config import load_config
    from cxrtext.training import Listener, train
    from tests.conftest import _training_options

    options = _training_options(folder / "data", folder / "cpu.csv", folder / "lm", folder / name)
    fixed = [f"training.steps={STEPS}", "training.save_every=2", "training.device=auto"]
    fixed.append(f"data.cache={folder / 'cache'}")
    if any(one.startswith("data.features") for one in more):
        of_images = ("data.resize", "data.crop", "model.image")
        options = [one for one in options if not one.startswith(of_images)]
    if resume := "resume" in more:
        max((folder / name / "state").glob("*.pt")).unlink()  # of the last step
    said: list[str] = []
    losses: list[float] = []
    listener = Listener(say=said.append, step=lambda report, _: losses.append(report.loss))
    sets = [one for one in more if one != "resume"]
    config = load_config(None, [*options, *fixed, *sets])
    summary = train(config, resume=resume, listener=listener)
    return {
        "losses": losses,
        "said": said[-1],
        "beside": sorted(path.stem for path in summary.checkpoint.glob("*.safetensors")),
    }


PRECISIONS = ("float32", "bfloat16", "float16")
for _name in PRECISIONS:
    work(f"train {_name}", _name, f"training.precision={_name}")(trained)
work("train on the CPU", "cpu", "training.precision=float32", "training.device=cpu")(trained)
PARTS = (
    "training.accumulate=2", "training.mlm_weight=0.1",
    "training.lock=[image]", "training.unlock=2",
)  # fmt: skip
work("train in parts", "parts", *PARTS)(trained)
work("resume", "parts", "resume", *PARTS)(trained)


@work("two GPUs", "two", "training.batch=8")
@work("two GPUs, in parts", "two-parts", "training.accumulate=2", "training.batch=8")
@work("two GPUs, scaled", "two-scaled", "training.precision=float16", "training.batch=8")
@work("two GPUs, locked", "two-locked", "training.lock=[image]", "training.batch=8")
def trained_on_two(folder: Path, name: str, *more: str) -> dict[str, Any]:
    from tests.device.two_gpus import two_gpus

    with two_gpus() as asked:
        return trained(folder, name, *more) | {"backends": asked}


@work("features")
def features(folder: Path) -> dict[str, Any]:
    """Encoded on a GPU, trained on there, and asked on the CPU."""
    from cxrtext.evaluation import evaluate
    from cxrtext.jobs import EncodeOptions, encode_images
    from cxrtext.models import load_model
    from cxrtext.models.features import open_features
    from tests.jobs.here import work_here

    made = folder / "features"
    with work_here():
        options = EncodeOptions(grid=2, reduce=6, shard=16, device="cuda")
        encode_images(folder / "data/manifest.csv", folder / "resnet", made, options)
    found = trained(folder, "of-features", f"data.features={made}")
    checkpoint = folder / "of-features/checkpoint"
    load_model(checkpoint)
    measured = evaluate(checkpoint, folder / "data", device="cuda", features=open_features(made))
    return {**found, "images": measured.images}


@work("pretrainings")
def pretrainings(folder: Path) -> dict[str, Any]:
    from cxrtext.language import pretrain_text
    from cxrtext.training.image_pretraining import ImagePretrainSettings, pretrain_image

    small = ImagePretrainSettings(image="resnet-narrow", resize=40, crop=32, epochs=2, batch=8)
    encoder = pretrain_image(
        folder / "data/manifest.csv", folder / "encoder", settings=small, device="cuda"
    )
    lines = ["study_id,findings", *(f"s{i},The heart of study {i} is normal." for i in range(60))]
    (folder / "reports.csv").write_text("\n".join(lines))
    pretrain_text(folder / "reports.csv", folder / "text", size="demo", epochs=1)
    return {"findings": len(encoder.findings)}


@work("evaluation")
def evaluation(folder: Path) -> dict[str, Any]:
    from cxrtext.evaluation import evaluate

    return {"images": evaluate(folder / "cpu/checkpoint", folder / "data", device="cuda").images}


@work("index and search")
def search(folder: Path) -> dict[str, Any]:
    """The same vectors and answers on both devices; and the questions of a service."""
    from cxrtext.index import build_index
    from cxrtext.service import load_service

    answers: dict[str, dict[str, float]] = {}
    for place in ("cpu", "cuda"):
        index = folder / f"index-{place}"
        build_index(folder / "data/manifest.csv", folder / "cpu/checkpoint", index, device=place)
        with closing(load_service(None, index, device=place)) as service:
            hits = service.search(service.make_query([QUERY]), 5).hits
            answers[place] = {hit.image.image: hit.score for hit in hits}
            if place == "cuda":
                image = service.embedded(hits[0].image.image)
                service.classify(image)
                service.ground(image, QUERY)
                service.verify(image, QUERY)
    return answers


@work("estimate")
def estimate(_: Path) -> dict[str, Any]:
    from cxrtext.language.pretraining.settings import SHAPES
    from cxrtext.project import estimate as module

    before = pretend.counted.total()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SHAPES, "demo", replace(SHAPES["demo"], batch_tokens=64))
        module._language_speed("demo", torch.device("cuda"))
    return {"on device": pretend.counted.total() - before}


def main(folder: Path) -> None:
    pretend.install()
    found: dict[str, Any] = {}
    for name, do in WORK.items():
        pretend.waits.clear()
        try:
            found[name] = do(folder) | {"waits": dict(pretend.waits)}
        except Exception:  # noqa: BLE001 - a test says which work failed, and why
            found[name] = {"error": traceback.format_exc()[-3000:]}
    (folder / "found.json").write_text(json.dumps(found, indent=1))
