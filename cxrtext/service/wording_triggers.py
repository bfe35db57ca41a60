"""The words that deny, that doubt, and that only seem to; where a clause ends; empty words."""

import re

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
    """A pattern of any of the phrases, one a line; a name in capitals stands for its words."""
    lines = [line.strip() for line in phrases.strip().splitlines()]
    pattern = rf"\b(?:{'|'.join(lines)})\b"
    for name, words in _PARTS.items():
        pattern = re.sub(rf"\b{name}\b", f"(?:{words})", pattern)
    return pattern


# They look like a denial or a doubt and are none.
PSEUDO = re.compile(
    _any(
        r"""
        not (?:only|just|necessarily|simply|merely)
        (?:no|without|not) (?:\w+ ){0,2}?(?:interval )?changes?
        (?:no|without) (?:\w+ ){0,2}?LESS
        (?:has|have|had|is|are) not (?:\w+ )?MOVED
        not (?:\w+ )?MOVED
        no (?:further|additional|other|more) (?:\w+ )?than
        no doubt
        without (?:any )?(?:doubt|question|difficulty)
        gram[- ]negative
        no\. ?\d+
        (?:cannot|can not) be overlooked
        status post removal of \w+
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
        (?:is|are) not (?:entirely |completely )?excluded?
        without excluding
        (?:to )?rule out
        r/o
        (?:may|might|could|can) (?:\w+ ){0,2}?MEAN
        (?:would|must) be considered
        should be considered
        maybe
        perhaps
        possib(?:le|ly|ility)
        potential(?:ly)?
        probab(?:le|ly|ility)
        (?<!un)likely
        unlikely
        presum(?:ed|ably|ptive)
        questionabl[ey]
        (?:in )?question(?: of)?
        equivocal
        indeterminate
        uncertain
        unclear (?:if|whether|etiology)
        not certain
        suspect(?:ed|s)?
        suspicio(?:us|n)
        suggest(?:s|ed|ing|ive|ion)?
        concern(?:ing|s)?(?: for| of)
        worrisome
        raises? (?:\w+ )?(?:concern|question|possibility|suspicion)
        versus
        vs\.?
        (?:differential|ddx)
        consider(?:ation)?
        borderline
        if (?:clinically|there)
        """
    )
    + r"|\?(?=\s*\w)",
    _FLAGS,
)

# "no evidence to suggest": the doubt is itself denied, and stands in the scope of "no".
BEFORE = re.compile(
    _any(
        r"""
        no longer
        no
        none
        not
        nor
        neither
        never
        without
        w/o
        absence of
        absent
        lack(?:s|ing)?(?: of)?
        negative(?: for)?
        free of
        clear of
        den(?:y|ies|ied)
        fails? to (?:show|reveal|demonstrate)
        (?:isn't|aren't|wasn't|weren't|doesn't|don't|hasn't|haven't)
        (?:rules?|ruled|excludes?) out
        resolution of
        (?:interval |complete )removal of
        """
    ),
    _FLAGS,
)
AFTER = re.compile(
    _any(
        r"""
        (?:is|are|was|were|been) (?:\w+ )?(?:absent|excluded|ruled out)
        (?:is|are|was|were) (?:\w+ )?not (?:\w+ )?SEEN
        not (?:\w+ )?SEEN
        (?:has|have|had) (?:\w+ )?(?:resolved|cleared|disappeared)
        (?:is|are|was|were) (?:\w+ )?no longer(?: \w+)?
        (?:has|have) been (?:\w+ )?removed
        (?:is|are) negative
        absent
        resolved
        :? none(?: seen| identified)?
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
