"""Reports that arrive on their own: keep every version, join them to studies, index them.

A report may come before its images, and a correction years later.  So all versions are kept, and
the index always has what `choose` makes of a study's versions.
"""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from cxrtext.datasets.admission.ids import Ids
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
FROM_INDEX = "index"  # the source of a version made from the index's earlier report
_COLUMNS = "report, study, accession, issuer, patient, status, time, addendum, text, sections"
TWO_STUDIES = "matches several studies; join it to one"
ANOTHERS = "names another patient than its study"


class _Place(NamedTuple):
    """Where a report belongs."""

    study: str | None = None  # in the index
    held: str | None = None  # why it waits for somebody to name the study
    matches: tuple[str, ...] = ()  # the studies it may belong to, if it is held


class _Owner(NamedTuple):
    """A study and its patient."""

    study: str
    patient: str
    issuer: str
    accession: str
    accession_issuer: str


def put_versions(
    finishing: Finishing, versions: Sequence[ReportVersion], entry: Entry, ids: Ids
) -> None:
    """Keep new versions of reports, and finish their entry."""
    new = [
        _put(finishing.database, _as_kept(finishing, one, ids), entry.source, entry.received)
        for one in versions
    ]
    if any(new):
        finishing.done(entry, "report")
    else:
        finishing.done(entry, "again", SAME)


def _as_kept(finishing: Finishing, version: ReportVersion, ids: Ids) -> ReportVersion:
    if ids.hashed:
        version = replace(
            version,
            study=ids.of("study", version.study),
            accession=ids.of("accession", version.accession.casefold()),
            issuer=ids.of("issuer", version.issuer.casefold()),
            patient=ids.of("patient", version.patient),
        )
    return replace(version, patient=merged(finishing.database, version.patient))


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
    """Let the reports of a study be joined again, as its images changed."""
    database.execute(
        "UPDATE reports SET seen = 0 WHERE joined = ? OR (joined IS NULL AND (study = ? "
        "OR (accession <> '' AND accession COLLATE NOCASE IN (?, ?))))",
        (study, study, study, accession),
    )


