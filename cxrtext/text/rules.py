"""The words and phrases for reading reports, one file per language in ``languages/``.

A sentence is English unless something speaks for another language.  Sentences in languages without
a file are not read; ``languages/others.yaml`` has the words by which they are recognized.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Literal, get_args
from unicodedata import normalize

from cxrtext.errors import ConfigError
from cxrtext.files.yaml_text import read_own

LANGUAGES = ("en", "de", "es", "fr", "pt")
LETTER = r"[^\W\d_]"
WORD = re.compile(rf"{LETTER}(?:{LETTER}|['/-])*")

_FLAGS = re.IGNORECASE
_LETTERS = re.compile(f"{LETTER}+")
_FOREIGN = re.compile("[\u0370-\u1dff\u2e80-\ud7ff\uf900-\ufdff\uff66-\uffdc]+")
# "-ve", and the values that signs in a layout become.
_IN_ANY = re.compile(r"(?<![\w-])[+−–-] ?ve\b|(?<=\w: )(?:yes|no)$", _FLAGS)
_NEVER = "(?!)"
_SPELT = {"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "œ": "oe", "æ": "ae"}
_GAP = r"(?:,|(?<!\s)|(?<=\.\s))\s+"
"""Like ``,?\\s+``, but a long gap is scanned once, not from each of its blanks."""


@dataclass(frozen=True)
class Opposites:
    """Words in pairs of opposites: left and right, upper and lower."""

    pattern: re.Pattern[str]
    pairs: Mapping[str, tuple[str, str]]  # by word: the name of its meaning, and its opposite

    def named(self, text: str) -> set[str]:
        return {self.pairs[match.lower()][0] for match in self.pattern.findall(text)}

    def exchanged(self, text: str) -> str:
        """The text with each word replaced by its opposite, in the word's case."""
        return self.pattern.sub(lambda m: cased(self.pairs[m[0].lower()][1], m[0]), text)


def cased(word: str, like: str) -> str:
    """A word in the case of another, such as LEFT, Left or left."""
    if like.isupper():
        return word.upper()
    return word.capitalize() if like[0].isupper() else word.lower()


Answer = Literal["unknown", "uncertain", "absent", "present"]
"""What a field's value says about its finding; "unknown" means that nobody looked."""
# Signs that mean the same in every language; "0" and "1" are values in tables.
_GRADE = r"(?:(?:grade|score|stage|level|severity|grad|stufe|grado|stade|grau)\s*)?"
_SIGNS: Mapping[Answer, str] = {
    "unknown": r"n/a",
    "uncertain": r"[?±]|\+/-|\(\?\)",
    "absent": rf"[-−–—]+(?=\W*$)|\(-\)|{_GRADE}0(?![.,]?\d)(?:\s?/\s?\d|\s?%)?|[☐✗✘❌∅⌀ø]|no",
    "present": rf"\++\d?|{_GRADE[:-1]}[IV]{{1,3}}|{_GRADE}[1-4](?![.,]?\d|\s?%)(?:\+|\s?/\s?\d)?"
    r"|\d+(?:[.,]\d+)? ?(?:x|cm|mm|ml)|[☑☒✓✔✅]|\(\+\)|x|yes",
}


@dataclass(frozen=True)
class Rules:
    """The rules for the sentences of one language; its file explains each."""

    patterns: Mapping[str, re.Pattern[str]]
    words: Mapping[str, frozenset[str]]
    sides: Opposites
    levels: Opposites
    findings: Mapping[str, re.Pattern[str]]  # the phrases that name each finding
    ruled_out: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]  # statements, with the findings
    prompts: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]
    comparing: Mapping[str, re.Pattern[str]]  # changes of a finding since an earlier film
    answers: Mapping[Answer, re.Pattern[str]]  # the values of a field, by what they say
    lists: Mapping[Answer, re.Pattern[str]]  # headings of a list, by what they say about it
    prose: Mapping[Answer, str]  # the words that say the same before a field's name


