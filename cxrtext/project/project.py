"""A model and its index for Python: images in, tables and heatmaps out."""

import os
from collections.abc import Mapping, Sequence, Sized
from contextlib import AbstractContextManager
from dataclasses import asdict, fields
from functools import partial
from html import escape
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pictures

from cxrtext.errors import DataError, InputError, NotFoundError
from cxrtext.evaluation import Prompts, read_prompts
from cxrtext.images import to_uint8
from cxrtext.images.raster import gray_of
from cxrtext.images.source import named_errors
from cxrtext.index import ImageHit, IndexedImage, SentenceHit
from cxrtext.index.features.scoring import mean_region
from cxrtext.index.search.hits import hits_of
from cxrtext.index.search.selection import view_of
from cxrtext.index.store.catalogue import TEXT_COLUMNS
from cxrtext.pausing import finish
from cxrtext.project.answers import Embeddings, Findings, Heatmap, OpenedImage, Row, Rows
from cxrtext.project.place import find_place
from cxrtext.service import Service, load_service, searching
from cxrtext.service.limits import Unique
from cxrtext.service.questions import Classify, Ground, Search, Verify, ask
from cxrtext.service.tables import HIT_COLUMNS, hit_row
from cxrtext.service.timeline import Film
from cxrtext.service.verify.verify import SupportedSentence

R = TypeVar("R", bound=Sized)
T = TypeVar("T")
Vector = NDArray[np.float32]
Matrix = NDArray[np.float32]
Several = list[T] | tuple[T, ...]
"""Or a pandas column."""
Phrases = str | Sequence[str]
PromptsGiven = Mapping[str, Prompts | tuple[Phrases, Phrases]] | str | Path
ImageGiven = str | Path | NDArray[Any] | Pictures.Image | ImageHit | OpenedImage
"""The path of a PNG, JPEG or DICOM file; [H, W] or [H, W, 3], uint8, uint16 or floats in [0, 1],
black 0; a Pillow image; the id of an indexed image, if no file has this name; a hit; or the result
of :meth:`Project.image`."""


