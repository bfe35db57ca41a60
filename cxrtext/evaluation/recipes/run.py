"""Run a benchmark from start to end: the list, the images, the evaluation, the files."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from cxrtext.evaluation.documents.images import counted
from cxrtext.evaluation.documents.provenance import now
from cxrtext.evaluation.evaluate import evaluate
from cxrtext.evaluation.recipes.lists import digest_of_names
from cxrtext.evaluation.recipes.prepare import Selection, prepare
from cxrtext.evaluation.recipes.recipe import Recipe, load_recipe
from cxrtext.evaluation.report import ReportOptions, write_report
from cxrtext.evaluation.result import Evaluation
from cxrtext.evaluation.settings import Settings
from cxrtext.files import write_json
from cxrtext.images.cache import DecodedCache
from cxrtext.models.features.folder import FeatureFolder
from cxrtext.records import Rejects

NOTE = "recipe.json"
NOT_MEASURED = {"value": None, "low": None, "high": None, "method": ""}


@dataclass(frozen=True, slots=True)
class RecipeRun:
    """The result of a benchmark: the evaluation, the content of ``recipe.json``, and the files."""

    evaluation: Evaluation
    record: dict[str, Any]
    files: list[Path] = field(default_factory=list)


def run_recipe(
    recipe: str | Path | Recipe,
    checkpoint: Path,
    data: Path,
    out: Path,
    *,
    listed: Path | None = None,
    subset: bool = False,
    device: str = "cpu",
    cache: DecodedCache | None = None,
    features: FeatureFolder | None = None,
    report: ReportOptions | None = None,
    max_rejected: int = 100,
    progress: Callable[[int, int], None] | None = None,
) -> RecipeRun:
    """Measure a checkpoint with a frozen recipe.

    Args:
        recipe: A name for ``cxrtext evaluate --recipe``, or a recipe's YAML file.
        data: The data folder that ``cxrtext import`` made from the public set.
        out: Gets ``recipe.json``, and what ``cxrtext evaluate --out`` writes.
        listed: A file with one image name a line, if a manifest does not tell them.
        subset: Whether to measure the images at hand even if some are missing or the list is not
            the official one; the result is then marked as not the benchmark.
    """
    recipe = recipe if isinstance(recipe, Recipe) else load_recipe(recipe)
    content, rejects = recipe.content, Rejects(max_rejected)
    selection = prepare(recipe, data, listed=listed, subset=subset)
    prompts = recipe.prompts
    result = evaluate(
        checkpoint,
        selection.folder,
        split="test",
        prompts={name: prompts[name] for name in selection.findings} or None,
        device=device,
        cache=cache,
        features=features,
        rejects=rejects,
        progress=progress,
        settings=Settings(**content.settings.model_dump(), primary=content.primary),
    )
    record = _record(recipe, selection, result, rejects)
    result.recipe.update(record)
    if record["why_not"]:
        reasons = "; ".join(record["why_not"])
        result.warnings.insert(0, f"This is not the benchmark {recipe.name}: {reasons}.")
    result.left_out.extend(selection.left_out)
    files = [*write_report(out, result, report), out / NOTE]
    write_json(out / NOTE, record)
    rejects.write(out / "images")
    return RecipeRun(result, record, files)


def _record(
    recipe: Recipe, selection: Selection, result: Evaluation, rejects: Rejects
) -> dict[str, Any]:
    """The content of ``recipe.json``: no path, and at most a missing image's name of a patient."""
    content, found = recipe.content, selection.found
    why = list(selection.short)
    if rejects.rows:
        first = Path(rejects.rows[0][0]).name
        why.append(f"{counted(len(rejects.rows), 'image')} cannot be read, the first {first}")
    official = None if found.known is None else found.known.model_dump()
    prompts = recipe.prompts
    return {
        "recipe": recipe.name,
        "version": content.version,
        "recipe_sha256": recipe.sha256,
        "title": content.title,
        "benchmark": not why,
        "why_not": why,
        "list": {
            "file": found.where,
            "images": len(found.names),
            "sha256": digest_of_names(found.names),
            "official": official,
            "measured": len(found.test),
            "measured_sha256": digest_of_names(found.test),
            "needed": len(found.wanted),
            "left_out": {
                "not in the set that was given": selection.missing,
                "chooses no thresholds, as another image of its patient is measured": (
                    selection.apart
                ),
            },
        },
        "images": result.images,
        "patients": result.patients,
        "primary": result.primary or {"measure": content.primary, **NOT_MEASURED},
        "prompts": {name: asdict(prompts[name]) for name in selection.findings},
        "prompts_source": content.prompts.source if content.prompts else "",
        "settings": content.settings.model_dump(),
        "preprocessing": result.details and asdict(result.details.model.spec.preprocessing),
        "facts": list(content.facts),
        "not_had": list(content.not_had),
        "fingerprint": result.fingerprint,
        "cxrtext": version("cxrtext"),
        "date": now(),
    }