_PHRASES = (
    *("pseudo", "uncertain", "before", "after", "limited", "left", "both", "one_sided"),
    *("aside", "forward", "normal", "corrects", "retracts", "a_side"),
)
_ALTERNATIVES = ("clause_end", "apart")
_WORDS = ("function_words", "empty", "stop", "seldom_denied", "qualifiers")


@cache
def _file(language: str) -> dict[str, Any]:
    if language not in LANGUAGES:
        raise ConfigError(f"language '{language}' is not one of: {', '.join(LANGUAGES)}")
    content: dict[str, Any] = read_own(Path(__file__).with_name("languages") / f"{language}.yaml")
    return content


def headings(language: str) -> dict[str, tuple[str, ...]]:
    """The headings of each section, in small letters."""
    listed = _file(language)["headings"].items()
    return {name: tuple(sorted(_typed(some.split(" | ")))) for name, some in listed}


@cache
def words_of(language: str) -> Mapping[str, frozenset[str]]:
    """The words of :attr:`Rules.words`, without compiling a pattern."""
    words = {name: _typed(_file(language)[name].split()) for name in _WORDS}
    return words | {"known": words["function_words"] | words["empty"]}


@cache
def rules(language: str) -> Rules:
    content = _file(language)
    parts = content["parts"]

    def phrases(text: str) -> re.Pattern[str]:
        return re.compile(_any(text, parts), _FLAGS)

    patterns = {name: phrases(content.get(name, "")) for name in _PHRASES}
    # "?pneumonia" is a doubt in every language.
    patterns["uncertain"] = re.compile(_any(content["uncertain"], parts) + r"|\?(?=\s*\w)", _FLAGS)
    for name in _ALTERNATIVES:
        ends = content[name].replace("\n,?\\s+", f"\n{_GAP}").split("\n")[:-1]
        patterns[name] = re.compile("|".join(ends), _FLAGS)
    findings = content["findings"]
    named = {name: one["named"] for name, one in findings.items() if "named" in one}
    triggers = (content[name] for name in ("own", "before", "after", "uncertain", "aside"))
    words_of_values = content["answers"].values()
    patterns["own"] = phrases("\n".join([*triggers, *words_of_values, *named.values()]))
    return Rules(
        patterns,
        words_of(language),
        _opposites(content["sides"], "left", "right"),
        _opposites(content["levels"], "upper", "lower"),
        {name: phrases(text) for name, text in named.items()},
        tuple((phrases(one["says"]), tuple(one["of"].split(", "))) for one in content["ruled_out"]),
        {
            name: (tuple(one["prompts"]["positive"]), tuple(one["prompts"]["negative"]))
            for name, one in findings.items()
        },
        {name: phrases(text) for name, text in content["comparing"].items()},
        {
            name: re.compile(
                rf"(?:{_SIGNS[name]}|{_any(content['answers'][name], parts)})(?!\w)", _FLAGS
            )
            for name in get_args(Answer)
        },
        {name: phrases(text) for name, text in content["lists"].items()},
        content["prose"],
    )


def _any(phrases: str, parts: Mapping[str, str]) -> str:
    """A pattern for any of the phrases, which are divided by two blanks or a line break."""
    listed = re.split(r"\n\s*|  +", _unaccented(phrases.strip()))
    return _named(rf"\b(?:{'|'.join(listed)})\b", parts) if phrases else _NEVER


def _typed(words: Iterable[str]) -> frozenset[str]:
    """Words, and the same without their accents."""
    bare = (re.sub("[\u0300-\u036f]", "", normalize("NFD", one)) for one in words if len(one) > 2)
    return frozenset([*words, *bare])


def _unaccented(pattern: str) -> str:
    """A pattern that also finds its words without accents: capitals are often typed so."""

    def either(match: re.Match[str]) -> str:
        letter = match[0]
        spelt = [letter, normalize("NFD", letter)[0], *_SPELT.get(letter, "").split()]
        return letter if letter[0] == "[" else f"(?:{'|'.join(dict.fromkeys(spelt))})"

    return re.sub(r"\[[^\]]*\]|[ß-ÿœ]", either, pattern)


