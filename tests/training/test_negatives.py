"""The measured share of false negatives, beside what estimates make of it."""

import math
import shutil
import stat
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import spearmanr

from cxrtext.errors import DataError
from cxrtext.evaluation.data import sentences_beside
from cxrtext.language.eta.fit import solve
from cxrtext.language.eta.statistics import rank_correlation
from cxrtext.phantom import write_phantoms
from cxrtext.project.layout import CHECKPOINT, DATA, RECIPE
from cxrtext.records import ImageRecord, Sentence, write_table
from cxrtext.records.sentences import COLUMNS
from cxrtext.training.negatives.agreement import FIGURES, agreements, shares
from cxrtext.training.negatives.positives import Anchors, read_anchors, tell_positives
from cxrtext.training.negatives.run import find_negatives, likeliest
from tests.cli.conftest import cxrtext
from tests.conftest import Once, read_csv


@pytest.fixture(scope="module")
def drawn(once: Once) -> Path:
    """A drawn set with scored sentences; the likelihood falls with the length."""

    def make(folder: Path) -> None:
        write_phantoms(folder / "set", studies=150, size=64, seed=7, workers=1)
        said = sentences_beside(folder / "set/manifest.csv") or []
        rows = []
        for one in said:
            values = {name: getattr(one, name) for name in COLUMNS}
            length = len(one.sentence.split())
            rows.append(values | {"n_tokens": length, "log_likelihood": -length, "eta": 0.1})
        write_table(folder / "set/sentences.csv", COLUMNS, rows)

    return once("drawn-negatives", make) / "set"


@pytest.fixture(scope="module")
def anchors(drawn: Path) -> Anchors:
    return read_anchors(drawn / "manifest.csv", drawn / "sentences.csv")


def test_shares_are_those_of_loops_over_other_studies() -> None:
    generator = np.random.default_rng(0)
    true = generator.random((5, 9)) < 0.4
    said = generator.integers(0, 3, (5, 9))
    said[4] = 0
    weights = np.stack([np.ones(9), generator.integers(0, 4, 9)])
    expected = np.zeros((2, 5))
    for r, w in enumerate(weights):
        for x in range(4):
            own = [(i, said[x, i] * w[i]) for i in range(9) if said[x, i] * w[i]]
            rates = [np.average(np.delete(true[x], i), weights=np.delete(w, i)) for i, _ in own]
            expected[r, x] = np.average(rates, weights=[times for _, times in own])
    found = shares(true, csr_array(said.astype(float)), weights.astype(np.float32))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_rank_correlation_counts_a_pair_as_often_as_its_weight() -> None:
    generator = np.random.default_rng(1)
    x, y = generator.integers(0, 6, (2, 40)).astype(float)
    weight = generator.integers(1, 5, 40)
    every = spearmanr(np.repeat(x, weight), np.repeat(y, weight)).statistic
    assert rank_correlation(x, y, weight.astype(float)) == pytest.approx(every)


def test_a_fit_to_shares_finds_their_numbers() -> None:
    log_p = -np.linspace(0.5, 30, 50)
    a, k = solve(log_p, np.arange(1, 51), 0.4 * np.exp(0.2 * log_p))
    assert (a, k) == pytest.approx((0.4, 0.2))


def test_ways_of_telling_positives_agree_with_the_truth(drawn: Path, anchors: Anchors) -> None:
    told = tell_positives(anchors, drawn, drawn / "labels.csv")
    assert list(told) == ["repeats", "reports", "labels", "truth"]
    truth, known = told["truth"]
    repeats = told["repeats"][0][known]
    assert truth[known][repeats].all()
    assert not told["truth"][0][~known].any()
    mixed = np.random.default_rng(0).permutation(truth.shape[1])
    for way, least in (("reports", 0.75), ("labels", 0.65)):
        both = known & told[way][1]
        mine, right = told[way][0][both], truth[both]
        precision = right[mine].mean()
        assert precision > least
        assert precision > right[:, mixed][mine].mean() + 0.1, way


def test_reports_contradict_what_a_sentence_implies(tmp_path: Path) -> None:
    """A denial without a word of a finding is not true of a report that affirms one."""
    texts = ["No acute disease.", "Left effusion.", "No effusion."]
    reports = [texts[0]] * 60 + [texts[1]] * 60 + [texts[2]] * 30
    said = csr_array(np.array([[text == one for one in reports] for text in texts], dtype=float))
    records = [ImageRecord(tmp_path, f"{n}.png", f"s{n}", f"p{n}") for n in range(150)]
    alone = [Sentence("s0", "findings", 0, text) for text in texts]
    true, judged = tell_positives(Anchors(alone, said, records), tmp_path, None)["reports"]
    assert judged.all()
    assert true.mean(axis=1).tolist() == [0.6, 0.4, 0.6]


