"""The public names of the package."""

import hashlib
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

from tests.goldens.run import REAL, Part, say


def parameters(thing: Any) -> str:
    """The names, kinds and defaults of parameters; annotations may name modules that move."""
    try:
        found = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return ""
    plain = [one.replace(annotation=inspect.Parameter.empty) for one in found]
    return f"({', '.join(re.sub(' at 0x[0-9a-f]+', '', str(one)) for one in plain)})"


def names_of(module: str) -> None:
    home = importlib.import_module(module)
    for name in sorted(getattr(home, "__all__", [n for n in dir(home) if n[:1] != "_"])):
        thing = getattr(home, name)
        if inspect.ismodule(thing) and module != "cxrtext":
            continue
        own: list[str] = []
        if inspect.isclass(thing) and issubclass(thing, BaseException):
            own = [one.__name__ for one in thing.__mro__[1:-1]]
        elif inspect.isclass(thing):
            mine = {n: getattr(thing, n) for n in sorted(dir(thing)) if n[:1] != "_"}
            own = [f"{n}{parameters(m) if callable(m) else ''}" for n, m in mine.items()]
        say(f"{module}.{name}{parameters(thing)}" + "".join(f"\n    {one}" for one in own))


def package_names() -> None:
    for module in ("cxrtext", "errors", "client", "objectives", "objectives.kernels"):
        names_of(module if module == "cxrtext" else f"cxrtext.{module}")
    for module, names in {
        "cxrtext.models.similarity": "lse non_local_bags lse_nl",
        "cxrtext.evaluation": "contrast_to_noise mean_iou retrieval_metrics",
        "cxrtext.images": "read_image",
    }.items():
        for name in names.split():
            thing = getattr(importlib.import_module(module), name)
            say(f"{module}.{name}{parameters(thing)}")


def package_calls() -> None:
    import numpy as np
    import torch

    import cxrtext
    from cxrtext import evaluation, objectives
    from cxrtext.images import read_image
    from cxrtext.models import similarity
    from cxrtext.objectives import kernels

    random = torch.Generator().manual_seed(0)
    scores, more = (5 * torch.randn(6, 6, generator=random) for _ in range(2))
    labels, z = torch.tensor([0, 0, 1, 1, 2, 2]), torch.randn(6, 3, generator=random)
    same, eta, z = (
        labels[:, None] == labels,
        torch.rand(6, generator=random) / 5,
        z / z.norm(dim=1, keepdim=True),
    )
    kernel = kernels.rbf(z, 1.0)
    o = objectives
    for name, value in {
        "class_probability": o.class_probability(-10 * scores.abs()),
        "info_nce": o.info_nce(scores),
        "debiased": o.debiased(scores, eta, 14.0),
        "debiased extra": o.debiased(scores, 0.1, 14.0, more),
        "symmetric debiased": o.symmetric(o.debiased)(scores, eta, 14.0),
        "remove_negatives": o.remove_negatives(scores, same),
        "resample": o.resample_negatives(
            scores, more / 20, 3, 1.0, torch.Generator().manual_seed(1)
        ),
        "reweight_negatives": o.reweight_negatives(scores, more / 20, 2.0),
        "hard_negative": o.hard_negative(scores, 0.1, 1.0, 14.0),
        "supervised": o.supervised(scores, same),
        "alignment_uniformity": o.alignment_uniformity(z, z.flip(0)),
        "y_aware": o.y_aware(scores, kernel),
        "conditional_alignment": o.conditional_alignment(scores, kernel),
        "conditional_uniformity": o.conditional_uniformity(scores, kernel),
        "weakly_supervised": o.weakly_supervised(scores, labels),
        "fair": o.fair(scores, labels),
        "cclk_weakly_supervised": o.cclk_weakly_supervised(scores, kernel, 0.1),
        "cclk_fair": o.cclk_fair(scores, kernel, 0.1),
        "cclk_hard_negative": o.cclk_hard_negative(scores, z, 0.1),
        **{
            k: getattr(kernels, k)(z)
            for k in ("laplacian", "linear", "cosine", "polynomial", "delta")
        },
        "lse_nl": similarity.lse_nl(torch.randn(2, 4, 3, generator=random), z, 10.0),
    }.items():
        say(f"{name}: {[round(one, 5) for one in value.flatten().tolist()]}")
    say(str(evaluation.retrieval_metrics(scores.numpy())))
    for path in [
        Path("../base/data/images/s000001.png"),
        *sorted(Path(REAL or ".", "dicom").glob("*.dcm")),
    ]:
        try:
            pixels = read_image(path)
            digest = hashlib.sha256(np.ascontiguousarray(pixels).tobytes()).hexdigest()[:16]
            say(f"{path.name}: {tuple(pixels.shape)} {digest}")
        except Exception as error:  # noqa: BLE001
            say(f"{path.name}: {type(error).__name__}: {error}")
    say(
        str(
            cxrtext.score_sentences(
                ["The lungs are clear.", "No edema."], model="../base/lm"
            ).round(4)
        )
    )
    model = cxrtext.load_model("../base/run/checkpoint")
    say(f"{type(model).__name__} {sum(p.numel() for p in model.parameters())} {model.training}")
    say(f"{type(cxrtext.open_index('../base/index')).__name__}")
    service = cxrtext.load_service("../base/run/checkpoint", "../base/index")
    image = service.embed_file(Path("../base/data/images/s000001.png"))
    say(f"{service.classify(image)}\n{service.ground(image, 'Left pleural effusion.').peak}")
    say(f"{service.search_text('Edema.', 2)}\n{service.search_image(image, 2)}")
    say(f"{service.verify(image, 'The heart is normal. No edema.')}")


def package(run: Part) -> None:
    """The public names of the package, and what they give."""
    run.forked(package_names, "names")
    run.forked(package_calls, "calls")
