"""A typed client of the HTTP API."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import quote

from pydantic import BaseModel

from cxrtext.client import models
from cxrtext.client.transport import RETRIES, ApiError, Transport
from cxrtext.errors import ImageError
from cxrtext.service.questions import Classify, Ground, Question, Search, Verify, ask

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T", bound=BaseModel)

PNG, CSV = "image/png", "text/csv"
FILE_NAME = "image"  # sent for every file, as its own name can name a patient
Split = Literal["train", "val", "test"]


@dataclass(frozen=True, slots=True)
class ImageId:
    """An indexed image, by its id."""

    value: str


Picture = Path | bytes | ImageId


class Client:
    """Asks a server; a context manager.

    An image is a :class:`~pathlib.Path` to a file, the bytes of one (PNG, JPEG or DICOM), or an
    :class:`ImageId`.  Every method raises :class:`ApiError` if the server refuses or cannot be
    reached.  If the server is busy, it waits and asks again a limited number of times.

    Args:
        url: The server's address, such as ``https://cxr.example.org``.
        key: The bearer key, if the server needs one.
        timeout: Seconds to wait for an answer.
        retries: How often to repeat a request when the server is busy.
        http: An httpx2 client to send with, for proxies, certificates and tests.

    Raises:
        ConfigError: The address or the key has the wrong form.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        timeout: float = 120.0,
        retries: int = RETRIES,
        http: "httpx2.Client | None" = None,
    ) -> None:
        self._transport = Transport(url, key, timeout, retries, http)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._transport.close()

    def ready(self) -> bool:
        """Whether the server answers and its model is loaded; this does not wait."""
        try:
            self._transport.once("GET", "/readyz")
        except ApiError as error:
            if error.status in (0, 503):
                return False
            raise
        return True

    def model(self) -> models.ModelInfo:
        """What is loaded, the limits, and what the key may do."""
        return self._get(models.ModelInfo, "/v1/model")

    def classify(
        self, image: Picture, prompts: Mapping[str, models.Prompts] | None = None
    ) -> models.Classification:
        """The probability of each finding, by the server's prompts or others."""
        return self._ask(models.Classification, "/v1/classify", Classify, image, prompts=prompts)

    def ground(
        self,
        image: Picture,
        sentence: str,
        threshold: float | None = None,
        *,
        as_written: bool = False,
    ) -> models.Grounded:
        """Where an image supports a sentence; boxes cover regions from the threshold up."""
        given = {"sentence": sentence, "threshold": threshold, "as_written": as_written}
        return self._ask(models.Grounded, "/v1/ground", Ground, image, **given)

    def ground_png(self, image: Picture, sentence: str, threshold: float | None = None) -> bytes:
        """The same as a picture: a heatmap over the image, as PNG."""
        form = _content(Ground, image, {"sentence": sentence, "threshold": threshold})
        return self._post("/v1/ground", form, accept=PNG).content

    def verify(
        self, image: Picture, report: str, threshold: float | None = None
    ) -> models.Verified:
        """How well an image supports each sentence of a report."""
        given = {"report": report, "threshold": threshold}
        return self._ask(models.Verified, "/v1/verify", Verify, image, **given)

    def render(self, image: Picture, size: int | None = None) -> bytes:
        """An image as a browser shows it, as PNG; ``size`` limits its longest side."""
        form = _content(Question, image, {})
        return self._post("/v1/render", form, params=given({"size": size})).content

    def search(
        self, query: str | Sequence[str] = (), image: Picture | None = None, **options: Any
    ) -> models.Found:
        """Images that fit sentences (by the mean score), are similar to an image, or both.

        The options are the fields of :class:`~cxrtext.service.questions.Search`, such as ``k``,
        ``where``, ``without`` and ``unique`` (InputError: one does not fit).
        """
        return self._ask(models.Found, "/v1/search", Search, image, query=query, **options)

    def search_sentences(
        self, query: str | None = None, image: Picture | None = None, k: int = 10, **options: Any
    ) -> models.Found:
        """Sentences similar to a sentence, or sentences that fit an image; give one of the two.

        ``where`` filters images; the sentences of their studies are searched.
        """
        given = {"query": query, "k": k, "target": "sentences", **options}
        return self._ask(models.Found, "/v1/search", Search, image, **given)

    def cohort(
        self, query: str | Sequence[str] = (), image: Picture | None = None, **options: Any
    ) -> str:
        """What :meth:`search` finds as CSV that no spreadsheet takes for formulas."""
        form = _content(Search, image, {"query": query, **options})
        return self._post("/v1/search", form, accept=CSV).text

    def export(
        self, query: str | Sequence[str] = (), image: Picture | None = None, **options: Any
    ) -> Iterator[str]:
        """Every image that a search finds, as CSV, in parts as the server sends them.

        The options are those of :meth:`search`; ``k``, ``offset`` and ``mode`` have no effect.  If
        the server breaks off, an :class:`ApiError` follows the last part.
        """
        content = _content(Search, image, {"query": query, **options})
        return self._transport.stream("POST", "/v1/search/export", **content)

    def images(self, where: str | None = None, page: int = 200) -> Iterator[models.Image]:
        """Every indexed image, or those that a filter leaves, requested ``page`` at a time."""
        offset = 0
        while True:
            part = self.page(offset, page, where)
            yield from part.images
            offset += page
            if offset >= part.total:
                return

    def page(self, offset: int = 0, limit: int = 50, where: str | None = None) -> models.ImagePage:
        """Some of the indexed images."""
        return self._get(models.ImagePage, "/v1/images", offset=offset, limit=limit, where=where)

    def columns(self) -> models.Columns:
        """What filters can name."""
        return self._get(models.Columns, "/v1/columns")

    def image(self, image_id: str) -> models.ImageDetail:
        """An indexed image with its study's report."""
        return self._get(models.ImageDetail, _address(image_id))

    def picture(self, image_id: str, size: int | None = None) -> bytes:
        """An indexed image as PNG; ``size`` limits its longest side."""
        path = f"{_address(image_id)}/rendered"
        return self._transport.send("GET", path, params=given({"size": size})).content

    def timeline(self, image_id: str) -> models.Timeline:
        """The films of an indexed image's patient, in order of time if it is known."""
        return self._get(models.Timeline, f"{_address(image_id)}/timeline")

    def held(self) -> list[models.HeldItem]:
        """What the gateway holds for a decision; needs a key with the scopes admin and read."""
        return self._get(models.HeldItems, "/v1/held").held

    def decide(
        self, name: str, verdict: Literal["accept", "drop", "join"], study_id: str | None = None
    ) -> None:
        """Decide on something held: accept it, drop it, or join a report to a study."""
        form = given({"name": name, "verdict": verdict, "study_id": study_id})
        self._transport.send("POST", "/v1/held", data=form)

    def mark(
        self,
        image_id: str,
        kind: models.MarkKind,
        text: str,
        verdict: models.MarkVerdict,
        *,
        said: bool = True,
        box: Sequence[float] | None = None,
    ) -> models.Mark:
        """Mark a finding, a sentence, a hit or a box of an indexed image as right or wrong.

        Args:
            text: The finding, the sentence, or the word of a box.
            said: Whether it was said to be there; the verdict judges that.
            box: For a box only: x, y, w, h in pixels of the original.
        """
        form = {"kind": kind, "text": text, "verdict": verdict, "said": str(said).lower()}
        form |= {} if box is None else {"box": ",".join(map(str, box))}
        form["image_id"] = image_id
        response = self._transport.send("POST", "/v1/marks", data=form)
        return models.Mark.model_validate_json(response.content)

    def marks(self, image_id: str | None = None) -> list[models.Mark]:
        """Each reader's last mark on each thing, for one image or all."""
        marks, after = list[models.Mark](), 0
        while True:
            page = self._get(models.Marks, "/v1/marks", image_id=image_id, after=after)
            marks += page.marks
            if page.next is None:
                return marks
            after = page.next

    def add_image(
        self,
        image: Path | bytes,
        *,
        image_id: str | None = None,
        study_id: str | None = None,
        patient_id: str | None = None,
        split: Split | None = None,
        metadata: Mapping[str, str | int | float | None] | None = None,
        report: str | None = None,
        replace: bool = False,
    ) -> models.AddedImage:
        """Add an image to the index; needs a key that may write.

        Args:
            image: The file.
            image_id: By default one made from its pixels.
            study_id: By default the image's id.
            patient_id: By default its study.
            split: By default its patient's, else "test".
            metadata: More columns.
            report: Its study's report.
            replace: Whether it may replace an image with this id.
        """
        form = {
            "image_id": image_id,
            "study_id": study_id,
            "patient_id": patient_id,
            "split": split,
            "metadata": None if metadata is None else json.dumps(dict(metadata)),
            "report": report,
            "replace": "true" if replace else None,
        }
        files = {"image": (FILE_NAME, bytes_of(image))}
        response = self._transport.send("POST", "/v1/images", data=given(form), files=files)
        return models.AddedImage.model_validate_json(response.content)

    def delete_images(self, images: Sequence[str] = (), studies: Sequence[str] = ()) -> int:
        """Delete images and studies, all or none; gives the number of images deleted."""
        params = {"image_id": list(images), "study_id": list(studies)}
        response = self._transport.send("DELETE", "/v1/images", params=params)
        return models.Deleted.model_validate_json(response.content).deleted

    def _get(self, kind: type[T], path: str, **params: Any) -> T:
        response = self._transport.send("GET", path, params=given(params))
        return kind.model_validate_json(response.content)

    def _ask(
        self,
        kind: type[T],
        path: str,
        question: type[Question],
        image: Picture | None,
        **given: Any,
    ) -> T:
        form = _content(question, image, given)
        return kind.model_validate_json(self._post(path, form).content)

    def _post(
        self,
        path: str,
        form: Mapping[str, Any],
        *,
        accept: str = "application/json",
        params: dict[str, Any] | None = None,
    ) -> "httpx2.Response":
        return self._transport.send(
            "POST", path, headers={"Accept": accept}, params=params or {}, **form
        )


def given(form: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in form.items() if value is not None and value != []}


def _address(image_id: str) -> str:
    return f"/v1/images/{quote(image_id)}"


def _content(
    kind: type[Question], picture: Picture | None, given: Mapping[str, Any]
) -> dict[str, Any]:
    """The form of a checked question (InputError), without fields that have their defaults."""
    source = {"image_id": picture.value} if isinstance(picture, ImageId) else {"image": picture}
    asked = ask(kind, {**source, **given}, _as_argument)
    fields = asked.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    if "prompts" in fields:
        fields["prompts"] = json.dumps(fields["prompts"])
    if picture is None or isinstance(picture, ImageId):
        return {"data": fields}
    return {"data": fields, "files": {"image": (FILE_NAME, bytes_of(picture))}}


def _as_argument(field: str) -> str:
    return "without" if field == "not" else field


def bytes_of(picture: Path | bytes) -> bytes:
    """The bytes of an image file (ImageError)."""
    if isinstance(picture, bytes):
        return picture
    try:
        return picture.read_bytes()
    except OSError as error:
        raise ImageError(f"{picture}: {error.strerror}") from None
