"""How a sentence of a report puts what it says: as there, as not there, or as uncertain.

:func:`wording` says it of the sentence, :func:`mentions` of each of its words.

A short list of rules in the manner of NegEx: a trigger ("no", "is not seen", "cannot be excluded")
governs a part of its clause.  What is left outside the parts that are denied decides.  The rules
look at words alone: "The lungs are clear." is affirmed, for it denies nothing.

Source: Chapman et al. 2001 (NegEx); Peng et al. 2018 (NegBio), for the triggers of uncertainty.
"""

import re
from typing import Literal

_FLAGS = re.IGNORECASE

_SEEN = (
    "seen|identified|present|evident|noted|appreciated|visible|visuali[sz]ed|demonstrated"
    "|detected|apparent|observed|found|shown"
)
_MOVED = "changed|increased|decreased|improved|worsened|progressed|moved"
_LESS = "increase|decrease|improvement|progression|worsening|difference"
_MEAN = "be|represent|reflect|indicate|suggest|relate|correspond|signify|have|account|mask|obscure"
_BEFORE_THIS = "prior|previous|last|earlier|preceding|old|comparison|outside"
_PARTS = {"SEEN": _SEEN, "MOVED": _MOVED, "LESS": _LESS, "MEAN": _MEAN, "EARLIER": _BEFORE_THIS}


def _any(phrases: str) -> str:
    """A pattern of any of the phrases; a name in capitals stands for its words.

    Phrases are set apart by two blanks or a line break.
    """
    found = re.split(r"\n\s*|  +", phrases.strip())
    pattern = rf"\b(?:{'|'.join(found)})\b"
    for name, words in _PARTS.items():
        pattern = re.sub(rf"\b{name}\b", f"(?:{words})", pattern)
    return pattern


# They look like a denial or a doubt and are none.
PSEUDO = re.compile(
    _any(
        r"""
        not (?:only|just|necessarily|simply|merely)
        (?:no|without|not) (?:\w+ ){0,2}?(?:interval )?changes?  (?:no|without) (?:\w+ ){0,2}?LESS
        (?:has|have|had|is|are) not (?:\w+ )?MOVED  not (?:\w+ )?MOVED
        no (?:further|additional|other|more) (?:\w+ )?than  no doubt
        without (?:any )?(?:doubt|question|difficulty)  gram[- ]negative  no\. ?\d+
        (?:cannot|can not) be overlooked  status post removal of \w+
        (?:not|nearly|almost|largely|part(?:ial)?ly|incompletely) (?:\w+ )?(?:resolved|cleared)
        not SEEN (?:on|in|at) (?:the |any |a )?(?:\w+ )?EARLIER
        """
    ),
    _FLAGS,
)

UNCERTAIN = re.compile(
    _any(
        r"""
        (?:cannot|can not|can't|not) (?:\w+ )?(?:be )?(?:\w+ )?(?:excluded?|ruled? out)
        (?:difficult|hard|unable|impossible) to (?:\w+ )?(?:exclude|rule out|assess|evaluate)
        not (?:entirely|completely|definitely|definitively) (?:excluded?|ruled? out)
        (?:is|are) not (?:entirely |completely )?excluded?  without excluding  (?:to )?rule out  r/o
        (?:may|might|could|can) (?:\w+ ){0,2}?MEAN  (?:would|must) be considered
        should be considered  maybe  perhaps  possib(?:le|ly|ility)  potential(?:ly)?
        probab(?:le|ly|ility)  (?<!un)likely  unlikely  presum(?:ed|ably|ptive)  questionabl[ey]
        (?:in )?question(?: of)?  equivocal  indeterminate  uncertain
        unclear (?:if|whether|etiology)  not certain  suspect(?:ed|s)?  suspicio(?:us|n)
        suggest(?:s|ed|ing|ive|ion)?  concern(?:ing|s)?(?: for| of)  worrisome
        raises? (?:\w+ )?(?:concern|question|possibility|suspicion)  versus  vs\.?
        (?:differential|ddx)  consider(?:ation)?  borderline  if (?:clinically|there)
        """
    )
    + r"|\?(?=\s*\w)",
    _FLAGS,
)

# "no evidence to suggest": the doubt is itself denied, and stands in the scope of "no".
BEFORE = re.compile(
    _any(
        r"""
        no longer  no  none  not  nor  neither  never  without  w/o  absence of  absent
        lack(?:s|ing)?(?: of)?  negative(?: for)?  free of  clear of  den(?:y|ies|ied)
        fails? to (?:show|reveal|demonstrate)
        (?:isn't|aren't|wasn't|weren't|doesn't|don't|hasn't|haven't)  (?:rules?|ruled|excludes?) out
        resolution of  (?:interval |complete )removal of
        """
    ),
    _FLAGS,
)
AFTER = re.compile(
    _any(
        r"""
        (?:is|are|was|were|been) (?:\w+ )?(?:absent|excluded|ruled out)
        (?:is|are|was|were) (?:\w+ )?not (?:\w+ )?SEEN  not (?:\w+ )?SEEN
        (?:has|have|had) (?:\w+ )?(?:resolved|cleared|disappeared)
        (?:is|are|was|were) (?:\w+ )?no longer(?: \w+)?  (?:has|have) been (?:\w+ )?removed
        (?:is|are) negative  absent  resolved  :? none(?: seen| identified)?
        (?::|(?<=\w)) (?:excluded|ruled out|negative)(?=\W*$)
        """
    ),
    _FLAGS,
)

