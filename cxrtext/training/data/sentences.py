"""Sentences that training makes of those of reports: short ones, and turned ones, which are false.

People ask in two words, such as "Pleural effusion" or "No edema", and prompts are as short; reports
say "Small right pleural effusion, new.", or "No effusion or pneumothorax.".  A model that has read
reports alone tells the long forms apart better than the short ones.  So each training study also
says, in a section of its own, the words of findings that its report affirms and denies.

A turned sentence has one thing in it turned over (:mod:`cxrtext.text.turning`).  It says what its
own image does not show, so it is one more candidate of its anchor, and a hard one: it differs in a
word.  Source: Yuksekgonul et al. 2023 (when and why vision-language models behave like bags of
words), for negatives made of the caption's own words; the rules, and the form for sentences as
anchors, are ours.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from cxrtext.defaults import DEFAULT_A, DEFAULT_K
from cxrtext.errors import DataError
from cxrtext.records import Sentence
from cxrtext.text.finding_words import DENIED, FindingWord, StudyWords, corpus_words
from cxrtext.text.turning import false_of
from cxrtext.training.data.loader import Examples

SECTION = "words"  # the section of these sentences; ``training.section_weights`` may name it
PLACES = ("pleural", "pulmonary", "lung", "rib", "cardiac", "hiatal", "focal")
"""Words that belong to the name of a finding where they often stand before it."""
OFTEN = 0.25  # share of a word's occurrences
_WORD = re.compile(r"[a-z][a-z-]*")


def study_words(sentences: Iterable[Sentence]) -> dict[str, StudyWords]:
    said: dict[str, list[str]] = defaultdict(list)
    for one in sentences:
        said[one.study_id].append(one.sentence)
    return dict(zip(said, corpus_words(said.values()), strict=True))


def short_sentences(
    studies: Mapping[str, StudyWords], words: Sequence[FindingWord], sentences: Iterable[Sentence]
) -> list[Sentence]:
    """What studies say of findings, a short sentence each.

    A word that hardly any report denies, and one of a single side, makes none.  The class
    probability is that of SSD section 2.3 with the share of studies that say the same in place of
    the language model's likelihood: ``a · p^k``.
    ``sentences`` tell what stands before a word; those made are of the section :data:`SECTION`, in
    the order of studies and words.
    """
    names = _names(words, {one.sentence for one in sentences})
    total = max(1, len(studies))
    found: list[tuple[str, str]] = []
    for word in words:
        denied = [name for name, said in studies.items() if said.denies(word)]
        if word.side or len(denied) < DENIED * total:
            continue
        name = names[word.name]
        found += [
            (study, f"{name[0].upper()}{name[1:]}.")
            for study, said in studies.items()
            if said.affirms(word)
        ]
        found += [(study, f"No {name}.") for study in denied]
    shares = Counter(sentence for _, sentence in found)
    own: dict[str, list[str]] = defaultdict(list)
    for study, sentence in found:
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
    """What a finding is called: its word, with what often stands before it ("pleural effusion")."""
    of = {form: word.name for word in words if not word.side for form in word.forms}
    before: dict[str, Counter[str]] = {name: Counter() for name in of.values()}
    for sentence in sentences:
        said = _WORD.findall(sentence.lower())
        for first, second in zip(["", *said], said, strict=False):
            if second in of:
                before[of[second]][first] += 1
    names = {}
    for name, counts in before.items():
        often = [one for one in PLACES if counts[one] and counts[one] >= OFTEN * counts.total()]
        place = max(often, key=counts.__getitem__, default="")
        names[name] = f"{place} {name}".strip()
    return names


def with_turned_forms(
    examples: Examples, turns: Sequence[str], tokenize: Callable[[list[str]], list[list[int]]]
) -> Examples:
    """Examples with turned forms of their sentences behind: ``mirrored``, ``denied``, or both."""
    forms: list[tuple[str, ...]] = [()] * len(examples.texts)
    for study in {tuple(own.tolist()): None for own in examples.sentences}:
        report = [examples.texts[i].sentence for i in study]
        for i, own in zip(study, false_of(report, turns), strict=True):
            forms[i] = own
    if not (distinct := list(dict.fromkeys(form for own in forms for form in own))):
        raise DataError(
            f"training.hard_sentences: none of the {len(forms)} training sentences has a form "
            f"that is {' or '.join(turns)}: the rules are for English reports; remove the key"
        )
    place = {form: len(examples.tokens) + row for row, form in enumerate(distinct)}
    return replace(
        examples,
        tokens=[*examples.tokens, *tokenize(distinct)],
        turned=[np.asarray([place[form] for form in own], dtype=np.int64) for own in forms],
    )
