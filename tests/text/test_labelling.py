"""Labels read off English reports."""

import pytest

from cxrtext.evaluation import CHEX5_PROMPTS
from cxrtext.text.labelling import FINDINGS, NO_FINDING, covered, label_report, sentence_labels
from cxrtext.text.rules import prompts_for


@pytest.mark.parametrize(
    ("sentence", "finding", "value"),
    [
        ("The heart is mildly enlarged.", "Cardiomegaly", 1),
        ("The heart is not enlarged.", "Cardiomegaly", 0),
        ("Heart size and mediastinal contours are within normal limits.", "Cardiomegaly", 0),
        ("Borderline cardiomegaly.", "Cardiomegaly", -1),
        ("Pericardial effusion.", "Pleural Effusion", None),
        ("No pleural effusion or pneumothorax.", "Pleural Effusion", 0),
        ("Effusion cannot be excluded.", "Pleural Effusion", -1),
        ("Effusion may be present.", "Pleural Effusion", -1),
        # A doubt is about what follows it.
        ("Opacities may represent atelectasis.", "Lung Opacity", 1),
        ("Opacities may represent atelectasis.", "Atelectasis", -1),
        ("Opacity which may be due to atelectasis.", "Atelectasis", -1),
        ("Dense nodule suggests old granulomatous disease.", "Nodule", 1),
        ("Left basilar opacity, likely pneumonia.", "Lung Opacity", 1),
        ("Left basilar opacity, likely pneumonia.", "Pneumonia", -1),
        ("No pneumothorax, but there is a small effusion.", "Pleural Effusion", 1),
        ("No pneumothorax, but there is a small effusion.", "Pneumothorax", 0),
        # A consolidation is an opacity; none of it says nothing of others.
        ("Consolidation in the left base.", "Lung Opacity", 1),
        ("No consolidation.", "Lung Opacity", None),
        ("The lungs are clear.", "Lung Opacity", 0),
        ("The lungs are clear.", "Pleural Effusion", None),
        ("The left lung is clear.", "Lung Opacity", None),
        ("No acute cardiopulmonary abnormality.", "Pneumothorax", 0),
        ("No acute cardiopulmonary abnormality.", "Cardiomegaly", None),
        ("No acute osseous abnormality.", "Fracture", 0),
        ("No acute osseous abnormality.", "Pneumothorax", None),
        # About something else than the film.
        ("History of pneumonia.", "Pneumonia", None),
        ("Please correlate clinically for pneumonia.", "Pneumonia", None),
        ("Interval removal of the right chest tube.", "Support Devices", None),
    ],
)
def test_what_a_sentence_says(sentence: str, finding: str, value: int | None) -> None:
    found = sentence_labels(sentence)
    assert (found[finding].value if finding in found else None) == value


def test_a_report_is_as_its_strongest_sentence() -> None:
    said = ["No effusion.", "Possible left effusion.", "The heart is enlarged."]
    labels = label_report(said)
    assert labels["Pleural Effusion"] == (-1, "left", "Possible left effusion.")
    assert labels["Edema"].value is None
    labels = label_report([*said, "Right effusion.", "The left effusion is small."])
    assert labels["Pleural Effusion"] == (1, "both", "Right effusion.")
    assert labels[NO_FINDING].value == 0
    assert tuple(labels) == FINDINGS


def test_no_finding() -> None:
    assert label_report(["Normal chest."])[NO_FINDING].value == 1
    assert label_report(["Pacemaker. No effusion."])[NO_FINDING].value == 1
    assert label_report(["Possible effusion."])[NO_FINDING].value == 0
    assert label_report([])[NO_FINDING].value is None


def test_sides_are_those_of_the_clause() -> None:
    found = sentence_labels("Small left effusion, but the right lung has a nodule.")
    assert {name: one.side for name, one in found.items()} == {
        "Pleural Effusion": "left",
        "Nodule": "right",
    }
    assert sentence_labels("No left effusion.")["Pleural Effusion"] == (
        0,
        "left",
        "No left effusion.",
    )


def test_covered_counts_findings_and_what_is_normal() -> None:
    assert covered(["No effusion.", "The trachea is midline.", "Chest.", "Scoliosis."]) == 0.5
    assert covered([]) == 0


def test_prompts_of_chex5_are_those_of_the_paper() -> None:
    assert prompts_for("en", CHEX5_PROMPTS) == {
        finding: (one.positive, one.negative) for finding, one in CHEX5_PROMPTS.items()
    }
