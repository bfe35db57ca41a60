"""Statements such as ``Pneumothorax: absent`` put as prose, which the rules of sentences read.

A value says that a finding is there, that it is not, or that it is uncertain; a finding whose value
is not understood is taken out of the sentence, so that nothing is affirmed by default.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from cxrtext.text.rules import LANGUAGES, WORD, Answer, Rules, answer, language_of, rules, rules_of

UNREAD = "·"
"""Stands for each letter of what is not understood."""
LONGEST_NAME, _LONG = 8, 60  # words, characters

_ITEM = re.compile(r"(?P<comma>,\s+)|;\s*|(?<=\w)[.]\s+|\s+/\s+")
_COLON = re.compile(r"\s*(?:(?<=[^\W\d]):|:(?!\d))\s*")
_DASH = re.compile(r"\s+[-–—]{1,2}>?\s+")
_PAREN = re.compile(r"\s*[(\[]\s*([^()\[\]]{1,20}?)\s*[)\]]\s*\.?$")
_SIGN = re.compile(r"\s*(\+{1,4}|(?<=\s)[-−–]|(?<=\w)[-−–](?=\W*$)|[±✓✔✗✘☑☐])\W*$")
_FRONT = re.compile(r"^(?:\(([+−–-])\)|([+✓✔✗✘☑☐]))\s*(?=\w)")
_MINUS = re.compile(r"^[-−–]\s?(?=\w)")
_LAST = re.compile(r"\s+(\w+)\W*$")
_ENDS = re.compile(r"[\s.!]*(?:$|[(,])")
_VERB = re.compile(r"\b(?:is|are|was|were|has|have|there|ist|sind|hay|est|sont|há|são)\b", re.I)
_VE = (
    (re.compile(r"(?<![\w-])[-−–] ?ve\b", re.I), "negative"),
    (re.compile(r"(?<!\w)\+ ?ve\b", re.I), "positive"),
    (re.compile(r"(?<!\w)[Øø∅⌀]\s*(\w[^,;.]{0,60}),"), r"no \1;"),
    (re.compile(r"(?<!\w)[Øø∅⌀]\s*(?=\w)"), "no "),
)
_NOT = re.compile(
    r",?\s*\b(?:and not|not|instead of|rather than|nicht|(?:an)?statt|y no|no|et non|non|e não|não)"
    r"\b.*$",
    re.I,
)


class Prose(NamedTuple):
    text: str  # on one line; :data:`UNREAD` for what is not understood
    understood: bool


@lru_cache(maxsize=50_000)
def as_prose(sentence: str) -> Prose:
    """A sentence with its fields as prose, and what a correction puts right alone.

    >>> as_prose("Pneumothorax: none, effusion: small.").text
    'no Pneumothorax; effusion small.'
    """
    text = " ".join(sentence.split())
    if not language_of(text):
        return Prose(UNREAD * len(text), False)
    own = rules_of(text)
    if own.patterns["retracts"].search(text):
        return Prose(UNREAD * len(text), False)
    if match := own.patterns["corrects"].search(text):
        text = _NOT.sub("", text[match.end() :].lstrip(" :,'\""))
    for pattern, word in _VE:
        text = pattern.sub(word, text)
    items = _items(text)
    plus = any(_FRONT.match(item) for item, _ in items)
    said, understood, carried = list[str](), True, ""
    waiting = ""  # items that may belong to the name of the next field
    for item, end in items:
        field = _field(item, own, plus)
        if field and waiting and not names_finding(field[0], own):
            field = (
                (f"{waiting}{field[0]}", field[1]) if is_name(waiting + field[0], own) else field
            )
            waiting = waiting if field[0].startswith(waiting) and said else ""
            if waiting:
                said.pop()
        if field is None:
            said.append(f"{carried}{item}{end}")
            waiting = f"{waiting}{item}{end}" if end[:1] == "," and len(waiting) < _LONG else ""
            continue
        name, value = field
        waiting, carried = "", ""
        kind = answer(name, own)
        if (
            kind and _is_only(name, kind[1]) and names_finding(value, own)
        ):  # "Absent: edema, effusion"
            carried = own.prose[kind[0]]
            said.append(f"{carried}{value}{end}")
            continue
        put, known = _put(name, value, own)
        understood = understood and known
        said.append(put + (";" + end.lstrip(",;. ") + " " if end.strip() else end))
    text = "".join(said).rstrip("; ") if understood is False or len(items) > 1 else "".join(said)
    return Prose(text, understood)


def is_field(line: str) -> bool:
    """Whether a line gives a finding a value, in any language."""
    name, _, value = line.partition(":")
    every = (rules(language) for language in LANGUAGES)
    return any(answer(value.strip(), own) and names_finding(name, own) for own in every)


def names_finding(text: str, own: Rules) -> bool:
    return any(pattern.search(text) for pattern in own.findings.values())


def is_name(text: str, own: Rules) -> bool:
    """Whether a text may be what a value is given for: a few words that say nothing themselves."""
    words = len(WORD.findall(text))
    return 0 < words <= LONGEST_NAME and not (
        _VERB.search(text)
        or any(own.patterns[kind].search(text) for kind in ("before", "after", "uncertain"))
    )


def _is_only(name: str, end: int) -> bool:
    """Whether a name is an answer, "Absent" or "Negative for"."""
    return len(WORD.findall(name[end:])) <= 1


def _items(text: str) -> list[tuple[str, str]]:
    """The parts of a sentence between commas and the like, each with what ends it."""
    found, done = [], 0
    for match in _ITEM.finditer(text):
        found.append((text[done : match.start()], match[0]))
        done = match.end()
    return [*found, (text[done:], "")]


def _field(item: str, own: Rules, plus: bool) -> tuple[str, str] | None:
    """The name and the value of a field; None where an item is none."""
    if match := _COLON.search(item):
        name, value = item[: match.start()].lstrip(" -*•"), item[match.end() :]
        kind = answer(name, own)
        if value.strip() and (is_name(name, own) or (kind and _is_only(name, kind[1]))):
            return name, value
        return None
    for pattern in (_DASH, _PAREN, _SIGN, _LAST):
        match = pattern.search(item)
        value = "" if match is None else item[match.end() :] if pattern is _DASH else match[1]
        said = answer(value, own)
        if match is None or said is None or not _ENDS.match(value, said[1]):
            continue
        name = item[: match.start()]
        if pattern is _LAST and (
            said[0] != "absent"
            or any(own.patterns[one].search(item) for one in ("uncertain", "after"))
        ):
            continue
        if is_name(name, own) and names_finding(name, own):
            return name, value
    sign = _FRONT.match(item)
    if sign and names_finding(item, own):
        return item[sign.end() :], sign[1] or sign[2]
    if plus and (sign := _MINUS.match(item)) and names_finding(item, own):
        return item[sign.end() :], "-"
    return None


def _put(name: str, value: str, own: Rules) -> tuple[str, bool]:
    """A field as prose, and whether its value is understood."""
    bare = value.strip(" \"'")
    kind = answer(bare, own)
    rest = "" if kind is None else bare[kind[1] :]
    if not names_finding(name, own):
        if kind and not rest.strip(" .") and kind[0] != "present":
            return f"{own.prose[kind[0]]}{name}", True
        return f"{name} {value}", True
    if names_finding(value, own):
        return value, True
    first = re.split(r"[,;(]", bare)[0]
    said = _said(first, kind, own)
    if said is None:
        return UNREAD * len(name), False
    if said == "present":
        word = bare[: kind[1]].lower() if kind else ""
        shown = any(word in own.words[one] for one in ("stop", "qualifiers"))
        return f"{name} {bare if shown or not kind else rest.lstrip()}".rstrip(), True
    return f"{own.prose[said]}{name} {rest.strip(' .')}".rstrip(), True


def _said(value: str, kind: tuple[Answer, int] | None, own: Rules) -> Answer | None:
    """What the first clause of a value says of the finding before it."""
    patterns = own.patterns
    if patterns["uncertain"].search(value):
        return "uncertain"
    if patterns["pseudo"].search(value):
        return "present"
    if kind:
        return kind[0]
    if patterns["before"].match(value) or patterns["after"].search(value):
        return "absent"
    if patterns["normal"].match(value) or own.comparing["resolved"].match(value):
        return "absent"
    changes = ("improved", "worse", "new", "unchanged")
    if any(own.comparing[one].search(value) for one in changes if one in own.comparing):
        return "present"
    return None
