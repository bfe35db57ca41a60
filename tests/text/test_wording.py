import re
import sys
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from cxrtext.text.labelling import sentence_labels
from cxrtext.text.rules import _GAP, LANGUAGES, language_of, rules
from cxrtext.text.sides import sided_parts
from cxrtext.text.wording import Wording, mentions, parts_of, wording

AFFIRMED = """
Small left pleural effusion.
There is mild cardiomegaly.
The heart is normal in size.
The lungs are clear.
Interval increase in the right pleural effusion.
No change in the right pleural effusion.
No significant interval change.
The opacity has not increased.
No significant improvement in the pulmonary edema.
Without significant change in the left pneumothorax.
Not only is there an effusion, but also edema.
Cardiomegaly without pulmonary edema.
Small effusion, no pneumothorax.
No pneumothorax, but there is a small right effusion.
There is no edema. The heart is enlarged.
No focal consolidation, however the heart is enlarged.
No acute disease except for a small left effusion.
Tip of the right internal jugular line in the SVC without pneumothorax.
Moderate effusion, which was not seen on the prior study.
No doubt there is a large effusion.
No effusion, and the heart is enlarged.
Pneumothorax has not resolved.
The effusion has nearly completely cleared.
Gram-negative pneumonia.
"""

NEGATED = """
No pneumothorax.
No pleural effusion or pneumothorax.
There is no evidence of acute cardiopulmonary disease.
No focal consolidation, pleural effusion, or pneumothorax is seen.
Without pleural effusion.
There is neither effusion nor pneumothorax.
Negative for pneumonia.
The lungs are free of focal infiltrate.
Pneumothorax is not seen.
No pneumothorax is identified.
Focal consolidation is absent.
The previously seen effusion has resolved.
Pneumothorax excluded.
Pneumothorax: negative.
Pneumothorax is no longer seen.
No longer any pneumothorax.
The heart is normal and there is no effusion.
No evidence to suggest pneumonia.
The pneumothorax has been ruled out.
Lungs are clear, no effusions.
There are no acute or suspicious findings.
Pleural effusions: none.
The patient denies chest pain.
No new opacity since the prior study.
NO PNEUMOTHORAX
The heart isn't enlarged.
Interval removal of the chest tube.
The visualized XXXX XXXX are intact without acute osseous abnormality.
No pneumonia, edema or effusion, and the lungs are clear.
"""

UNCERTAIN = """
Possible small left pleural effusion.
Pneumonia cannot be excluded.
A small effusion cannot be entirely excluded.
Cannot exclude pneumonia.
Opacity may represent atelectasis or pneumonia.
Findings suggestive of pneumonia.
Likely atelectasis.
Questionable nodule in the right apex.
Suspected pneumothorax.
Atelectasis versus pneumonia.
Concerning for pneumonia.
Pneumonia is unlikely.
No effusion, but possible consolidation at the left base.
Rule out pneumonia.
Borderline cardiomegaly.
? small left effusion
It is difficult to exclude a small pneumothorax.
No pneumothorax; pneumonia is possible.
"""

CASES: dict[Wording, str] = {"affirmed": AFFIRMED, "negated": NEGATED, "uncertain": UNCERTAIN}


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [(line, kind) for kind, lines in CASES.items() for line in lines.strip().splitlines()],
)
def test_wording(sentence: str, expected: Wording) -> None:
    assert wording(sentence) == expected


@pytest.mark.parametrize("sentence", ["", " ", "___"])
def test_text_without_a_word_has_a_wording(sentence: str) -> None:
    assert wording(sentence) == "affirmed"


@pytest.mark.parametrize(
    ("sentence", "affirmed", "denied"),
    [
        ("No pneumothorax or pleural effusion.", set(), {"pneumothorax", "effusion"}),
        ("Moderate edema without effusion.", {"moderate", "edema"}, {"effusion"}),
        ("Left effusion; no right effusion.", {"effusion"}, {"effusion"}),
        ("An effusion is not seen.", set(), {"effusion"}),
        ("Possible pneumonia.", set(), set()),
        ("Heart size normal.", set(), set()),
    ],
)
def test_each_word_is_affirmed_or_denied(
    sentence: str, affirmed: set[str], denied: set[str]
) -> None:
    assert mentions(sentence) == (affirmed, denied)


def _steps(work: Callable[[], object]) -> int:
    """How many lines of Python a piece of work runs, in all of its calls."""
    count = 0

    def tracer(*_: object) -> Any:
        nonlocal count
        count += 1
        return tracer

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize(
    "said", ["no/", "no effusion, ", "possible ", "no opacity is not seen but ", "old or new/"]
)
@pytest.mark.parametrize("read", [wording, mentions, sentence_labels.__wrapped__, sided_parts])
def test_work_grows_with_the_length_of_a_sentence(said: str, read: Callable[[str], object]) -> None:
    short, long = said * 100, said * 400
    for text in (short, long):
        language_of(text)  # remembered from here on
    assert _steps(lambda: read(long)) <= 5 * _steps(lambda: read(short))
    parts = parts_of(long)
    assert sum(end - start for start, end in parts.denied) <= len(parts.text)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_gap_is_looked_through_once(language: str) -> None:
    gap = re.compile(_GAP)
    assert sum(gap.match(" " * 1000, place) is not None for place in range(1000)) == 1
    ends = rules(language).patterns["clause_end"]
    plain = re.compile(ends.pattern.replace(_GAP, r",?\s+"), ends.flags)
    words = ["and with a", "likely", "mit leicht", "y con una", "x,", "x.", ",", ":", ";", "and is"]
    for one, other, blanks in product(words, words, range(1, 4)):
        text = f"x {one}{' ' * blanks}{other} x"
        assert [m.span() for m in ends.finditer(text)] == [m.span() for m in plain.finditer(text)]
