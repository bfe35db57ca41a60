"""Which images of a batch a sentence is true of, against one sentence and one image at a time."""

from pathlib import Path

import numpy as np
import pytest

from cxrtext.errors import DataError
from cxrtext.phantom.claims import UNCHANGED
from cxrtext.phantom.studies import draw_studies
from cxrtext.phantom.tables import TRUTH_COLUMNS, truth_rows
from cxrtext.phantom.truth import read_truth
from cxrtext.records import ImageRecord, Sentence, write_table
from cxrtext.text.entailment import entails, statement_of
from cxrtext.training.losses.loss_data import by_report, by_truth

STUDIES = draw_studies(40, 5)
TEXTS = [
    Sentence(study.study_id, section, place, one.text)
    for study in STUDIES
    for section, some in study.report.sections()
    for place, one in enumerate(some)
]
RECORDS = [
    ImageRecord(Path(f"{s.study_id}.png"), s.study_id, s.study_id, s.patient_id, s.split)
    for s in STUDIES
]
REPORTS = [
    np.asarray([i for i, one in enumerate(TEXTS) if one.study_id == study.study_id])
    for study in STUDIES
]


def folder_of(out: Path, seed: int = 5, version: int = 3) -> Path:
    write_table(out / "truth.csv", TRUTH_COLUMNS, list(truth_rows(STUDIES)))
    note = f'{{"version": {version}, "studies": {len(STUDIES)}, "seed": {seed}}}'
    (out / "phantom.json").write_text(note)
    return out


def test_reports_of_a_batch_as_one_by_one() -> None:
    statements = {one.sentence: statement_of(one.sentence) for one in TEXTS}
    told = by_report(statements, TEXTS, REPORTS)
    rows = np.random.default_rng(0).permutation(len(STUDIES))[:16]
    chosen = np.random.default_rng(1).integers(0, len(TEXTS), 60)
    found = told([int(i) for i in chosen], rows)
    expected = [
        [
            entails(
                [statements[TEXTS[int(k)].sentence] for k in REPORTS[int(row)]],
                statements[TEXTS[int(i)].sentence],
            )
            for row in rows
        ]
        for i in chosen
    ]
    assert found.tolist() == expected
    assert 0.1 < found.mean() < 0.7


def test_the_truth_of_drawn_images(tmp_path: Path) -> None:
    known = read_truth(folder_of(tmp_path))
    assert known is not None
    told = by_truth(known, TEXTS, RECORDS)
    rows = np.arange(len(STUDIES))
    found = told(range(len(TEXTS)), rows)
    claims = [one.claim for s in STUDIES for _, some in s.report.sections() for one in some]
    clear = [text for text in known.claims if text in {one.sentence for one in TEXTS}]
    assert len(clear) > 0.8 * len({one.sentence for one in TEXTS})
    for row, text, claim in zip(found, TEXTS, claims, strict=True):
        if text.sentence in known.claims:
            assert row.tolist() == [claim.holds(study.patient.state) for study in STUDIES]
        else:
            assert not row.any()
    assert any(claim == UNCHANGED for claim in claims)


def test_reports_come_near_the_truth(tmp_path: Path) -> None:
    known = read_truth(folder_of(tmp_path))
    assert known is not None
    rows = np.arange(len(STUDIES))
    statements = {one.sentence: statement_of(one.sentence) for one in TEXTS}
    guessed = by_report(statements, TEXTS, REPORTS)(range(len(TEXTS)), rows)
    true = by_truth(known, TEXTS, RECORDS)(range(len(TEXTS)), rows)
    assert guessed[true].mean() > 0.5  # of the false negatives, more than half are found
    assert true[guessed].mean() > 0.7  # of what is removed, most is a false negative


def test_a_set_that_is_not_as_it_was_drawn(tmp_path: Path) -> None:
    assert read_truth(tmp_path) is None
    with pytest.raises(DataError, match="truth.csv: row 3: no sentence of the set that phantom.js"):
        read_truth(folder_of(tmp_path, seed=6))
    with pytest.raises(DataError, match="drawn by version 2 of the phantoms, and this is 3; draw"):
        read_truth(folder_of(tmp_path, version=2))
    (tmp_path / "phantom.json").write_text("{")
    with pytest.raises(DataError, match="phantom.json: not readable; draw the set again"):
        read_truth(tmp_path)