def _named(pattern: str, parts: Mapping[str, str]) -> str:
    """A pattern with each name in capitals replaced by its words."""
    for name, words in parts.items():
        pattern = f"(?:{_unaccented(words)})".join(re.split(rf"\b{name}\b", pattern))
    return pattern


def _opposites(pairs: Iterable[Mapping[str, str]], one: str, other: str) -> Opposites:
    patterns, words = [_NEVER], dict[str, tuple[str, str]]()
    for pair in pairs:
        a, b = pair[one], pair[other]
        before, after = pair.get("before", r"\b"), pair.get("after", "")
        patterns.append(rf"{before}(?:{a}|{b})(?={after}\b)")
        words |= {a.lower(): (one, b), b.lower(): (other, a)}
    return Opposites(re.compile("|".join(patterns), _FLAGS), words)


@cache
def _others() -> Mapping[str, frozenset[str]]:
    content = read_own(Path(__file__).with_name("languages") / "others.yaml")
    return {language: frozenset(words.split()) for language, words in content.items()}


@lru_cache(maxsize=50_000)
def language_of(sentence: str) -> str:
    """The language of :data:`LANGUAGES` with most words of a sentence.

    If several have equally many, the one that names more findings, else the first.  "" if more
    words belong to another language, or most letters are not Latin.  Function words and anatomy are
    counted; if these do not decide, also denials and findings.
    """
    letters = _LETTERS.findall(sentence.lower())
    if 2 * sum(map(len, _FOREIGN.findall(sentence))) > sum(map(len, letters)):
        return ""
    sentence = _IN_ANY.sub("", sentence)
    words = set(_LETTERS.findall(sentence.lower()))
    counts = {one: len(words & words_of(one)["known"]) for one in LANGUAGES}
    if counts["en"] < 2 or sum(counts.values()) > counts["en"]:
        for one in LANGUAGES:
            counts[one] += len(rules(one).patterns["own"].findall(sentence))
    most = max(counts.values())
    equal = [one for one in LANGUAGES if counts[one] == most]
    best = max(equal, key=lambda one: _named_in(sentence, one)) if len(equal) > 1 else equal[0]
    others = (sum(not is_answer(word) for word in words & some) for some in _others().values())
    return "" if max(others, default=0) > len(words & words_of(best)["known"]) else best


def _named_in(sentence: str, language: str) -> int:
    return sum(bool(one.search(sentence)) for one in rules(language).findings.values())


def rules_of(sentence: str) -> Rules:
    """The rules of a sentence's language; English ones if its language has none."""
    return rules(language_of(sentence) or "en")


def answer(value: str, own: Rules) -> tuple[Answer, int] | None:
    """What a field's value says first, and where that ends; None if it is not understood."""
    for kind, pattern in own.answers.items():
        if match := pattern.match(value):
            return kind, match.end()
    return None


def every() -> list[Rules]:
    return [rules(language) for language in LANGUAGES]


@lru_cache(maxsize=10_000)
def kind_of(text: str) -> Answer | None:
    """What a text says as the value of a field, in any language; None if it says anything else."""
    value = text.strip().strip(" .*\"'()[]") or text.strip()
    kinds = (kind for own in every() for kind, one in own.answers.items() if one.fullmatch(value))
    return next(kinds, None) if value else None


def is_answer(text: str) -> bool:
    return kind_of(text) is not None


def denied(value: str) -> str:
    """The value for a finding, from the value for its absence ("No effusion: yes")."""
    return {"present": "no", "absent": "yes"}.get(kind_of(value) or "", "n/a")


@cache
def words_in_any(name: str) -> frozenset[str]:
    """The words of a kind in all languages together."""
    return frozenset[str]().union(*(words_of(language)[name] for language in LANGUAGES))


def prompts_for(
    language: str, findings: Iterable[str]
) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    """Sentences for zero-shot classification: several for a finding, and several for its absence.

    Findings that the language's file does not name are left out (ConfigError: no such language).
    """
    known = rules(language).prompts
    return {name: known[name] for name in findings if name in known}
