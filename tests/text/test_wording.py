import sys
from collections.abc import Callable
from typing import Any

import pytest

from cxrtext.text.labelling import sentence_labels
from cxrtext.text.rules import language_of
from cxrtext.text.sides import sided_parts
from cxrtext.text.wording import Wording, mentions, parts_of, wording

AFFIRMED = """
Small left pleural effusion.
The heart is normal in size.
No change in the right pleural effusion.
The opacity has not increased.
No significant improvement in the pulmonary edema.
Not only is there an effusion, but also edema.
Cardiomegaly without pulmonary edema.
No focal consolidation, however the heart is enlarged.
No acute disease except for a small left effusion.
Tip of the right internal jugular line in the SVC without pneumothorax.
Moderate effusion, which was not seen on the prior study.
No doubt there is a large effusion.
The effusion has nearly completely cleared.
Pneumothorax has not resolved.
Gram-negative pneumonia.
"""

NEGATED = """
No pleural effusion or pneumothorax.
No focal consolidation, pleural effusion, or pneumothorax is seen.
There is neither effusion nor pneumothorax.
Negative for pneumonia.
Pneumothorax is not seen.
The previously seen effusion has resolved.
Pneumothorax: negative.
No longer any pneumothorax.
No evidence to suggest pneumonia.
Pleural effusions: none.
The pneumothorax has been ruled out.
The patient denies chest pain.
No new opacity since the prior study.
The heart isn't enlarged.
Interval removal of the chest tube.
The visualized XXXX XXXX are intact without acute osseous abnormality.
No pneumonia, edema or effusion, and the lungs are clear.
"""

UNCERTAIN = """
Possible small left pleural effusion.
A small effusion cannot be entirely excluded.
Opacity may represent atelectasis or pneumonia.
Likely atelectasis.
Atelectasis versus pneumonia.
Pneumonia is unlikely.
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
