"""An audit of an archive: its parts against formulas and against ``verify``, and a whole one."""

import csv
import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cxrtext.errors import DataError
from cxrtext.evaluation.verdicts.judge import Evidence, judge_assertions
from cxrtext.evaluation.verdicts.kept import FindingVerdicts, KeptVerdicts, Tails
from cxrtext.index import build_index
from cxrtext.index.store.catalogue import IndexedImage
from cxrtext.models import load_model
from cxrtext.service import load_service
from cxrtext.service.audit.audit import Audit, _Comparison, audit_archive
from cxrtext.service.audit.claims import (
    MISSED,
    NOT_THERE,
    UNSAID,
    WRONG_SIDE,
    Reader,
    Report,
    against,
)
from cxrtext.service.audit.films import Films, indexed_reports, standardized
from cxrtext.service.audit.page import audit_page
from cxrtext.service.audit.rates import log_ratios, posteriors, q_values
from cxrtext.service.audit.tables import disagreement_rows, summary
from cxrtext.text.assertions import Assertion
from tests.conftest import SENTENCES, read_csv, write_data

EFFUSION = FindingVerdicts(
    presence=Tails(with_images=40, without_images=40, auc=0.9, below=(-1.0,), above=(0.5,)),
    side=Tails(with_images=40, without_images=40, auc=0.9, below=(-0.6,), above=(0.7,)),
)
OVERLAPPING = EFFUSION.model_copy(
    update={
        "presence": Tails(with_images=40, without_images=40, auc=0.9, below=(1.0,), above=(0.5,))
    }
)


@pytest.mark.parametrize("kept", [EFFUSION, OVERLAPPING])
def test_films_stand_against_what_verify_calls_unsupported(kept: FindingVerdicts) -> None:
    values = np.random.default_rng(0).normal(0, 1.5, (400, 2))
    asked = {
        (MISSED, 0): Assertion("effusion", False),
        (MISSED, 1): Assertion("effusion", False, "left"),
        (NOT_THERE, 0): Assertion("effusion", True),
        (WRONG_SIDE, -1): Assertion("effusion", True, "right"),
    }
    for (kind, side), said in asked.items():
        claims = np.array([[0, 0, kind, side, 0]] * len(values))
        found = against(claims, values[:, 0], values[:, 1], [kept])
        for (presence, left), marked in zip(values.tolist(), found.tolist(), strict=True):
            evidence = Evidence({"effusion": presence}, {"effusion": left})
            part = judge_assertions([said], evidence, {"effusion": kept}).parts[0]
            if kind == WRONG_SIDE:  # by its own test alone; with two, verify asks for more
                expected = {t.test: t for t in part.tests}["side"].evidence < -0.6
            else:
                expected = part.verdict == "unsupported"
            assert marked is expected, (said, presence, left)


def test_what_is_claimed_by_a_report(judged_checkpoint: Path) -> None:
    kept = KeptVerdicts.beside(load_model(judged_checkpoint))
    assert kept is not None
    reader = Reader(kept)

    def claims(*report: str) -> set[tuple[str, int, int]]:
        return {(name, kind, place) for name, kind, _, place in reader.report(report).claims}

    assert claims("Effusion.") == {("effusion", NOT_THERE, 0), ("pneumothorax", MISSED, UNSAID)}
    assert claims("The heart.", "No effusion.", "Possible pneumothorax.") == {
        ("effusion", MISSED, 1)
    }
    # What another sentence affirms is not missed, and a denial of a large one misses nothing.
    assert claims("No effusion.", "Effusion.", "No pneumothorax.") == {
        ("effusion", NOT_THERE, 1), ("pneumothorax", MISSED, 2),
    }  # fmt: skip
    assert claims("No large effusion.", "No pneumothorax.") == {("pneumothorax", MISSED, 1)}