class Project(AbstractContextManager["Project"]):
    """A loaded model and its index, if any; a context manager.

    ``service`` answers everything else.  An ImageError or an InputError says in one line what is
    wrong with an image or a question, a NotFoundError that it needs an index.
    """

    def __init__(self, folder: Path, service: Service) -> None:
        self.folder, self.service = folder, service

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.service.close()

    @property
    def summary(self) -> tuple[str, ...]:
        """How good the model is, in lines; none if its checkpoint does not say."""
        return self.service.how_good.lines

    # --- images ---

    def image(self, image: ImageGiven) -> OpenedImage:
        """Read and embed an image, once for all questions about it."""
        if isinstance(image, OpenedImage):
            return image
        if isinstance(image, ImageHit):
            return self._indexed(image.image.image)
        if isinstance(image, str | Path):
            is_file = os.path.isfile(image)  # noqa: PTH113 - of any text, however long
            if isinstance(image, str) and not is_file and self.service.has_index:
                return self._indexed(image)
            # absolute, because a reader process stays in the folder where it was started
            name, pixels = str(image), self.service.read_file(Path(image).absolute())
        elif isinstance(image, np.ndarray | Pictures.Image):
            name = "the array" if isinstance(image, np.ndarray) else "the Pillow image"
            with named_errors(name):
                pixels = gray_of(image).floats()
        else:
            raise InputError(
                f"an image cannot be a {type(image).__name__}; give a path, an array, a Pillow "
                "image or the id of an indexed image"
            )
        shown = to_uint8(pixels)
        return OpenedImage(name, self.service.embed(pixels), lambda: shown)

    def _indexed(self, image_id: str) -> OpenedImage:
        try:
            embedded = self.service.embedded(image_id)
        except NotFoundError:
            raise NotFoundError(
                f"'{image_id}': neither a file nor the id of an indexed image; check the path"
            ) from None
        return OpenedImage(image_id, embedded, partial(self.service.shown, image_id))

    @overload
    def embed(self, image: ImageGiven) -> Vector: ...
    @overload
    def embed(self, image: Several[ImageGiven]) -> Matrix: ...
    def embed(self, image: ImageGiven | Several[ImageGiven]) -> Vector | Matrix:
        """The unit vector [D] of an image, its mean region; [n, D] for several images.

        Images are compared by it.
        """
        if (every := several(image)) is not None:
            return np.stack(list(map(self.embed, every))) if every else self._no_vectors()
        regions = self.image(image).embedded.regions[None]  # type: ignore[arg-type]
        return np.asarray(mean_region(regions.float()).cpu()[0])

    @overload
    def embed_text(self, sentence: str) -> Vector: ...
    @overload
    def embed_text(self, sentence: Several[str]) -> Matrix: ...
    def embed_text(self, sentence: str | Several[str]) -> Vector | Matrix:
        """The unit vector [D] of a sentence as it is written; [n, D] for several sentences."""
        every = [sentence] if isinstance(sentence, str) else several(sentence)
        if every is None or not all(isinstance(text, str) for text in every):
            raise InputError("embed_text takes a sentence, or several in a list or a column")
        if not every:
            return self._no_vectors()
        vectors = np.asarray(self.service.embed_sentences(every).float().cpu())
        return vectors[0] if isinstance(sentence, str) else vectors

    def _no_vectors(self) -> Matrix:
        return np.empty((0, self.service.model.spec.dimension), dtype=np.float32)

    def embeddings(self, where: str | None = None) -> Embeddings:
        """The unit vectors [n, D] of the indexed images, as in :meth:`embed`, with ids."""
        view = finish(view_of(self.service.archive, where, ()))
        vectors = np.array(view.snapshot.arrays["means"][view.places], dtype=np.float32)
        there = view.index.catalogue.images(view.snapshot.numbers[view.places].tolist())
        kept = [place for place, image in enumerate(there) if image]  # else deleted meanwhile
        ids = [image.image for image in there if image]
        return self._some(Embeddings(ids, vectors[kept]), where)

    # --- questions about an image ---

    @overload
    def classify(self, image: ImageGiven, prompts: PromptsGiven | None = None) -> Findings: ...
    @overload
    def classify(
        self, image: Several[ImageGiven], prompts: PromptsGiven | None = None
    ) -> Rows[Findings]: ...
    def classify(
        self, image: ImageGiven | Several[ImageGiven], prompts: PromptsGiven | None = None
    ) -> Findings | Rows[Findings]:
        """Probabilities of findings; several images, in a list or a column, give a row each.

        Prompts are a YAML file, or the sentences that affirm and that deny each finding:
        ``{"Edema": ("Pulmonary edema.", "No pulmonary edema.")}``.
        """
        every, asked = several(image), _prompts(prompts)
        for each in [image] if every is None else every:
            ask(Classify, {"image": each, "prompts": asked}, _as_argument)
        if every is None:
            embedded = self.image(image).embedded  # type: ignore[arg-type]
            return Findings(self.service.classify(embedded, asked))
        answers, rows = list[Findings](), list[Row]()
        for opened in map(self.image, every):
            answers.append(findings := Findings(self.service.classify(opened.embedded, asked)))
            probabilities = {name: score.probability for name, score in findings.items()}
            rows.append({"image": opened.name} | probabilities)
        return Rows(answers, rows)

    def ground(
        self,
        image: ImageGiven,
        sentence: str,
        threshold: float | None = None,
        as_written: bool = False,
    ) -> Heatmap:
        """Where an image supports a sentence; regions at or above the threshold make boxes."""
        given = {"image": image, "sentence": sentence, "threshold": threshold}
        asked = ask(Ground, given | {"as_written": as_written}, _as_argument)
        opened = self.image(image)
        answer = self.service.ground(
            opened.embedded, asked.sentence, asked.threshold, as_written=asked.as_written
        )
        values = {field.name: getattr(answer, field.name) for field in fields(answer)}
        return Heatmap(**values, image=opened, sentence=sentence)

    def score(self, image: ImageGiven, sentence: str) -> float:
        """How well an image fits a sentence, in [−1, 1], as `search` and `ground` score it."""
        return self.ground(image, sentence).score

    def verify(
        self, image: ImageGiven, report: str, threshold: float | None = None
    ) -> Rows[SupportedSentence]:
        """How well an image supports each sentence of a report."""
        ask(Verify, {"image": image, "report": report, "threshold": threshold}, _as_argument)
        answers = self.service.verify(self.image(image).embedded, report, threshold).sentences
        names = ("section", "sentence", "wording", "score", "support", "verdict")
        return Rows(answers, [{name: getattr(each, name) for name in names} for each in answers])

    # --- questions about the index ---

    def search(
        self,
        sentence: Phrases | None = None,
        image: ImageGiven | None = None,
        k: int = 10,
        where: str | None = None,
        without: Phrases = (),
        unique: Unique | None = None,
        **options: Any,
    ) -> Rows[ImageHit]:
        """The k indexed images that best fit sentences, an image or both.

        ``where`` is a filter such as ``"age > 60 and sex = 'F'"``; ``without`` are sentences that
        must not fit; ``unique`` gives one hit for each "patient", "study" or "picture".  The
        options are the other fields of :class:`~cxrtext.service.questions.Search`, such as
        ``image_weight``.
        """
        given = {"k": k, "where": where, "without": without, "unique": unique, **options}
        found = finish(searching.images(self.service, self._prepared(sentence, image, given)))
        caption = f"{len(found.hits)} of {found.searched} images"
        caption += "" if found.exact else f", by {found.scored} candidates"
        return self._some(Rows(found.hits, map(hit_row, found.hits), HIT_COLUMNS, caption), where)

    def search_sentences(
        self,
        sentence: str | None = None,
        image: ImageGiven | None = None,
        k: int = 10,
        where: str | None = None,
        **options: Any,
    ) -> Rows[SentenceHit]:
        """The k sentences of indexed reports that best fit an image, or resemble a sentence."""
        given = {"k": k, "where": where, "target": "sentences", **options}
        asked = self._prepared(sentence, image, given)
        found = finish(searching.sentences(self.service, asked))
        return self._some(Rows(found, map(asdict, found)), where)

    def _prepared(
        self, sentence: Phrases | None, image: ImageGiven | None, given: Mapping[str, Any]
    ) -> searching.Prepared:
        """A checked search with its image and sentences embedded."""
        if isinstance(image, ImageHit):
            image = image.image.image
        if isinstance(image, str) and not os.path.isfile(image):  # noqa: PTH113
            given = {"image_id": image, **given}
        elif image is not None:
            given = {"image": image, **given}
        question = ask(Search, {"query": sentence, **given}, _as_argument)
        _ = self.service.archive  # refuse before an image is embedded
        asked = question.image if question.image_id is None else question.image_id
        embedded = None if asked is None else self.image(asked).embedded
        sentences = [*question.query, *question.without]
        read = self.service.readings(sentences, as_written=question.as_written)
        return searching.prepare(self.service, question, read, embedded)

    def images(self, where: str | None = None) -> Rows[IndexedImage]:
        """The indexed images, with their manifest's columns as text and the indexed labels.

        A column of labels is ``label.FINDING``, as in filters.
        """
        view = finish(view_of(self.service.archive, where, ()))
        there = view.index.catalogue.images(view.snapshot.numbers[view.places].tolist())
        kept = [((0.0, 0), image) for image in there if image]
        rows = [dict(list(hit_row(hit).items())[1:]) for hit in hits_of(view, kept)]  # no score
        return self._some(Rows([image for _, image in kept], rows, TEXT_COLUMNS), where)

    def timeline(self, image: str | ImageHit) -> Rows[Film]:
        """The films of an indexed image's patient, earliest first (DataError: no order)."""
        asked = image.image.image if isinstance(image, ImageHit) else image
        found = self.service.timeline(asked)
        if found.reason is not None:
            raise DataError(f"'{asked}': its patient's films are in no order: {found.reason}")
        return Rows(found.films, map(asdict, found.films))

    def _some(self, found: R, where: str | None) -> R:
        """Refuse a filter that leaves nothing because it asks for values a column never has."""
        if where is not None and not found and (held := self.service.archive.why_nothing(where)):
            raise DataError(f"the filter leaves no image: {held}")
        return found

    # --- how it is shown ---

    def __repr__(self) -> str:
        about = self.service.describe()
        return f"Project({self.folder}: {about['images']} images, {about['sentences']} sentences)"

    def _repr_html_(self) -> str:
        lines = "".join(f"<li>{escape(line)}</li>" for line in self.summary)
        return f"<p>{escape(repr(self))}</p>" + (f"<ul>{lines}</ul>" if lines else "")


