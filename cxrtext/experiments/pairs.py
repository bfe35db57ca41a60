"""SSD table 1 and figure 3: corrections for false negatives, trained with an equal budget.

Everything that rows share is made once: data, text, images, and the start of training.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from cxrtext.config import Config, load_config, path_keys, write_config
from cxrtext.device import choose_device, limited_threads
from cxrtext.errors import DataError
from cxrtext.evaluation import Evaluation, Prompts, evaluate
from cxrtext.evaluation.classification.zero_shot import classify, measure_zero_shot
from cxrtext.evaluation.data import find_table, manifest_of, reports_of
from cxrtext.evaluation.result import Details
from cxrtext.evaluation.rows import OF_FINDING
from cxrtext.evaluation.truth import measure_truth
from cxrtext.experiments.definition import (
    Experiment,
    ExperimentListener,
    ExperimentOptions,
    Group,
    Row,
    Scale,
    merged,
)
from cxrtext.experiments.runs import Measures, Run, stage
from cxrtext.images import Preprocessing
from cxrtext.images.cache import DecodedCache
from cxrtext.language import pretrain_text, score_reports
from cxrtext.language.pretraining.settings import Shape
from cxrtext.models.features import open_features
from cxrtext.phantom.truth import read_truth
from cxrtext.phantom.write import write_phantoms
from cxrtext.records import read_manifest
from cxrtext.records.columns import SECTION_COLUMNS
from cxrtext.records.tables import read_table, write_table
from cxrtext.training import train
from cxrtext.training.image_pretraining import ImagePretrainSettings, pretrain_image

CONFIG = "train.yaml"
"""The configuration in a run's folder."""
TRAINING, LEARNING = "train.csv", "learning.csv"
"""Reports of the training split, and of training and validation."""
PROMPTED, TOP10 = "AUC, more prompts", "R@10, sentences"
RETRIEVED = "sentence to image R@10"


