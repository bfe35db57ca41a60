"""Reports that come by themselves: kept in every version, joined to studies, put into the index.

A report may come before its images, and a correction after years: all versions are kept, and what
the index has of a study is always what `choose` makes of them.
"""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cxrtext.datasets.admission.ids import Ids
from cxrtext.datasets.importing.joining import Studies
from cxrtext.datasets.importing.reading import FoundImage
from cxrtext.datasets.importing.versions import ReportVersion, Status, choose, whole_text
from cxrtext.index.changes import add_reports
from cxrtext.index.entry import entering, of_study_or_accession, reports_of, subjects
from cxrtext.pacs.inbox.queue import WRITE_WAIT_S, Entry, Finishing, Inbox
from cxrtext.records import Sentence, Study
from cxrtext.records.columns import SECTION_COLUMNS
from cxrtext.service import Service
from cxrtext.text import study_sentences

AT_ONCE = 500
SAME = "nothing in it is new"
FROM_INDEX = "index"  # the source of a version that is what the index had of a study before
_COLUMNS = "report, study, accession, issuer, patient, status, time, addendum, text, sections"


def put_versions(
    finishing: Finishing, versions: Sequence[ReportVersion], entry: Entry, ids: Ids
) -> None:
    """Keep versions of reports, where they are not there already, and be done with their entry."""
    new = [
        _put(finishing.database, _as_kept(one, ids), entry.source, entry.received)
        for one in versions
    ]
    finishing.done(entry, "report" if any(new) else "again", "" if any(new) else SAME)


def _as_kept(version: ReportVersion, ids: Ids) -> ReportVersion:
    if not ids.hashed:
        return version
    return replace(
        version,
        study=ids.of("study", version.study),
        accession=ids.of("accession", version.accession.casefold()),
        issuer=ids.of("issuer", version.issuer.casefold()),
        patient=ids.of("patient", version.patient),
    )


def _put(
    database: sqlite3.Connection, version: ReportVersion, source: str, received: float
) -> bool:
    sections = json.dumps(dict(version.sections), ensure_ascii=False)
    values = (version.study, version.accession, version.issuer, version.patient,
              int(version.status), version.time, int(version.addendum), version.report,
              sections)  # fmt: skip
    known = database.execute(
        "SELECT 1 FROM reports WHERE study = ? AND accession = ? AND issuer = ? AND patient = ? "
        "AND status = ? AND time = ? AND addendum = ? AND text = ? AND sections = ?",
        values,
    ).fetchone()
    if known is not None:
        return False
    database.execute(
        "INSERT INTO reports (study, accession, issuer, patient, status, time, addendum, text, "
        "sections, source, received) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*values, source, received),
    )
    return True


def look_again(database: sqlite3.Connection, study: str, accession: str) -> None:
    """Let the reports of a study be joined anew: its images changed."""
    database.execute(
        "UPDATE reports SET seen = 0 WHERE joined = ? OR (joined IS NULL AND (study = ? "
        "OR (accession <> '' AND accession COLLATE NOCASE IN (?, ?))))",
        (study, study, study, accession),
    )