def test_a_log_ratio_of_two_normal_distributions() -> None:
    rng = np.random.default_rng(0)
    truth = np.arange(30_000) < 10_000
    sample = (rng.normal(0, 1, 30_000) + 2 * truth)[:, None]
    found = log_ratios(np.array([[0.0], [1.0], [3.0], [99.0]]), sample, truth)
    assert found[:3] == pytest.approx([-2, 0, 4], abs=0.2)  # 2 x − 2, whatever the shares are
    assert found[3] == pytest.approx(np.log(20_001))
    assert log_ratios(np.ones((3, 2)), np.ones((4, 2)), np.ones(4, bool)).tolist() == [0, 0, 0]


def test_rates_of_planted_ones_and_of_none() -> None:
    rng = np.random.default_rng(1)
    wrong = np.arange(5000) < 100
    values = rng.normal(0, 1, 5000) + 4 * wrong
    ratio, free = 4 * values - 8, np.ones(5000, dtype=bool)
    found = posteriors(ratio, free)
    assert 0.015 < found.mean() < 0.025
    taken = q_values(found) <= 0.1
    assert wrong[taken].mean() > 0.8
    assert wrong[taken].sum() > 60
    none = q_values(posteriors(ratio[~wrong], free[~wrong])) <= 0.1
    assert none.sum() <= 2
    # Those that the ratio was fitted to say nothing of how many there are.
    assert posteriors(ratio, ~wrong).mean() < found.mean()
    assert q_values(np.array([0.5, 1.0, 0.9])) == pytest.approx([0.2, 0.0, 0.05])


def test_scores_as_deviations_from_those_of_other_patients() -> None:
    scores = np.random.default_rng(0).normal(size=(12, 12)) + np.arange(12)
    patients = ["a", "a", *map(str, range(10))]
    found = standardized(scores, patients)
    assert np.isnan(found[0, 1])
    centered = scores - scores.mean(axis=0)
    others = centered[0, 2:]
    assert found[0, 0] == pytest.approx((centered[0, 0] - others.mean()) / others.std())
    assert np.isnan(standardized(scores, ["a"] * 12)).all()


def test_what_another_finding_explains_is_not_missed() -> None:
    names = ["fluid"] * 10 + ["scoliosis"] * 10 + [""] * 10
    image = IndexedImage(1, "a.png", "a.png", "s", "p", "test", 9, 9)
    high = np.array([2.0] * 5 + [-2.0] * 5 + [2.0] + [-2.0] * 9 + [2.0] + [-2.0] * 9)[:, None]
    films = Films(
        [replace(image, number=at, patient_id=f"p{at}") for at in range(30)], ("effusion",),
        high, np.full((30, 1), np.nan), np.full((30, 1), np.nan), np.arange(30)[:, None],
    )  # fmt: skip
    none = frozenset[str]()
    claim = (("effusion", MISSED, 0, UNSAID),)
    said = [Report(frozenset({one} - {""}), none, none, claim, 0) for one in names]
    work = _Comparison(films, said, np.zeros(30, dtype=bool), {"effusion": EFFUSION})
    # Half of the films of fluid look like an effusion, one in ten of scoliosis does.
    assert work.claims[:, 0].tolist() == list(range(10, 30))
    assert {one.image.number for one in work.disagreements()[0]} == {10, 20}


def swap(rows: list[dict[str, str]], one: int, other: int) -> None:
    """Exchange the reports of two studies."""
    rows[one]["findings"], rows[other]["findings"] = rows[other]["findings"], rows[one]["findings"]


EXCHANGED = (19, 20)  # an effusion and a pneumothorax, of split test
PRIORS = {at: at - 2 for at in range(33, 129, 12)}
"""Films without an effusion, by study, whose reports repeat that of the patient's film before."""
UNORDERED = 57
"""One of these, whose age contradicts its date."""


