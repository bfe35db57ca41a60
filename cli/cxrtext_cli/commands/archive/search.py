"""``cxrtext search``."""

from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cxrtext.errors import DataError, NotFoundError
from cxrtext.service.limits import Mode, Target, Unique
from cxrtext_cli.given import FILE, NEW_TABLE, SENTENCE
from cxrtext_cli.options import (
    AsJson,
    AsWritten,
    PlaceFolder,
    as_option,
    open_place,
    say,
    show_rows,
    write_rows,
)

if TYPE_CHECKING:
    from cxrtext.service import EmbeddedImage, Service
    from cxrtext.service.questions import Search
    from cxrtext.service.searching import Prepared


def search(
    place: PlaceFolder,
    query: Annotated[str | None, typer.Argument(help="A sentence."), SENTENCE] = None,
    image: Annotated[
        Path | None, typer.Option(help="Find images like this one, or sentences about it."), FILE
    ] = None,
    image_id: Annotated[
        str | None, typer.Option(help="The same with an indexed image, by its name.")
    ] = None,
    target: Annotated[Target, typer.Option(help="What to look for.")] = "images",
    without: Annotated[
        list[str] | None,
        typer.Option("--not", help="A sentence that should not fit; repeatable."),
        SENTENCE,
    ] = None,
    image_weight: Annotated[
        float | None,
        typer.Option(help="Weight of the image beside a sentence, 0 to 1; 0.5 by default."),
    ] = None,
    where: Annotated[
        str | None, typer.Option(help="Filter, such as \"age > 60 and sex = 'F'\".")
    ] = None,
    k: Annotated[int, typer.Option("-k", help="Number of results.")] = 10,
    min_score: Annotated[float | None, typer.Option(help="Leave out lower scores.")] = None,
    unique: Annotated[Unique | None, typer.Option(help="One result per patient, ...")] = None,
    other_patients: Annotated[
        bool, typer.Option("--other-patients", help="Leave out the patient of --image-id.")
    ] = False,
    mode: Annotated[
        Mode, typer.Option(help="exact proves the order; fast looks only at candidates.")
    ] = "auto",
    as_written: AsWritten = False,
    out: Annotated[
        Path | None, typer.Option(help="Also write the results to this table."), NEW_TABLE
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find images by a sentence, an image or both, or sentences by either."""
    from cxrtext.service.questions import Search, ask

    given = {
        "query": query,
        "image": image,
        "image_id": image_id,
        "target": target,
        "not": without,
        "image_weight": image_weight,
        "where": where,
        "k": k,
        "min_score": min_score,
        "unique": unique,
        "other_patients": other_patients,
        "mode": mode,
        "as_written": as_written,
    }
    question = ask(Search, given, as_option)

    from cxrtext.project import find_place

    found_in = find_place(place)
    index = found_in.require_index()
    if where is not None:
        _check_where(index, where)

    with closing(open_place(found_in)) as service:
        asked = _prepared(service, question)
        if target == "sentences":
            rows = _sentences(service, asked)
        else:
            rows = _images(service, asked, labels=out is not None or as_json)
        if where is not None and not rows and (held := service.archive.why_nothing(where)):
            raise DataError(f"the filter leaves no image: {held}")
        if warning := service.how_good.warning:
            say(warning)
    if out is not None:
        write_rows(out, rows)
    show_rows(rows, as_json)


def _prepared(service: "Service", question: "Search") -> "Prepared":
    """The search with its sentences and image embedded; prints rewordings and warnings."""
    from cxrtext.service.searching import prepare

    embedded = _embedded(service, question)
    sentences = [*question.query, *question.without]
    read = service.readings(sentences, as_written=question.as_written)
    asked = prepare(service, question, read, embedded)
    for reworded in filter(None, asked.read_as):
        say(f"read as: {reworded}")
    for warning in filter(None, (*asked.warnings, asked.caution)):
        say(warning)
    return asked


def _images(service: "Service", asked: "Prepared", *, labels: bool) -> list[dict[str, Any]]:
    from cxrtext.pausing import finish
    from cxrtext.service.searching import images
    from cxrtext.service.tables import hit_row

    result = finish(images(service, asked))
    if not result.exact:
        say(f"candidates only: {result.scored} of {result.searched} images were scored")
    rows = [hit_row(hit, labels=labels) for hit in result.hits]
    columns = dict.fromkeys(name for row in rows for name in row)
    return [{name: row.get(name, "") for name in columns} for row in rows]


def _sentences(service: "Service", asked: "Prepared") -> list[dict[str, Any]]:
    from cxrtext.pausing import finish
    from cxrtext.service.searching import sentences

    rows = [asdict(hit) for hit in finish(sentences(service, asked))]
    return [{k: v for k, v in row.items() if k != "lift" or v is not None} for row in rows]


def _check_where(index: Path, where: str) -> None:
    from cxrtext.index.search.filter import parse
    from cxrtext.index.store.catalogue import CATALOGUE, Catalogue

    with Catalogue(index / CATALOGUE) as catalogue:
        parse(where, catalogue.columns())


def _embedded(service: "Service", question: "Search") -> "EmbeddedImage | None":
    if question.image_id is not None:
        try:
            return service.embedded(question.image_id)
        except NotFoundError:
            raise NotFoundError(
                f"'{question.image_id}': the index holds no image of that id"
            ) from None
    return None if question.image is None else service.embed_file(question.image)