CLAUSE_END = re.compile(
    r";|:(?=\s)|\.\s"
    r"|,?\s+(?:but|however|although|though|yet|except(?:\s+for)?|apart\s+from|aside\s+from|other\s+than"
    r"|with\s+the\s+exception\s+of|whereas|while|despite|because|which|besides|still)\b"
    r"|,\s+(?:and\s+)?(?:there|this|these|the)\s+(?:\w+\s+){0,4}?(?:is|are|was|were|has|have|remains?)\b"
    r"|,?\s+(?:and|with)\s+(?:there\s+(?:is|are)|unchanged|stable|persistent|residual|mild|moderate"
    r"|severe|small|minimal|trace)\b"
    # "and the lungs are hyperinflated", but not "and pneumothorax are seen"
    r"|,?\s+and\s+(?:[\w-]+\s+){1,6}?(?:is|are|has|have)\b(?!\s+(?:seen|identified|noted|found))"
    r"|,?\s+with\s+(?:a|an)\b|,\s+with\b"
    r"|,?\s+(?:likely|probably|possibly|presumably|secondary\s+to|due\s+to|consistent\s+with"
    r"|compatible\s+with|representing)\b",
    _FLAGS,
)

# Words that assert no finding by themselves: they may stand beside a denial.
_EMPTY = """
    a an and or the of in on at to for with by from as is are was were be been being has
    have had there this that these those it its which no not nor both either any all each
    also again still now today currently presently however but otherwise overall
    specifically seen identified noted evident present visible visualized visualised
    demonstrated appreciated detected apparent observed found shown evidence sign signs
    finding findings appearance suggestion exam examination study film image images view
    views radiograph radiographs radiography projection projections portable chest lung
    lungs pulmonary pleural pleura space spaces heart cardiac mediastinum mediastinal
    silhouette contour contours hilum hila hilar bone bones bony osseous skeletal structures
    thorax thoracic rib ribs spine soft tissue tissues diaphragm hemidiaphragm
    hemidiaphragms costophrenic cardiophrenic angle angles field fields zone zones lobe
    lobes base bases apex apices region regions area areas side sides size shape left right
    bilateral bilaterally upper lower middle mid lateral medial anterior posterior apical
    basal basilar within normal clear unremarkable intact sharp midline limits grossly
    stable unchanged well aerated expanded inflated well-aerated well-expanded well-inflated
    normally cardiomediastinal cardiopulmonary vascularity vasculature volume volumes
    trachea aorta aortic arch border borders remain remains appear appears appearing acute
    significant definite definitive obvious gross large new interval prior previous
    comparison compared since patient impression conclusion summary central peripheral
    demonstrate demonstrates show shows reveal reveals
    """
EMPTY = frozenset(re.findall(r"\S+", _EMPTY))


Wording = Literal["affirmed", "negated", "uncertain"]

_WORD = re.compile(r"[A-Za-z][A-Za-z'/-]*")


def wording(sentence: str) -> Wording:
    """Say how a sentence puts what it says.

    Returns:
        "uncertain" where any of it is hedged ("possible", "may represent", "cannot be excluded"),
        but for what is hedged inside a denial ("no evidence to suggest"); "negated" where all that
        it names is denied, anatomy and words like "normal" apart; else "affirmed".
    """
    text, plain, denied, hedged = _parts(sentence)
    if hedged:
        return "uncertain"
    if not denied:
        return "affirmed"
    left = _WORD.findall(_blanked(plain, denied))
    return "affirmed" if "~" in text or any(_asserts(word) for word in left) else "negated"


def mentions(sentence: str) -> tuple[set[str], set[str]]:
    """The words of a sentence, in lower case: those that it affirms, and those that it denies.

    Words without a finding of their own (articles, anatomy, "normal") and those of a sentence that
    hedges are in neither; a word that is affirmed in one clause and denied in another is in both.
    """
    _, plain, denied, hedged = _parts(sentence)
    if hedged:
        return set(), set()
    left = _blanked(plain, denied)
    inside = " ".join(BEFORE.sub(" ", AFTER.sub(" ", plain[a:b])) for a, b in denied)
    affirmed, absent = (
        {word.lower() for word in _WORD.findall(part) if _asserts(word)} for part in (left, inside)
    )
    return affirmed, absent


def _parts(sentence: str) -> tuple[str, str, list[tuple[int, int]], bool]:
    """A sentence in parts.

    They are the text with false triggers masked, the same without hedges, what of it is denied, and
    whether a hedge lies outside of that.
    """
    text = PSEUDO.sub(lambda match: "~" * len(match[0]), " ".join(sentence.split()))
    hedges = [match.span() for match in UNCERTAIN.finditer(text)]
    plain = _blanked(text, hedges)
    denied = _denied(plain)
    hedged = any(not any(a <= start < b for a, b in denied) for start, _ in hedges)
    return text, plain, denied, hedged


def _asserts(word: str) -> bool:
    # De-identification leaves XXXX for a word that it took.
    return word.lower() not in EMPTY and word.strip("X") != ""


def _blanked(text: str, spans: list[tuple[int, int]]) -> str:
    """A text with blanks for some parts of it, as long as before."""
    for start, end in spans:
        text = text[:start] + " " * (end - start) + text[end:]
    return text


def _denied(text: str) -> list[tuple[int, int]]:
    """The parts of a text that a trigger denies, triggers included."""
    ends = [match.start() for match in CLAUSE_END.finditer(text)]
    starts = [match.end() for match in CLAUSE_END.finditer(text)]
    spans = []
    after = [match.span() for match in AFTER.finditer(text)]
    for begin, end in after:
        spans.append((max((place for place in starts if place <= begin), default=0), end))
    for match in BEFORE.finditer(text):
        if any(begin <= match.start() < end for begin, end in after):
            continue
        stop = min((place for place in ends if place >= match.end()), default=len(text))
        spans.append((match.start(), stop))
    return spans