@pytest.fixture(scope="module")
def audited(judged_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of 240 studies; two reports are exchanged, and eight repeat the prior."""
    data = write_data(tmp_path_factory.mktemp("audit") / "data", 240)
    tables = {name: read_csv(data / f"{name}.csv") for name in ("manifest", "reports")}
    swap(tables["reports"], *EXCHANGED)
    for row in tables["manifest"]:
        number = int(row["study_id"][1:])
        row |= {"date": "", "model": f"scanner {number % 2}"}
        if number % 12 == 4:
            row["split"] = "val"  # of each kind of study some
    for at, before in PRIORS.items():
        tables["reports"][at]["findings"] = SENTENCES["effusion"]
        first, second = (tables["manifest"][one] for one in (before, at))
        first["date"], second["date"] = "20200101", "20200601"
        second["patient_id"] = first["patient_id"]
        first["age"], second["age"] = "50", "60" if at == UNORDERED else "50"
    for name, rows in tables.items():
        with (data / f"{name}.csv").open("w", newline="") as handle:
            writer = csv.DictWriter(handle, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    build_index(data / "manifest.csv", judged_checkpoint, data.parent / "index")
    return data.parent / "index"


@pytest.fixture(scope="module")
def audit_of(audited: Path, judged_checkpoint: Path) -> Callable[..., Audit]:
    def make() -> Audit:
        with closing(load_service(judged_checkpoint, audited)) as service:
            reports = indexed_reports(service.archive)
            return audit_archive(service.archive, service.verdicts, reports)

    return make


def test_exchanged_and_repeated_reports_are_found(audit_of: Callable[..., Audit]) -> None:
    found = audit_of()
    kinds = {(int(one.image.study_id[1:]), one.kind) for one in found.found}
    assert {(at, "exchanged report") for at in EXCHANGED} <= kinds
    assert (EXCHANGED[0], "missed finding") in kinds
    stale = {study for study, kind in kinds if kind == "stale text"}
    assert stale <= PRIORS.keys() - {UNORDERED}
    assert len(stale) >= 4
    first = [int(one.image.study_id[1:]) for one in found.found[:10]]
    assert sum(one in PRIORS or one in EXCHANGED for one in first) >= 7
    assert found.unordered == 1


def test_counts_beside_what_they_would_be(audit_of: Callable[..., Audit]) -> None:
    found = audit_of()
    counts = summary(found)
    assert 230 < counts["films"] == counts["sentences"] <= 240  # a few are unlike
    assert counts["marked"] < counts["if_dealt"] / 2
    assert counts["marked"] == len(found.found) == sum(c["marked"] for c in counts["by_finding"])
    assert [one["name"] for one in counts["by_device"]] == ["scanner 0", "scanner 1"]
    assert sum(one["marked"] for one in counts["by_device"]) == counts["marked"]
    assert counts["by_site"] == []
    rows = disagreement_rows(found)
    assert [row["q"] for row in rows] == sorted(row["q"] for row in rows)
    fitted = {row["split"] for row in rows if row["fitted_on"]}
    assert fitted <= {"val"}
    json.dumps(counts, allow_nan=False)


def test_the_page_opens_each_with_its_report(
    audited: Path, judged_checkpoint: Path, audit_of: Callable[..., Audit]
) -> None:
    found = audit_of()
    with closing(load_service(judged_checkpoint, audited)) as service:
        page = audit_page(found, service)
        assert page.count("<details>") == min(50, len(found.found))
        assert f">{SENTENCES['effusion']}</mark>" in page
        assert "By device" in page
        Path(found.found[0].image.path).rename(audited / "away.png")
        try:
            assert "no longer where it was indexed" in audit_page(found, service)
        finally:
            (audited / "away.png").rename(found.found[0].image.path)


def test_what_an_audit_wants(checkpoint: Path, judged_checkpoint: Path, index_folder: Path) -> None:
    for model, why in ((checkpoint, "no calibrated verdicts"), (judged_checkpoint, "8 films of")):
        with closing(load_service(model, index_folder)) as service:
            reports = indexed_reports(service.archive)
            with pytest.raises(DataError, match=why):
                audit_archive(service.archive, service.verdicts, reports)


def test_where_no_finding_is_judged_nothing_is_audited(
    audited: Path, judged_checkpoint: Path
) -> None:
    with closing(load_service(judged_checkpoint, audited)) as service:
        assert service.verdicts is not None
        none = service.verdicts.model_copy(update={"findings": {}})
        with pytest.raises(DataError, match="nothing can be audited: no finding judged by"):
            audit_archive(service.archive, none, indexed_reports(service.archive))
