"""An archive before its import, and the prompts for its films afterwards."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice
from pathlib import Path

import yaml

from cxrtext.datasets.importing import ImportOptions
from cxrtext.datasets.importing.formats import open_layout
from cxrtext.datasets.importing.loose import match_ids
from cxrtext.datasets.importing.reading import FoundImage, Reading
from cxrtext.datasets.importing.versions import ReportVersion
from cxrtext.errors import DataError
from cxrtext.evaluation import CHEX5_PROMPTS
from cxrtext.evaluation.data import find_table, manifest_of, sentences_beside
from cxrtext.files import sha256
from cxrtext.project.facts import Facts, facts_of_archive, findings_in
from cxrtext.project.layout import DATA
from cxrtext.project.recipe import Source
from cxrtext.records import LeftOut, Study
from cxrtext.records.manifest import SPLITS
from cxrtext.records.report_folder import following_links
from cxrtext.records.tables import read_table
from cxrtext.text.rules import language_of, prompts_for

LOOKED_AT = 200
"""Estimates rest on this many images of an archive."""


def prompts_of(data: Path) -> str:
    """Prompts for the findings that a data folder has labels for, in its reports' language."""
    sentences = sentences_beside(manifest_of(data)) or ()
    languages = Counter(filter(None, (language_of(each.sentence) for each in sentences)))
    language = languages.most_common(1)[0][0] if languages else "en"
    labels = find_table(data, "labels")
    findings = read_table(labels).columns[1:] if labels else CHEX5_PROMPTS
    prompts = {
        name: {"positive": list(positive), "negative": list(negative)}
        for name, (positive, negative) in (
            prompts_for(language, findings) or prompts_for(language, CHEX5_PROMPTS)
        ).items()
    }
    about = "# Asked of every film; change them and run 'cxrtext fit' again.\n"
    return about + yaml.safe_dump(prompts, sort_keys=False, allow_unicode=True)


def listing(source: Source) -> str:
    """A digest of the names, sizes and times of an archive's files, and of the tables' content."""
    digest = hashlib.sha256()
    for given in filter(None, (source.archive, source.reports, source.labels)):
        path = Path(given)
        if path.is_file():
            digest.update(sha256(path).encode())
        for file in sorted(path.rglob("*")) if path.is_dir() else ():
            if file.is_file():
                status = file.stat()
                digest.update(f"{file}|{status.st_size}|{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def import_options(source: Source) -> ImportOptions:
    """The user's options for the import."""
    return ImportOptions(
        reports=Path(source.reports) if source.reports else None,
        labels=Path(source.labels) if source.labels else None,
        columns=source.columns,
        ids=source.ids,
        follow_links=source.follow_links,
        link=source.link,
    )


def opened(source: Source, out: Path) -> Reading:
    """The archive as the import opens it; anything it cannot take is refused at once."""
    options = import_options(source)
    with following_links(source.follow_links):
        return open_layout(Path(source.archive), options, out / DATA)[2]


def facts_of_source(source: Source, out: Path) -> Facts:
    """Estimates for an archive, from its first images and all of its reports."""
    reading = opened(source, out)
    with following_links(source.follow_links):
        entries = list(islice(reading.images(()), LOOKED_AT))
    films = [entry for entry in entries if isinstance(entry, FoundImage)]
    count = round(reading.count() * len(films) / max(1, len(entries)))
    reports = [each for each in (reading.reports or tuple)() if not isinstance(each, LeftOut)]
    if source.reports and not reading.by_image:
        own = {film.study_id for film in films} | {film.accession for film in films}
        _require_join(source, reports, own - {""}, len(entries))
    letters = sum(len(each.report) + sum(map(len, each.sections.values())) for each in reports)
    labels = _labels(reading, films)
    present = Counter(name for row in labels for name, value in row.items() if value == "1")
    if not labels:
        present.update(findings_in([Study("", each.report, each.sections) for each in reports]))
    elif reading.label_rows is None:
        present = Counter({name: some * count // len(labels) for name, some in present.items()})
    splits = Counter(film.split for film in films)
    shares = {part: splits[part] / splits.total() for part in SPLITS} if "" not in splits else {}
    return facts_of_archive(
        [film.path for film in films],
        count,
        letters,
        present,
        has_labels=bool(reading.findings),
        shares=shares or None,
    )


def _require_join(
    source: Source, reports: Sequence[Study | ReportVersion], own: AbstractSet[str], films: int
) -> None:
    """Refuse a table of reports that the import would refuse, by the first films' studies."""
    table, given = Path(source.reports or ""), list[str]()
    for report in reports:
        ids = (report.study_id,) if isinstance(report, Study) else (report.study, report.accession)
        given += filter(None, ids)
    mended, _ = match_ids(table, "study", given, own, source.ids)
    if films < LOOKED_AT and not mended and own.isdisjoint(given):
        raise DataError(
            f"{table}: no report matched: none of its {len(reports)} has the study_id or accession "
            f"number of a study of {source.archive}; give the reports of this data set"
        )


def _labels(reading: Reading, films: Sequence[FoundImage]) -> list[Mapping[str, str]]:
    """The labels of studies: all of a table, or those that come with the first images."""
    if reading.label_rows is not None:
        return [row[1] for row in reading.label_rows() if not isinstance(row, LeftOut)]
    return [film.labels for film in films if film.labels]
