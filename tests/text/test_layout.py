"""Reports in the forms that reporting systems write say what they say in prose."""

import json

import pytest

from cxrtext.records import Study
from cxrtext.text import split_sentences, study_sentences
from cxrtext.text.labelling import NO_FINDING, label_report
from cxrtext.text.wording import wording

SAID = "Pneumothorax is absent; there are an effusion and an enlarged heart."
FORMS = [
    "Pneumothorax: Absent\nPleural effusion: Present\nHeart: Enlarged",
    "Pneumothorax: No\nPleural effusion: Yes\nHeart: enlarged",
    "pneumothorax (-), pleural effusion (+), cardiomegaly (+).",
    "Pneumothorax - no. Effusion - yes (right). Cardiomegaly - mild.",
    "PTX .... none\nEffusion .... small\nCardiomegaly .... yes",
    "[ ] Pneumothorax\n[x] Effusion\n[x] Cardiomegaly",
    "Pneumothorax [ ] yes [x] no\nEffusion [x] yes [ ] no\nCardiomegaly: yes [X] no [ ]",
    "☐ Pneumothorax ☑ Effusion ☑ Cardiomegaly",
    "Finding | Status | Side\n---|---|---\nPneumothorax | absent | -\nEffusion | present | left\n"
    "Cardiomegaly | present | -",
    "Finding | Yes | No\nPneumothorax | | X\nEffusion | X |\nCardiomegaly | X |",
    "Pneumothorax | Effusion | Cardiomegaly\nno | yes | yes",
    "Pneumothorax\tN\nEffusion\tY\nCardiomegaly\tY",
    "Pneumothorax=0, effusion=1, cardiomegaly=1",
    "pneumothorax,0\neffusion,1\ncardiomegaly,1",
    json.dumps({"pneumothorax": False, "pleural_effusion": True, "cardiomegaly": "mild"}),
    json.dumps([{"finding": "Pneumothorax", "status": "absent"}, {"Effusion": {"present": True}},
                {"cardiomegaly": 1}]),
    "<table><tr><td>Pneumothorax</td><td>absent</td></tr><tr><td>Effusion</td><td>present</td>"
    "</tr></table><p>Heart is <b>enlarged</b></p>",
    "<pneumothorax>absent</pneumothorax><effusion>yes</effusion><heart>enlarged</heart>",
    r"{\rtf1\ansi{\fonttbl\f0 Arial;}\f0 {\b Pneumothorax:}\tab No\par Effusion: Yes\par "
    r"Cardiomegaly: Yes\par}",
    r"No pneumothorax\.br\There is effusion\.br\Cardiomegaly",
    "Pneumothorax: absent~Effusion: present~Cardiomegaly: present",
    "no pneumothorax\neffusion\ncardiomegaly",
    "NO PNEUMOTHORAX\nEFFUSION IS PRESENT\nHEART IS ENLARGED",
    "Absent: pneumothorax\nPresent: effusion, cardiomegaly",
    "+ Effusion\n- Pneumothorax\n+ Cardiomegaly",
    "EXAM: CXR\nINDICATION: cough\nPneumothorax: none\nEffusion: small, left\nCardiomegaly: yes",
    "Erguss: ja\nPneumothorax: nein\nKardiomegalie: leicht",
    "Épanchement : présent\nPneumothorax : absent\nCardiomégalie : oui",
    "Derrame pleural: sim\nPneumotórax: não\nCardiomegalia: discreta",
    "Negative for:\n- pneumothorax\n\nPositive findings:\n- effusion\n- cardiomegaly",
    "Pneumothorax\nNone\n\nEffusion:\nSmall, left\n\nCardiomegaly\nYes",
    "Is there a pneumothorax? No. Effusion? (Y/N) Y\nCardiomegaly: yes",
    "Finding\tPresent\tAbsent\nPneumothorax\t\tX\nEffusion\tX\t\nCardiomegaly\tX\t",
    "<input type=checkbox> Pneumothorax<br><input type=checkbox checked> Effusion<p>Heart enlarged",
    "<f name='Pneumothorax' value='no'/><f name='Effusion' value='yes'/><p>Cardiomegaly</p>",
    "Pneumothorax: no  Effusion: yes  Cardiomegaly: yes",
    "Pneumothorax (none/small/large): none\nEffusion grade: 2/3\nCardiomegaly [mild]",
    "-pneumothorax, +effusion, +cardiomegaly",
    "− Pneumothorax\nEffusion\nCardiomegaly",
    "Pneumothorax: no. Effusion: none on the right, small on the left. Heart: enlarged",
    "Ruled out: pneumothorax.\nEffusion - yes\nHeart - enlarged",
    "_X_ Effusion\n___ Pneumothorax\n_X_ Cardiomegaly",
    "Air leak / pneumothorax: no\nPleura - effusion: yes\nCor - cardiomegaly: yes",
    json.dumps([{"code": {"text": "Pneumothorax"}, "valueBoolean": False},
                {"code": {"text": "Effusion"}, "presence": {"coding": [{"display": "Present"}]}},
                {"code": {"text": "Cardiomegaly"}, "valueBoolean": True}]),
    "<label>PTX</label><select><option>Yes<option selected>No</select><p>Effusion<p>Heart enlarged",
    "CXR: No pneumothorax / Small effusion R / Cor enlarged",
    'Finding | Prior (1/2/2020) | Current (1/3/2021)\nPneumothorax | large | none\n'
    "Effusion | none | small\nCardiomegaly | - | yes",
    "Acc. no.  Date      PTX  Effusion  Cardiomegaly\n12345     1/2/2020  -    +         +",
    'Indication: r/o pneumothorax\nXR Chest PA:\nNo pneumothorax. Effusion. Cardiomegaly.',
    '<contains TEXT:(,,"Finding")="No pneumothorax.">\n<has CODE:(,,"Effusion")=(R1,SRT,"Yes")>\n'
    '<contains TEXT:(,,"Conclusion")="Cardiomegaly.">',
    # Tables, whichever way they lie.
    "Pneumothorax;Effusion;Cardiomegaly\nno;yes;yes",
    "PNEUMOTHORAX  EFFUSION  CARDIOMEGALY\nNEG           POS       POS",
    "finding,status,severity\npneumothorax,absent,\neffusion,present,small\ncardiomegaly,present,mild",
    "Finding            Present   Absent\nPneumothorax                    X\n"
    "Effusion              X\nCardiomegaly          X",
    "\tRight\tLeft\nPneumothorax\tnone\tnone\nEffusion\tnone\tsmall\n\nCardiomegaly: mild",
    "Finding\tPrior\tToday\nPneumothorax\tyes\tno\nEffusion\tno\tyes\nCardiomegaly\tyes\tyes",
    "Finding\tAbsent\nPneumothorax\tY\nEffusion\tN\nCardiomegaly\tN",
    "No. | Finding | Result\n1 | Pneumothorax | no\n2 | Effusion | yes\n3 | Cardiomegaly | yes",
    "Present | Absent\nEffusion | Pneumothorax\nCardiomegaly | ",
    "Pneumothorax | no | Effusion | yes\nCardiomegaly | yes | Hernia | n/a",
    "Pneumothorax ☐ yes ☒ no | Effusion ☒ yes ☐ no | Cardiomegaly ☒ yes ☐ no",
    "pneumothorax=no&pleural_effusion=yes&cardiomegaly=yes",
    # Legends.
    "Codes: 1 = no, 2 = yes.\nQ1. Pneumothorax: 1\nQ2. Effusion: 2\nQ3. Cardiomegaly: 2",
    "Key: ✓ present, ✗ absent\n✗ Pneumothorax\n✓ Effusion\n✓ Cardiomegaly",
    "Size (n/a = finding not present)\nPneumothorax: n/a\nEffusion: small\nCardiomegaly: mild",
    "Score, 0 (none) to 3 (severe): pneumothorax 0/3, effusion 2/3, cardiomegaly 1/3.",
    # Records, nested names and lists.
    "<r><f n='Pneumothorax'><is>no</is></f><f n='Effusion'><is>yes</is></f><h>Big heart</h></r>",
    json.dumps({"found": [{"id": 1, "name": "Pneumothorax", "present": False},
                {"name": "Effusion", "absent": False}], "positives": ["Cardiomegaly"]}),
    " > CODE: Pneumothorax = Absent\n > CODE: Effusion = Present\n > CODE: Cardiomegaly = Present",
    "OBX|1|CE|1^Pneumothorax||N^Absent|||F\rOBX|2|TX|1^TEXT||Effusion.\rOBX|3|TX|||Big heart.",
    "Finding: Pneumothorax; Status: absent\nFinding: Effusion; Status: present\nHeart enlarged.",
    "Findings not seen on this film:\n1. Pneumothorax\nFindings seen:\n1. Effusion\n2. Big heart",
    "<h3>Absent</h3><ul><li>Pneumothorax</ul><h3>Present</h3><ul><li>Effusion<li>Cardiomegaly</ul>",
    "All of the following are absent except effusion and cardiomegaly: pneumothorax, effusion.",
    # Sentences.
    "Is there a pneumothorax? No. Is the heart enlarged? Yes. Effusion? Yes.",
    "heart is enlarged period no pneumothorax period there is an effusion period",
    "Pneumothorax present: False\nEffusion present: True\nCardiomegaly absent: F",
    "There is no pneumo-\nthorax. There is an effu-\nsion. There is cardio-\nmegaly.",
    "Heart enlarged, no pneumothorax, no PTX, small left effusion",
    "PTX. Effusion. Cardiomegaly.\nERRATUM: \"Pneumothorax\" should read \"No pneumothorax\".",
    "EXAM: CHEST. HEART: ENLARGED. PLEURA: SMALL EFFUSION. NO PNEUMOTHORAX.",
    "WET READ: + CARDIOMEGALY, + EFFUSION. NO PTX.",
    "Nothing to suggest pneumothorax. The effusion has not resolved. Mild cardiomeg.",
    "INDICATON: Is there edema?\n\nFINDNGS: Effusion. No pneumothorax. Cardiomegaly.",
]  # fmt: skip


