"""Labels read off English reports."""

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
