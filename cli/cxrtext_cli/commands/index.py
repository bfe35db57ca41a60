"""``cxrtext index``."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cxrtext.errors import InputError, WorkError
from cxrtext_cli.given import CHECKPOINT, FILE, FILE_OR_FOLDER, FOLDER, INDEX, NEW_FOLDER, PROMPTS
from cxrtext_cli.options import (
    AllowOutside,
    AsJson,
    Device,
    MaxRejected,
    pick_device,
    print_json,
    progress,
    say,
)

if TYPE_CHECKING:
    from cxrtext.index import IndexSummary


class Storage(StrEnum):
    """How regions are kept."""

    FLOAT16 = "float16"
    INT8 = "int8"


class Candidates(StrEnum):
    """How the fast search finds candidates."""

    AUTO = "auto"
    FLAT = "flat"
    HNSW = "hnsw"
    IVFPQ = "ivfpq"


def index(
    source: Annotated[
        Path,
        typer.Argument(help="Manifest of images to add, or the folder of an index to mend."),
        FILE_OR_FOLDER,
    ],
    model: Annotated[
        Path | None,
        typer.Option(help="Checkpoint; by default the one the index notes."),
        CHECKPOINT,
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the index; an existing one is added to."),
        NEW_FOLDER,
    ] = None,
    reports: Annotated[
        Path | None,
        typer.Option(help="Table of reports; by default reports.csv beside the manifest."),
        FILE,
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Embed images again that are in the index.")
    ] = False,
    delete: Annotated[
        list[str] | None, typer.Option(help="Delete this study; may be repeated.")
    ] = None,
    delete_from: Annotated[
        Path | None, typer.Option(help="Delete the studies that a file names, one a line."), FILE
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Look for damage.")] = False,
    compact: Annotated[
        bool, typer.Option("--compact", help="Erase the vectors of what was deleted.")
    ] = False,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Derive anew all that derives from the regions.")
    ] = False,
    root: Annotated[
        str | None, typer.Option(help="Where the manifest's folder lies now: NEW, or OLD=NEW.")
    ] = None,
    storage: Annotated[
        Storage, typer.Option(help="Of a new index; int8 takes half the room.")
    ] = Storage.FLOAT16,
    pool: Annotated[
        int, typer.Option(min=1, max=8, help="Of a new index: keep N x N regions as one.")
    ] = 1,
    prompts: Annotated[
        Path | None, typer.Option(help="YAML file of prompts of a new index's labels."), PROMPTS
    ] = None,
    candidates: Annotated[
        Candidates, typer.Option(help="Structure of the fast search; auto is by size.")
    ] = Candidates.AUTO,
    target_recall: Annotated[
        float, typer.Option(min=0.01, max=1.0, help="Recall@10 that the fast search is tuned for.")
    ] = 0.99,
    wait: Annotated[
        float, typer.Option(min=0.0, help="Seconds to queue while another process writes.")
    ] = 0.0,
    device: Device = "auto",
    allow_outside: AllowOutside = False,
    max_rejected: MaxRejected = 100,
    cache: Annotated[
        Path | None,
        typer.Option(help="Folder of decoded images, shared with training and others."),
        NEW_FOLDER,
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Embed and index an archive for search, goes on where it was stopped; or mend an index."""
    studies = [*(delete or []), *(_named_in(delete_from) if delete_from else [])]
    asked = [bool(studies), check, compact, rebuild, root is not None]
    if sum(asked) > 1:
        raise InputError("give one of --delete, --check, --compact, --rebuild, --root")
    if source.is_dir() and not any(asked):
        raise InputError(
            f"{source}: is a folder; give a manifest to add, or one of --delete, --check, "
            "--compact, --rebuild, --root with the folder of an index"
        )
    if any(asked) and not (compact or rebuild):
        _mend(source, studies, root, wait, as_json)
        return
    folder = source if any(asked) else _needed(out, "--out DIR")
    if any(asked):
        INDEX.check(folder)
    else:
        FILE.check(source)
        model = model or _noted(folder)

    from cxrtext.index.summary import summary_dict

    options = {"kind": candidates.value, "target": target_recall, "wait_s": wait}
    if compact or rebuild:
        from cxrtext.index import rewrite

        summary = rewrite(folder, model, rebuild=rebuild, **options)  # type: ignore[arg-type]
    else:
        from cxrtext.evaluation import read_prompts
        from cxrtext.images.cache import DecodedCache
        from cxrtext.index import build_index

        with progress("indexing", "images") as update:
            summary = build_index(
                source,
                model,  # type: ignore[arg-type]  # as was looked up
                folder,
                reports=reports,
                device=pick_device(device),
                allow_outside=allow_outside,
                max_rejected=max_rejected,
                cache=DecodedCache(cache, say) if cache else None,
                replace=replace,
                storage=storage.value,
                pool=pool,
                prompts=read_prompts(prompts) if prompts else None,
                progress=update,
                **options,  # type: ignore[arg-type]
            )
    if as_json:
        print_json(summary_dict(summary))
    else:
        _show(folder, summary)