@pytest.mark.parametrize("report", FORMS)
def test_forms_of_reports(report: str) -> None:
    labels = label_report(one.sentence for one in study_sentences(Study("s", report)))
    said = {name: label.value for name, label in labels.items() if label.value is not None}
    assert said.pop(NO_FINDING) == 0
    assert said == {"Cardiomegaly": 1, "Pleural Effusion": 1, "Pneumothorax": 0}, SAID


@pytest.mark.parametrize(
    "value",
    [
        "see above",
        "n/a",
        "___",
        "limited view",
        "not assessed",
        "yes / no",
        "none/small/large",
        "2%",
        "0.03",
    ],
)
def test_nothing_is_affirmed_by_default(value: str) -> None:
    report = f"Pneumothorax: {value}\nHeart: normal"
    labels = label_report(one.sentence for one in study_sentences(Study("s", report)))
    assert labels["Pneumothorax"].value is None
    assert labels["Cardiomegaly"].value == 0
    assert labels[NO_FINDING].value is None
    assert wording(f"Pneumothorax: {value}") == "uncertain"


@pytest.mark.parametrize("colon", [":", " -"])
def test_a_denial_behind_an_organ_goes_on(colon: str) -> None:
    labels = label_report([f"Lungs{colon} No consolidation, effusion, or pneumothorax."])
    for name in ("Consolidation", "Pleural Effusion", "Pneumothorax"):
        assert labels[name].value == 0, name


@pytest.mark.parametrize("value", ["possible", "?", "cannot be excluded", "+/-"])
def test_a_value_may_be_uncertain(value: str) -> None:
    assert label_report([f"Pneumothorax: {value}"])["Pneumothorax"].value == -1


def test_wrapped_prose_stays_prose() -> None:
    text = (
        "There is an endotracheal tube with its tip above the carina and a small effusion on the\n"
        "left. No pneumothorax is seen. The heart is mildly enlarged as on the earlier film of\n"
        "January"
    )
    assert split_sentences(text) == [
        "There is an endotracheal tube with its tip above the carina and a small effusion on the "
        "left.",
        "No pneumothorax is seen.",
        "The heart is mildly enlarged as on the earlier film of January",
    ]
