"""``cxrtext search``."""

from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from cxrtext.errors import DataError, NotFoundError
from cxrtext_cli.given import FILE, NEW_TABLE, SENTENCE
from cxrtext_cli.options import (
    AsJson,
    AsWritten,
    Device,
    PlaceFolder,
    open_place,
    say,
    say_unlike,
    show_rows,
    write_rows,
)

if TYPE_CHECKING:
    from cxrtext.index import Archive, IndexedImage
    from cxrtext.index.search.archive import SentenceOptions
    from cxrtext.service import EmbeddedImage, Service


Target = Literal["images", "sentences"]
Unique = Literal["patient", "study", "picture"]
Mode = Literal["auto", "exact", "fast"]


def search(
    place: PlaceFolder,
    query: Annotated[str | None, typer.Argument(help="A sentence."), SENTENCE] = None,
    image: Annotated[
        Path | None, typer.Option(help="Look for what is like, or is said of, this image."), FILE
    ] = None,
    image_id: Annotated[
        str | None, typer.Option(help="The same with an indexed image, by its name.")
    ] = None,
    target: Annotated[Target, typer.Option(help="What to look for.")] = "images",
    without: Annotated[
        list[str] | None,
        typer.Option("--not", help="What is not to be there; may be repeated."),
        SENTENCE,
    ] = None,
    image_weight: Annotated[
        float | None,
        typer.Option(
            min=0.0, max=1.0, help="Weight of the image beside a sentence: 0.5 if not given."
        ),
    ] = None,
    where: Annotated[
        str | None, typer.Option(help="Filter, such as \"age > 60 and sex = 'F'\".")
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Number of results.")] = 10,
    min_score: Annotated[float | None, typer.Option(help="Leave out what scores less.")] = None,
    unique: Annotated[Unique | None, typer.Option(help="One result a patient, ...")] = None,
    other_patients: Annotated[
        bool, typer.Option("--other-patients", help="Leave out the patient of --image-id.")
    ] = False,
    mode: Annotated[
        Mode, typer.Option(help="exact proves the order; fast looks at candidates only.")
    ] = "auto",
    as_written: AsWritten = False,
    out: Annotated[
        Path | None, typer.Option(help="Write the results as CSV, too."), NEW_TABLE
    ] = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Find images by a sentence, an image or both, or sentences by either."""
    from cxrtext.service.limits import UNLIKE_SENTENCE, check_search

    check_search(
        {
            "query": None if query is None else [query],
            "image": image,
            "image_id": image_id,
            "target": target,
            "not": without or (),
            "image_weight": image_weight,
            "unique": unique,
            "other_patients": other_patients,
            "mode": mode,
            "as_written": as_written,
        },
        lambda name: f"--{name.replace('_', '-')}",
    )

    from cxrtext.project import find_place

    found_in = find_place(place)
    index = found_in.require_index()
    if where is not None:
        _check_where(index, where)

    from cxrtext.service.tables import hit_row

    with closing(open_place(found_in, device)) as service:
        archive = service.archive
        known = _known(archive, image_id) if image_id is not None else None
        embedded = _embedded(service, image, known)
        asked = [query, *(without or ())] if query is not None else list(without or ())
        read = service.readings(asked, as_written=as_written)
        for one in read:
            if one not in asked:
                say(f"read as: {one}")
        for far in map(service.familiar.of_sentence, read):
            say_unlike("a sentence", far, UNLIKE_SENTENCE)
        if caution := service.caution(read):
            say(caution)
        if target == "sentences":
            options: SentenceOptions = {"where": where}
            if min_score is not None:
                options["min_score"] = min_score
            rows = _sentences(service, read, embedded, k, options)
        else:
            wanted = service.make_query(
                read[: query is not None],
                without=read[query is not None :],
                image=embedded,
                image_weight=image_weight,
                as_written=True,
            )
            found = archive.search(
                wanted,
                k,
                where=where,
                min_score=min_score,
                unique=unique,
                exclude_patients=[known.patient_id] if known and other_patients else (),
                mode=mode,
            )
            rows = [hit_row(hit, labels=out is not None or as_json) for hit in found.hits]
            columns = dict.fromkeys(name for row in rows for name in row)
            rows = [{name: row.get(name, "") for name in columns} for row in rows]
            if not found.exact:
                say(f"candidates only: {found.scored} of {found.searched} images were scored")
        if where is not None and not rows and (held := archive.why_nothing(where)):
            raise DataError(f"the filter leaves no image: {held}")
        if warning := service.how_good.warning:
            say(warning)
    if out is not None:
        write_rows(out, rows)
    show_rows(rows, as_json)


def _check_where(index: Path, where: str) -> None:
    from cxrtext.index.search.filter import parse
    from cxrtext.index.store.catalogue import CATALOGUE, Catalogue

    with Catalogue(index / CATALOGUE) as catalogue:
        parse(where, catalogue.columns())


def _known(archive: "Archive", image_id: str) -> "IndexedImage":
    try:
        return archive.find(image_id)
    except NotFoundError:
        raise NotFoundError(f"'{image_id}': the index holds no image of that id") from None


def _embedded(
    service: "Service", image: Path | None, known: "IndexedImage | None"
) -> "EmbeddedImage | None":
    from cxrtext.service.limits import UNLIKE_IMAGE
    from cxrtext.service.service import embedded_of

    if known is not None:
        return embedded_of(service.archive, known, service.familiar)
    if image is None:
        return None
    embedded = service.embed_file(image)
    say_unlike(str(image), embedded.unlike, UNLIKE_IMAGE)
    return embedded


def _sentences(
    service: "Service",
    read: list[str],
    embedded: "EmbeddedImage | None",
    k: int,
    options: "SentenceOptions",
) -> list[dict[str, Any]]:
    archive = service.archive
    if embedded is not None:
        hits = archive.search_sentences(k, image=embedded.regions, **options)
    else:
        texts = service.make_query(read, as_written=True).texts
        assert texts is not None  # noqa: S101 - of a sentence
        hits = archive.search_sentences(k, text=texts[0], **options)
    rows = [asdict(hit) for hit in hits]
    for row in rows:
        if row["lift"] is None:
            del row["lift"]
    return rows