def _named_in(path: Path) -> list[str]:
    """The studies that a file names, one a line."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or 'unreadable').lower()}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8 text; write one study id a line") from None
    studies = [line.strip() for line in lines if line.strip()]
    if not studies:
        raise InputError(f"{path}: names no study; write one study id a line")
    return studies


def _needed(out: Path | None, option: str) -> Path:
    if out is None:
        raise InputError(f"give the folder of the index with {option}")
    return out


def _noted(folder: Path) -> Path:
    """The checkpoint that an existing index notes."""
    from cxrtext.index.catalogue import CATALOGUE, Catalogue, noted_checkpoint

    if not (folder / CATALOGUE).is_file():
        raise InputError("give the checkpoint of a new index with --model DIR")
    with Catalogue(folder / CATALOGUE) as catalogue:
        return Path(noted_checkpoint(folder, catalogue.meta()))


def _mend(folder: Path, studies: list[str], root: str | None, wait: float, as_json: bool) -> None:
    """Delete studies, note a moved folder, or check."""
    INDEX.check(folder)
    if root is not None:
        FOLDER.check(Path(root.rpartition("=")[2]))

    from cxrtext.index import delete, move_root

    if studies:
        count = delete(folder, studies, wait_s=wait)
        if as_json:
            print_json({"deleted": count})
        else:
            typer.echo(f"{folder}: {count} images of {len(set(studies))} studies deleted")
    elif root is not None:
        old, _, new = root.rpartition("=")
        move_root(folder, Path(new), old or None, wait_s=wait)
    else:
        _check(folder, as_json)


def _check(folder: Path, as_json: bool) -> None:
    from cxrtext.index.check import check_index
    from cxrtext.index.maintain import convert

    with convert(folder) as catalogue:
        wrong = check_index(folder, catalogue)
        images, sentences = catalogue.counts()
    if as_json:
        print_json({"images": images, "sentences": sentences, "wrong": wrong})
    elif not wrong:
        typer.echo(f"{folder}: {images} images, {sentences} distinct sentences, nothing is wrong")
    if wrong:
        for line in wrong:
            say(f"{folder}: {line}")
        raise WorkError(
            f"{folder}: {len(wrong)} faults; 'cxrtext index {folder} --rebuild' derives anew what "
            "can be derived; regions, sentences and the catalogue must come from a copy"
        )


def _show(folder: Path, summary: "IndexSummary") -> None:
    replaced = f", {summary.replaced} replaced" if summary.replaced else ""
    typer.echo(
        f"{folder}: {summary.images} images ({summary.added} new{replaced}), "
        f"{summary.sentences} distinct sentences"
    )
    if summary.recall_at_10 is not None:
        typer.echo(
            "recall@10 of the candidate search against an exact scan: "
            f"{summary.recall_at_10:.3f} ({summary.candidates})"
        )
    if summary.reranked is not None:
        typer.echo(f"an exact search scores {100 * summary.reranked:.1f} % of the images")
    if summary.rejected:
        typer.echo(f"images set aside: {summary.rejected}")