class Pairs:
    def __init__(
        self,
        experiment: Experiment,
        scale: Scale,
        options: ExperimentOptions,
        out: Path,
        listener: ExperimentListener,
    ) -> None:
        self.experiment, self.scale, self.listener = experiment, scale, listener
        self.options, self.out = options, out
        self.data = options.data or out / "data"
        self.cache, self.text = out / "decoded", out / "text"
        self.model = scale.language_model
        self.notes: dict[str, dict[str, Any]] = {}

    # --- what all rows share ---

    def _once(self, name: str, product: Path, work: Callable[[], Mapping[str, Any]]) -> None:
        with limited_threads(1):  # the language models are so small that a second thread only costs
            self.notes[name] = stage(self.out, name, product, work)

    def prepare(self, _groups: Iterable[Group]) -> dict[str, Any]:
        """Make what all rows share, unless an earlier run did."""
        scale, heard = self.scale, self.listener.counting
        if self.options.data is None:
            drawn = heard("phantoms", "images")
            draw_them = partial(
                write_phantoms, self.data, studies=scale.studies, size=scale.size, progress=drawn
            )
            self._once("phantoms", self.data / "manifest.csv", lambda: asdict(draw_them()))
        self._once("reports", self.text / LEARNING, self._write_reports)
        if isinstance(scale.language_model, dict):
            self.model = str(self.out / "language-model")
            weights = self.out / "language-model/model.safetensors"
            self._once("language-model", weights, self._language_model)
        self._once("score-text", self.text / "sentences.csv", self._score)
        if self.options.features is None:
            self._once("decode", self.cache, self._decode)
        if scale.start:
            if self.options.features is None:
                weights = self.out / "image-encoder/encoder.safetensors"
                self._once("pretrain-image", weights, self._image_encoder)
            for number in range(scale.starts):
                folder = self._start(number)
                align = partial(self._align, folder, number)
                self._once(folder.name, folder / "train/checkpoint", align)
        return self.notes

    def _start(self, seed: int) -> Path:
        number = seed % self.scale.starts
        return self.out / (f"start-{number}" if number else "start")

    def _write_reports(self) -> dict[str, int]:
        """Write the reports that text models may see, of train alone and with val."""
        manifest = manifest_of(self.data)
        path = reports_of(manifest)
        if path is None:
            raise DataError(
                f"{self.data}: no reports.csv, and no column of reports in the manifest"
            )
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
            write_table(self.text / name, columns, rows)
            counts[name] = len(rows)
        return counts

    def _language_model(self) -> dict[str, Any]:
        given = self.scale.language_model
        assert isinstance(given, dict)  # noqa: S101 - prepare has checked
        size = given["size"]
        summary = pretrain_text(
            self.text / TRAINING,
            Path(str(self.model)),
            size=size if isinstance(size, str) else Shape(**size),
            epochs=given.get("epochs"),
            progress=self.listener.counting("language model", "steps"),
        )
        return {"pseudo-perplexity a word piece": summary.perplexity, "epochs": summary.epochs}

    def _score(self) -> dict[str, Any]:
        summary = score_reports(
            self.text / LEARNING,
            self.text / "sentences.csv",
            model=str(self.model),
            progress=self.listener.counting("likelihoods", "sentences"),
        )
        return {"sentences": summary.sentences, "distinct": summary.distinct_sentences}

    def _decode(self) -> dict[str, Any]:
        records, section = read_manifest(manifest_of(self.data)), self.scale.settings["data"]
        squares = DecodedCache(self.cache, self.listener.say).fill(
            [record.path for record in records],
            Preprocessing(resize=section["resize"], crop=section["crop"]),
            progress=self.listener.counting("decoding", "images"),
        )
        return {"images": len(records), "unreadable": int((squares.slots < 0).sum())}

    def _image_encoder(self) -> dict[str, Any]:
        settings, out = self.scale.settings, self.out / "image-encoder"
        summary = pretrain_image(
            manifest_of(self.data),
            out,
            settings=ImagePretrainSettings(
                image=settings["model"]["image"], **settings["data"], **self.scale.image
            ),
            cache=self.cache,
            resume=(out / "state").is_dir(),
            device=settings["training"]["device"],
            listener=self.listener.training("image encoder"),
        )
        return {"learned": len(summary.findings), "epochs": summary.epochs}

    def _align(self, folder: Path, seed: int) -> dict[str, Any]:
        """Train a common start: InfoNCE, on the image encoder trained on finding words."""
        tree = self._tree(folder, self.scale.settings)
        if self.options.features is None:
            encoder = self.out / "image-encoder/encoder.safetensors"
            tree["model"]["image_weights"] = _relative(encoder, folder)
        tree["objective"] = {"name": "info-nce"}
        tree["training"].update(self.scale.start, seed=seed)
        write_config(folder / CONFIG, tree)
        return self._fit(load_config(folder / CONFIG), "common start")

    def _fit(self, config: Config, name: str) -> dict[str, Any]:
        # A run that was killed before it saved a state starts again.
        resume = (config.out / "state").is_dir()
        summary = train(config, resume=resume, listener=self.listener.training(name))
        return {"steps": summary.steps, "images": summary.images}

    def _tree(self, folder: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
        """A configuration with paths relative to its folder, so that it can be moved."""
        tree = merged(settings, {"out": "train"})
        sentences = self.text / "sentences.csv"
        places = {"manifest": manifest_of(self.data), "sentences": sentences, "cache": self.cache}
        if self.options.features is not None:
            tree["data"] = {}
            places["features"] = self.options.features
            del places["cache"], tree["model"]["image"]
        tree["data"] |= {key: _relative(path, folder) for key, path in places.items()}
        model = Path(str(self.model))
        tree["model"]["text"] = _relative(model, folder) if model.is_dir() else str(self.model)
        return tree

    # --- the rows ---

    def missing(self, needed: str) -> str:
        path = self.data / needed
        if path.is_file() or find_table(self.data, path.stem) is not None:
            return ""
        return f"{self.data}: holds no {needed}, which this row needs"

    def configuration(self, group: Group, row: Row, seed: int, folder: Path) -> dict[str, Any]:
        settings = self.scale.settings
        group_settings = self.scale.groups.get(group.name, {})
        tree = self._tree(folder, merged(settings, row.settings, group_settings))
        tree["objective"] = objective = dict(row.objective)
        training = tree["training"]
        training["seed"] = seed
        if "text" in training.get("lock", ()):
            training.pop("mlm_weight", None)  # it would train what is locked
        if self.scale.start:
            tree["model"]["init"] = _relative(self._start(seed) / "train/checkpoint", folder)
        if "keep" in objective:
            objective["keep"] = max(1, int(objective["keep"] * training["batch"]))
        # In the paper labels come from reports; phantoms have these as well as the truth.
        for key, owner, stem in (
            ("true_probability", "dcl-eta-true", "truth"),
            ("labels", "remove-by-labels", "labels_from_reports"),
        ):
            table = find_table(self.data, stem)
            if objective["name"] == owner and table is not None:
                objective[key] = str(table.resolve())
        return tree

    def settings(self, group: Group, row: Row, seed: int) -> dict[str, Any]:
        """The resolved configuration without its paths."""
        folder = self.out / "runs" / row.name / f"seed-{seed}"
        write_config(folder / CONFIG, self.configuration(group, row, seed, folder))
        resolved = load_config(folder / CONFIG).model_dump(mode="json")
        del resolved["out"], resolved["model"]["text"]
        for section, names in path_keys(resolved).items():
            for name in names:
                resolved[section].pop(name, None)
        return resolved

    def train(self, run: Run) -> tuple[dict[str, Any], Measures]:
        config = load_config(run.folder / CONFIG)
        fit = partial(self._fit, config, run.name)
        noted = stage(run.folder, "training", config.out / "checkpoint", fit)
        device = str(choose_device(config.training.device))
        features = self.options.features
        evaluation = evaluate(
            config.out / "checkpoint",
            self.data,
            split=self.scale.split,
            device=device,
            cache=DecodedCache(self.cache),
            features=open_features(features) if features else None,
        )
        about = (
            f"Measured on {evaluation.images} images of {evaluation.patients} patients, split "
            f"'{evaluation.split}'. AUC and ACC: means over the CheX5 findings, with the prompts "
            "of the paper, one a side. Recall (mean of R@10, R@50 and R@100) and MedR: for boxes "
            "and their sentences, means of both directions. Left out: "
            f"{'; '.join(evaluation.left_out) or 'nothing'}."
        )
        return {**noted, "device": device, "about": about}, self._measures(evaluation)

    def _measures(self, evaluation: Evaluation) -> Measures:
        """The measures of table 1 that an evaluation has, and the AUC of each finding."""
        compared = evaluation.rows.compared
        names = {measure.name for group in self.experiment.groups for measure in group.measures}
        measures: Measures = {
            name: figure
            for name, figure in compared.items()
            if name in names or name.startswith(OF_FINDING)
        }
        if evaluation.details is not None:
            measures |= self._beyond(evaluation.details)
        if (first := compared.get(RETRIEVED)) is not None:
            measures[TOP10] = first
        return measures

    def _beyond(self, details: Details) -> Measures:
        """Measures that the paper does not have, if the data allow them."""
        measures: Measures = {}
        model, cohort, settings = details.model, details.cohort, details.settings
        if (labels := details.folder.labels) is not None:
            prompts = {name: Prompts(**sides) for name, sides in self.experiment.prompts.items()}
            several = measure_zero_shot(
                classify(model, cohort, prompts, labels, settings), settings
            )
            if (mean := several.rows.compared.get("AUC")) is not None:
                measures[PROMPTED] = mean
        if (known := read_truth(self.data)) is not None:
            measures |= measure_truth(model, cohort, known)
        return measures


def _relative(path: Path, folder: Path) -> str:
    return os.path.relpath(path.resolve(), folder.resolve())