class ReportJoiner:
    def __init__(self, inbox: Inbox, service: Service) -> None:
        self._inbox, self._service = inbox, service

    def join(self) -> int:
        """Put what is new of reports into the index; gives how many studies changed."""
        with self._inbox.database.reading() as database:
            rows = database.execute(
                f"SELECT {_COLUMNS}, joined FROM reports WHERE seen = 0 "  # noqa: S608
                "ORDER BY report LIMIT ?",
                (AT_ONCE,),
            ).fetchall()
        if not rows:
            return 0
        joined = {row[0]: self._study_of(_version(row)) for row in rows}
        studies = {study for study in joined.values() if study is not None}
        before = {row[-1] for row in rows if row[-1] is not None}
        # Before they are noted as joined: who begins again then knows that it is not done.
        for study in sorted(studies - before):
            self._keep_what_was_there(study)
        with self._inbox.database.transaction() as database:
            database.executemany(
                "UPDATE reports SET joined = ? WHERE report = ?",
                [(study, number) for number, study in joined.items()],
            )
        studies |= before
        self._write(sorted(studies))
        with self._inbox.database.transaction() as database:
            database.executemany(
                "UPDATE reports SET seen = 1 WHERE report = ?", [(number,) for number in joined]
            )
        return len(studies)

    def _study_of(self, version: ReportVersion) -> str | None:
        """The study of a report; None where it is not here, or is another patient's."""
        studies = Studies()
        for image in self._candidates(version):
            studies.add(image)
        named = studies.named(version.accession, version.issuer) if version.accession else None
        named = named or (studies.named(version.study) if version.study else None)
        if named is None or not studies.is_of(named, version.patient):
            return None
        return named

    def _candidates(self, version: ReportVersion) -> Iterator[FoundImage]:
        numbers = [value for value in (version.study, version.accession) if value]
        marks = ", ".join("?" * len(numbers))
        catalogue = self._service.archive.catalogue
        with self._inbox.database.reading() as database:
            received = database.execute(
                "SELECT instance, study, patient, issuer, accession, accession_issuer "  # noqa: S608
                f"FROM objects WHERE study IN ({marks}) "
                "OR (accession <> '' AND accession = ? COLLATE NOCASE)",
                (*numbers, version.accession),
            ).fetchall()
        for instance, study, patient, issuer, accession, accession_issuer in received:
            if catalogue.image(instance) is not None:
                yield _found(study, patient, issuer, accession, accession_issuer)
        known = {row[1] for row in received}
        for study, patient, number in of_study_or_accession(catalogue, numbers, version.accession):
            if study not in known:
                issuer = patient.partition(":")[0] if ":" in patient else ""
                yield _found(study, patient, issuer, number, "")

    def _versions(self, study: str) -> list[ReportVersion]:
        with self._inbox.database.reading() as database:
            rows = database.execute(
                f"SELECT {_COLUMNS} FROM reports WHERE joined = ? ORDER BY report",  # noqa: S608
                (study,),
            ).fetchall()
        return [_version(row) for row in rows]

    def _keep_what_was_there(self, study: str) -> None:
        """Keep, as a version, what the index had of a study before a report first came for it."""
        with self._inbox.database.reading() as database:
            (before,) = database.execute(
                "SELECT count(*) FROM reports WHERE joined = ? AND (seen = 1 OR source = ?)",
                (study, FROM_INDEX),
            ).fetchone()
        said = [] if before else self._service.archive.report(study)
        if not said:
            return
        sections: dict[str, str] = {}
        for section, sentence in said:
            name = section if section in SECTION_COLUMNS else "report"
            sections[name] = f"{sections[name]} {sentence}" if name in sections else sentence
        text = sections.pop("report", "")
        version = ReportVersion("", study, status=Status.UNKNOWN, report=text, sections=sections)
        with self._inbox.database.transaction() as database:
            _put(database, version, FROM_INDEX, 0.0)
            database.execute(
                "UPDATE reports SET joined = ?, seen = 1 WHERE study = ? AND source = ?",
                (study, study, FROM_INDEX),
            )

    def _write(self, studies: Sequence[str]) -> None:
        said: list[Sentence] = []
        silent: list[str] = []
        for study in studies:
            report, sections = whole_text(choose(self._versions(study), arrived=True))
            sentences = study_sentences(Study(study, report=report, sections=sections))
            said += sentences
            if not sentences:
                silent.append(study)
        index = self._service.archive
        generation = index.snapshot.meta["generation"]
        texts = list(dict.fromkeys(one.sentence for one in said))
        vectors = self._service.embed_sentences(texts).cpu().numpy() if texts else ()
        by_text = dict(zip(texts, vectors, strict=True))
        with entering(index.folder, generation, WRITE_WAIT_S) as catalogue:
            there = {study for _, study, _ in subjects(catalogue, studies=studies)}
            rows = [
                (one.study_id, one.section, one.position, one.sentence)
                for one in said
                if one.study_id in there
            ]
            silent = [study for study in silent if study in there]
            add_reports(index.folder, catalogue, reports_of(catalogue, by_text, rows, silent))


def _version(row: Sequence[Any]) -> ReportVersion:
    number, study, accession, issuer, patient, status, time, addendum, text, sections = row[:10]
    return ReportVersion(
        f"report {number}", study, accession, issuer, patient, Status(status), time,
        bool(addendum), text, json.loads(sections),
    )  # fmt: skip


def _found(
    study: str, patient: str, issuer: str, accession: str, accession_issuer: str
) -> FoundImage:
    return FoundImage(
        Path(), "", study, patient, accession=accession, accession_issuer=accession_issuer,
        issuer=issuer,
    )  # fmt: skip