def test_a_right_estimate_agrees_and_a_shuffled_one_does_not(drawn: Path, anchors: Anchors) -> None:
    told = tell_positives(anchors, drawn, drawn / "labels.csv")
    measured, rows = agreements(anchors, told, 63, resamples=20)
    by_name = {(row["estimate"], row["measured_by"]): row for row in rows}
    assert len(by_name) == len(rows) == 4 * 9 - 3
    for row in rows:
        if row["estimate"] != "constant":
            assert row["spearman_shuffled_low"] < 0 < row["spearman_shuffled_high"]
        for name in FIGURES:
            assert not row[name] < row[f"{name}_low"]
    fitted, best = (by_name[name, "reports"] for name in ("fitted to reports", "wording"))
    assert fitted["log_ratio"] == pytest.approx(0.0, abs=1e-6)
    assert fitted["expected"] == pytest.approx(fitted["measured"])
    assert best["spearman"] > fitted["spearman"]
    assert best["error"] < best["error_shuffled"] / 2
    share = measured["truth"]
    known = ~np.isnan(share)
    mean = np.average(share[known], weights=anchors.count[known])
    assert by_name["paper", "truth"]["measured"] == pytest.approx(63 * mean)
    assert math.isnan(by_name["constant", "truth"]["spearman"])


def test_the_likeliest_pairs_are_of_other_studies() -> None:
    said = np.eye(2, 5, dtype=bool)
    scores = np.array([[9, 3, 2, 1, 0], [1, 9, -np.inf, 3, 2]], dtype=np.float32)
    sentence, study, chance = likeliest(said, scores, np.array([0.1, 0.001]))
    assert [study[sentence == row].tolist() for row in (0, 1)] == [[1, 2, 3], [3, 4, 0]]
    assert (np.diff(chance) <= 0).all()
    raised = np.exp([9.0, 3, 2, 1, 0])
    assert chance[0] == pytest.approx(0.1 * raised[1] / raised.mean(), rel=1e-5)


def test_labels_without_a_known_finding_tell_nothing(
    drawn: Path, anchors: Anchors, tmp_path: Path
) -> None:
    (tmp_path / "labels.csv").write_text("study_id,Scoliosis grade\ns000001,1\n")
    assert list(tell_positives(anchors, drawn, tmp_path / "labels.csv"))[2:] == ["truth"]


def test_many_studies_are_drawn_from(drawn: Path, anchors: Anchors) -> None:
    some = read_anchors(drawn / "manifest.csv", drawn / "sentences.csv", most=40)
    assert len(some.records) == some.said.shape[1] == 40
    assert {one.study_id for one in some.records} < {one.study_id for one in anchors.records}
    assert (some.count > 0).all()


def test_the_command_writes_a_private_folder(
    data_folder: Path, sentences_table: Path, checkpoint: Path, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    shutil.copytree(data_folder, project / DATA)
    shutil.copytree(checkpoint, project / CHECKPOINT)
    shutil.copy(sentences_table, project / "sentences.csv")
    (project / RECIPE).write_text("{}")
    done = cxrtext("negatives", project, "--batch", 16, "--device", "cpu")
    assert "3 distinct; false negatives of an anchor among 15" in done.stdout
    out = project / "negatives"
    assert stat.S_IMODE(out.stat().st_mode) == 0o700
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in out.iterdir())
    rows = {row["sentence"]: row for row in read_csv(out / "sentences.csv")}
    effusion = rows["Left pleural effusion."]
    share = float(effusion["share_labels"])
    count = int(effusion["count"])
    assert share == pytest.approx((count - 1) / 27)
    assert float(effusion["share_labels_low"]) < share < float(effusion["share_labels_high"])
    assert float(effusion["false_negatives_labels"]) == pytest.approx(15 * share)
    assert rows["The lungs are clear."]["share_labels"] == ""  # rules out what has no column
    pairs = read_csv(out / "pairs.csv")
    assert {"study_id", "probability", "reports", "labels"} < set(pairs[0])
    assert {row["sentence_id"] for row in pairs} <= {row["sentence_id"] for row in rows.values()}
    assert "effusion" not in (out / "pairs.csv").read_text()
    gone = cxrtext("forget", out, "--study", effusion["study_id"], "--log", tmp_path / "log.jsonl")
    assert "sentences.csv" in gone.stdout
    assert "effusion" not in (out / "sentences.csv").read_text()
    assert "effusion" not in done.stdout + done.stderr


def test_what_cannot_be_measured_is_refused(
    data_folder: Path, sentences_table: Path, tmp_path: Path
) -> None:
    table = tmp_path / "sentences.csv"
    lines = sentences_table.read_text().splitlines(keepends=True)
    table.write_text("".join(lines[:2]))
    with pytest.raises(DataError, match="1 training studies of .* at least 2 are needed"):
        find_negatives(data_folder, table, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    done = cxrtext("negatives", data_folder, code=2)
    assert "sentences.csv: no such file" in done.stderr