class ReportJoiner:
    def __init__(self, inbox: Inbox, service: Service) -> None:
        self._inbox, self._service = inbox, service

    def join(self) -> int:
        """Put new reports into the index; gives how many studies changed."""
        with self._inbox.database.reading() as database:
            rows = database.execute(
                f"SELECT {_COLUMNS}, joined, chosen FROM reports WHERE seen = 0 "  # noqa: S608
                "ORDER BY report LIMIT ?",
                (AT_ONCE,),
            ).fetchall()
        if not rows:
            return 0
        places = {(row[0], row[-1]): self._study_of(_version(row), row[-1]) for row in rows}
        studies = {place.study for place in places.values() if place.study is not None}
        before = {row[-2] for row in rows if row[-2] is not None}
        # Before they are noted as joined, so that after a kill this is done again.
        for study in sorted(studies - before):
            self._keep_what_was_there(study)
        with self._inbox.database.transaction() as database:
            database.executemany(
                "UPDATE reports SET joined = ?, held = ?, matches = ? "
                "WHERE report = ? AND chosen IS ?",  # somebody may choose meanwhile
                [
                    (place.study, place.held, json.dumps(place.matches), *key)
                    for key, place in places.items()
                ],
            )
        studies |= before
        self._write(sorted(studies))
        with self._inbox.database.transaction() as database:
            database.executemany(
                "UPDATE reports SET seen = 1 WHERE report = ? AND chosen IS ?", list(places)
            )
        return len(studies)

    def _study_of(self, version: ReportVersion, chosen: str | None) -> _Place:
        """The study of a report, or why it is held; neither if its study is not here.

        Somebody's choice comes first, then the accession number, then the study's UID, or the
        number if an import used it as the id of a study.  The patient decides between several
        studies, but is never enough alone.
        """
        by_number, by_name = self._candidates(version, chosen)
        if chosen:
            return _Place(chosen if chosen in {one.study for one in by_name} else None)
        for owners in (by_number, by_name):
            theirs = {one.study for one in owners if _is_of(one, version.patient)}
            if len(theirs) == 1 or version.study in theirs:
                return _Place(version.study if version.study in theirs else theirs.pop())
            if theirs:
                return _Place(None, TWO_STUDIES, tuple(sorted(theirs)))
        others = {one.study for one in (*by_number, *by_name)}
        return _Place(None, ANOTHERS, tuple(sorted(others))) if others else _Place()

    def _candidates(
        self, version: ReportVersion, chosen: str | None
    ) -> tuple[list[_Owner], list[_Owner]]:
        """The studies in the index with its accession number, and those with a name it gives."""
        names = [value for value in (version.study, version.accession, chosen) if value]
        marks = ", ".join("?" * len(names))
        catalogue = self._service.archive.catalogue
        with self._inbox.database.reading() as database:
            received = database.execute(
                "SELECT instance, study, patient, issuer, accession, accession_issuer "  # noqa: S608
                f"FROM objects WHERE study IN ({marks}) "
                "OR (accession <> '' AND accession = ? COLLATE NOCASE)",
                (*names, version.accession),
            ).fetchall()
        owners = {_Owner(*row) for instance, *row in received if catalogue.image(instance)}
        known = {row[1] for row in received}
        for study, patient, number in of_study_or_accession(catalogue, names, version.accession):
            if study not in known:
                issuer = patient.partition(":")[0] if ":" in patient else ""
                owners.add(_Owner(study, patient, issuer, number, ""))
        wanted, issuer = version.accession.casefold(), version.issuer.casefold()
        numbered = [one for one in owners if wanted and one.accession.casefold() == wanted]
        if issuer:  # a study of this issuer, else one that names no issuer
            by_issuer = {
                name: [one for one in numbered if one.accession_issuer.casefold() == name]
                for name in (issuer, "")
            }
            numbered = by_issuer[issuer] or by_issuer[""]
        return numbered, [one for one in owners if one.study in names]

    def _versions(self, study: str) -> list[ReportVersion]:
        with self._inbox.database.reading() as database:
            rows = database.execute(
                f"SELECT {_COLUMNS} FROM reports WHERE joined = ? ORDER BY report",  # noqa: S608
                (study,),
            ).fetchall()
        return [_version(row) for row in rows]

    def _keep_what_was_there(self, study: str) -> None:
        """Keep the index's report of a study as a version before the first one arrives."""
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
        f"report {number}", study, accession, issuer=issuer, patient=patient,
        status=Status(status), time=time, addendum=bool(addendum), report=text,
        sections=json.loads(sections),
    )  # fmt: skip


def _is_of(owner: _Owner, patient: str) -> bool:
    """Whether a study may be a patient's; without an issuer, only the id is compared."""
    if not patient or not owner.patient or owner.patient in (patient, owner.study):
        return True
    bare = patient.partition(":")[2] or patient
    known = owner.patient.removeprefix(f"{owner.issuer}:") if owner.issuer else owner.patient
    return bare == known and not (":" in patient and owner.issuer)


# --- merged patients ---


def put_merges(finishing: Finishing, merges: Sequence[tuple[str, str]], entry: Entry) -> None:
    """Replace old patient ids by new ones from now on, and finish the entry."""
    database = finishing.database
    for old, new in merges:
        if old == new:
            continue
        # Ids that were merged into the old id now lead to the new one, which leads nowhere else.
        database.execute("DELETE FROM merges WHERE old = ?", (new,))
        database.execute("UPDATE merges SET new = ? WHERE new = ?", (new, old))
        database.execute(
            "INSERT OR REPLACE INTO merges VALUES (?, ?, ?)", (old, new, entry.received)
        )
        studies = database.execute(
            "SELECT DISTINCT study, accession FROM objects WHERE patient = ?", (old,)
        ).fetchall()
        database.execute("UPDATE objects SET patient = ? WHERE patient = ?", (new, old))
        database.execute("UPDATE reports SET patient = ?, seen = 0 WHERE patient = ?", (new, old))
        for study, accession in studies:
            finishing.release(study)
            look_again(database, study, accession)
    finishing.done(entry, "merged")


def merged(database: sqlite3.Connection, patient: str) -> str:
    """The id that a patient's id was merged into, or the same id."""
    row = database.execute("SELECT new FROM merges WHERE old = ?", (patient,)).fetchone()
    return str(row[0]) if row else patient
