"""The documents of an evaluation as files."""

import json
from collections.abc import Mapping, Sequence
from itertools import chain, count
from pathlib import Path

from cxrtext.evaluation.documents.cards import model_card
from cxrtext.evaluation.documents.flow import flow_markdown
from cxrtext.evaluation.documents.material import Material
from cxrtext.evaluation.documents.questions import Questions
from cxrtext.evaluation.documents.table_one import NOTE
from cxrtext.files import remove_file, sha256, write_sums, write_text
from cxrtext.files.digests import read_sums
from cxrtext.page import Section, markdown_block

FOLDER = "documents"
QUESTIONS = "questions.yaml"


def write_documents(
    folder: Path, material: Material, sections: Sequence[Section], others: Mapping[str, str]
) -> Path:
    """Write all documents into ``documents/`` of an evaluation's folder; returns that folder.

    A document that somebody changed since it was written, as the folder's list of digests tells,
    is kept beside the new one as ``NAME.edited.md``; the others are replaced.  The model card shows
    the tables of ``sections``; ``others`` are further files by name.
    """
    questions = Questions(material.answers)
    texts: dict[str, str] = {
        **others,
        "provenance.json": json.dumps(material.provenance(folder), indent=2, ensure_ascii=False)
        + "\n",
        "model-card.md": model_card(material, questions, sections),
        QUESTIONS: questions.form(),
    }
    if material.table_one is not None:
        table = markdown_block(material.table_one.page_table())
        texts["table-1.md"] = f"{table}\n\n{NOTE}\n"
    if material.flow is not None:
        texts["flow.md"] = flow_markdown(material.flow)
        flow = json.dumps(material.flow.to_dict(), indent=2, ensure_ascii=False)
        texts["flow.json"] = flow + "\n"
    own = folder / FOLDER
    _keep_edited(own)
    for name, text in texts.items():
        write_text(own / name, text)
    write_sums(own, texts)
    return own


def _keep_edited(folder: Path) -> None:
    """Move documents aside that were changed since they were written, and remove the others."""
    try:
        listed = read_sums(folder) or {}
    except (OSError, ValueError):
        return
    for name, digest in listed.items():
        path = folder / Path(name).name
        if path.is_file() and sha256(path) != digest:
            path.rename(_free(path))
        else:
            remove_file(path)


def _free(path: Path) -> Path:
    ends = chain([""], (f"-{number}" for number in count(2)))
    names = (path.with_name(f"{path.stem}.edited{end}{path.suffix}") for end in ends)
    return next(name for name in names if not name.exists())
