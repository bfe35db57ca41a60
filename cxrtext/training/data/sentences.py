"""Short sentences that training makes from the sentences of reports.

People ask in two words, such as "Pleural effusion" or "No edema", and prompts are as short; reports
say "Small right pleural effusion, new." or "No effusion or pneumothorax.".  A model trained only on
reports tells the long forms apart better than the short ones.  So each training study also gets, in
a section of their own, short sentences for the finding words that its report affirms and denies.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from cxrtext.defaults import DEFAULT_A, DEFAULT_K
from cxrtext.records import Sentence
from cxrtext.text.finding_words import DENIED, FindingWord, StudyWords, corpus_words

SECTION = "words"  # the section of these sentences; ``training.section_weights`` may name it
PLACES = ("pleural", "pulmonary", "lung", "rib", "cardiac", "hiatal", "focal")
"""Words that belong to a finding's name if they often come before it."""
OFTEN = 0.25  # share of a word's occurrences that counts as often
_WORD = re.compile(r"[a-z][a-z-]*")


def study_words(sentences: Iterable[Sentence]) -> dict[str, StudyWords]:
    by_study: dict[str, list[str]] = defaultdict(list)
    for one in sentences:
        by_study[one.study_id].append(one.sentence)
    return dict(zip(by_study, corpus_words(by_study.values()), strict=True))


def short_sentences(
    studies: Mapping[str, StudyWords], words: Sequence[FindingWord], sentences: Iterable[Sentence]
) -> list[Sentence]:
    """A short sentence for each finding word that a study affirms or denies.

    Words that hardly any report denies, and words for one side, make none.  The class probability
    is that of SSD section 2.3, ``a · p^k``, with the share of studies that say the same instead of
    the language model's likelihood.  ``sentences`` show what comes before a word.  The result is in
    section :data:`SECTION`, in the order of studies and words.
    """
    names = _names(words, {one.sentence for one in sentences})
    total = max(1, len(studies))
    pairs: list[tuple[str, str]] = []
    for word in words:
        denied = [name for name, said in studies.items() if said.denies(word)]
        if word.side or len(denied) < DENIED * total:
            continue
        name = names[word.name]
        pairs += [
            (study, f"{name[0].upper()}{name[1:]}.")
            for study, said in studies.items()
            if said.affirms(word)
        ]
        pairs += [(study, f"No {name}.") for study in denied]
    shares = Counter(sentence for _, sentence in pairs)
    own: dict[str, list[str]] = defaultdict(list)
    for study, sentence in pairs:
        own[study].append(sentence)
    return [
        Sentence(
            study,
            SECTION,
            position,
            sentence,
            eta=DEFAULT_A * (shares[sentence] / total) ** DEFAULT_K,
        )
        for study in studies
        for position, sentence in enumerate(own[study])
    ]


def _names(words: Sequence[FindingWord], sentences: Iterable[str]) -> dict[str, str]:
    """The names of findings: the word, with what often comes before it ("pleural effusion")."""
    of = {form: word.name for word in words if not word.side for form in word.forms}
    before: dict[str, Counter[str]] = {name: Counter() for name in of.values()}
    for sentence in sentences:
        words_said = _WORD.findall(sentence.lower())
        for first, second in zip(["", *words_said], words_said, strict=False):
            if second in of:
                before[of[second]][first] += 1
    names = {}
    for name, counts in before.items():
        often = [one for one in PLACES if counts[one] and counts[one] >= OFTEN * counts.total()]
        place = max(often, key=counts.__getitem__, default="")
        names[name] = f"{place} {name}".strip()
    return names