def open(folder: str | Path, device: str = "cpu", index: str | Path | None = None) -> Project:
    """Open a project of 'cxrtext fit', a checkpoint or an index (DataError, CheckpointError).

    An index brings the checkpoint that made it.  ``index`` replaces the project's own.
    """
    place = find_place(Path(folder))
    return Project(
        place.folder, load_service(place.checkpoint, index or place.index, device=device)
    )


def several(given: object) -> list[Any] | None:
    """The items of a list, a tuple or a pandas column; None for a single thing."""
    if isinstance(given, list | tuple):
        return list(given)
    is_column = type(given).__module__.partition(".")[0] == "pandas"
    return list(given) if is_column else None  # type: ignore[call-overload]


def _as_argument(field: str) -> str:
    return {"not": "without", "query": "sentence", "image_id": "image"}.get(field, field)


def _prompts(given: PromptsGiven | None) -> Mapping[str, Prompts] | None:
    if given is None or isinstance(given, str | Path):
        return None if given is None else read_prompts(Path(given))
    prompts = {}
    for finding, entry in given.items():
        sides = (entry.positive, entry.negative) if isinstance(entry, Prompts) else entry
        if isinstance(sides, str) or len(sides) != 2:
            raise InputError(f"prompts of '{finding}': give what affirms it and what denies it")
        positive, negative = ((side,) if isinstance(side, str) else tuple(side) for side in sides)
        prompts[finding] = Prompts(positive, negative)
    return prompts
