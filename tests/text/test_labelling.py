"""Labels read off reports."""

import pytest

from cxrtext.text import split_sentences
from cxrtext.text.labelling import FINDINGS, NO_FINDING, covered, label_report


def test_a_report_is_as_its_strongest_sentence() -> None:
    said = ["No effusion.", "Possible left effusion.", "The heart is enlarged."]
    labels = label_report(said)
    assert labels["Pleural Effusion"] == (-1, "left", "Possible left effusion.")
    assert labels["Edema"].value is None
    assert label_report(["No edema.", "No left edema."])["Edema"].side == ""
    labels = label_report([*said, "Right effusion.", "The left effusion is small."])
    assert labels["Pleural Effusion"] == (1, "both", "Right effusion.")
    assert labels[NO_FINDING].value == 0
    assert tuple(labels) == FINDINGS


def test_no_finding() -> None:
    assert label_report(["Normal chest."])[NO_FINDING].value == 1
    assert label_report(["Pacemaker. No effusion."])[NO_FINDING].value == 1
    assert label_report(["Possible effusion."])[NO_FINDING].value == 0
    for unread in ([], ["See dictated report."], ["#NAME?"], ["Pneumothorax: see note", "Normal."]):
        assert label_report(unread)[NO_FINDING].value is None


def test_covered_counts_findings_and_what_is_normal() -> None:
    assert covered(["No effusion.", "The trachea is midline.", "Chest.", "Scoliosis."]) == 0.5
    assert covered([]) == 0


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        ("no pneumothorax. " * 80, "Pneumothorax 0, No Finding 1"),
        ("No pneumothorax on the right, small one on the left.", "Pneumothorax 1 left"),
        ("No effusion on the left, but there is one on the right.", "Pleural Effusion 1 right"),
        ("No effusion on the left, one on the right.", "Pleural Effusion 1 right"),
        ("Right pleural effusion; no effusion on the left.", "Pleural Effusion 1 right"),
        ("No comparison available, pneumothorax on the right.", "Pneumothorax 1 right"),
        ("Without comparison, this may represent pneumonia.", "Lung Opacity -1, Pneumonia -1"),
        (
            "Pneumothorax has resolved, effusion is stable.",
            "Pleural Effusion 1, Pneumothorax 0",
        ),
        ("Pneumothorax: Effusion:", ""),
        ("Pneumothorax: ___ Effusion: ___", ""),
        ("The right lung is retracted. Small effusion.", "Pleural Effusion 1"),
        ("Altersentsprechender Normalbefund.", "No Finding 1"),
        ("Das Herz stellt sich neu leicht verbreitert dar.", "Cardiomegaly 1"),
    ],
)
def test_what_stands_beside_a_denial_is_not_denied(report: str, expected: str) -> None:
    labels = label_report(split_sentences(report))
    found = [
        f"{name} {label.value} {label.side}".rstrip()
        for name, label in labels.items()
        if label.value is not None and (name, label.value) != (NO_FINDING, 0)
    ]
    assert ", ".join(found) == expected
