"""Turns statements such as ``Pneumothorax: absent`` into prose for the rules of sentences.

A value says that a finding is present, absent or uncertain.  If the value is not understood, the
finding is taken out of the sentence, so that nothing is affirmed by default.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from cxrtext.text.rules import WORD, Answer, Rules, answer, denied, every, language_of, rules_of

UNREAD = "·"
"""Replaces each letter of text that is not understood."""
LONGEST_NAME = 8  # words
NESTED = 3  # most fields inside one another
_SHORT = 40  # characters

_ITEM = re.compile(
    r"(?P<comma>,(?![^()\[\]]{0,30}[)\]])\s+(?:(?:and|or|und|y|et|e|ou?)\s+)?)|;\s*|(?<=\w\w)[.]\s+|\s+/\s+"
    r"|(?:(?<=\w\s\([+−–-]\))|(?<=\w\([+−–-]\)))\s+(?=\w)"
)
# "Lung parenchyma - edema: no", "Consolidation / infiltrate: no": a name in parts.
_IN_PARTS = re.compile(r"(?:^|(?<=[;,.:] ))([^:;,.]{3,80}?) +([/–—-]) +([^:;,.]{3,80}?)(?= ?:\s)")
_COLON = re.compile(r"\s*(?:(?<=[^\W\d]):|(?<=[\])]):|:(?!\d))\s*")
_DASH = re.compile(r"\s+[-–—]{1,2}>?\s+")
_PAREN = re.compile(r"\s*[(\[{<]\s*([^()\[\]{}<>]{1,20}?)\s*[)\]}>]\s*\.?$")
_SIGN = re.compile(r"\s*(\+{1,4}|(?<=\s)[-−–]|(?<=\w)[-−–](?=\W*$)|[±✓✔✗✘☑☐])\W*$")
_FRONT = re.compile(r"^(?:\(([+−–-])\)|([+✓✔✗✘☑☐−]))\s*(?=\w)")
_MINUS = re.compile(r"^[-–]\s?(?=\w)")
_LAST = re.compile(r"\s+(\w+(?:/\d+)?)\W*$")
_SCORE = re.compile(
    r"(?P<name>[^\W\d]+(?: [^\W\d]+){0,2})\s(?:(?:score|p|probability)\W{0,3})?"
    r"(?:[01]?[.,]\d+|[1-9]\d{0,2} ?%)\W*",
    re.I,
)
_CLOCK = re.compile(r"^.*\d:\d\d\s+|^\s+")
_ENDS = re.compile(r"[\s.!]*(?:$|[(,])")
# "yes / no", "(none, small, large)": what a form offers.
_OFFER = re.compile(
    r"\s*(?:[(\[](?P<inside>[^()\[\]\n]{1,60}[/,|][^()\[\]\n]{1,60})[)\]]"
    r"|(?<![\w/])(?P<bare>\*?[^\W\d]{1,12}\*?(?: ?/ ?\*?[^\W\d]{1,12}\*?){1,5})(?![\w/]))"
)
_OR = re.compile(r"\b(?:n?or|and|oder|und|noch|o|y|ni|ou|et|e|nem)\b", re.I)
_ASKS = re.compile(r"[^\W\d_] ?\?$")
# A list with exceptions: "All are absent except edema: edema, mass".
_EXCEPT = re.compile(
    r"(?P<head>[^:,;]{3,80}?)[ ,]+(?:except|other than|apart from|with the exception of|bis auf"
    r"|außer|salvo|excepto|exceto|sauf|hormis)(?: for)? (?P<but>[^:]{3,200}):\s*(?P<list>.+)",
    re.I,
)
_VERB = re.compile(r"\b(?:is|are|was|were|has|have|there|ist|sind|hay|est|sont|há|são)\b", re.I)
_LEAD = re.compile(
    r"^[\s\"'‘“*]*(?:(?:is|are|was|were|definitely|clearly|ist|sind|est|sont|está|es)\s+(?!no\b))?"
    r"(?:[(\[{<]\s*(?P<inside>[^()\[\]{}<>]{1,40}?)\s*[)\]}>])?",
    re.I,
)
_SIGNS = (
    (re.compile(r"(?<![\w-])[-−–] ?ve\b", re.I), "negative"),
    (re.compile(r"(?<!\w)\+ ?ve\b", re.I), "positive"),
    (re.compile(r"(?<!\w)[Øø∅⌀]\s*(\w[^,;.]{0,60}),"), r"NONE\1;"),
    (re.compile(r"(?<!\w)(?:[Øø∅⌀]\s*|[sS]/ )(?=\w)|(?:^|(?<=[,;] ))0 (?=[^\W\d_]{3})"), "NONE"),
)
_NOT = re.compile(
    r"(?<=\w)(?:,\s*|\s+)(?:and not|not|instead of|rather than|nicht|(?:an)?statt|y no|no"
    r"|et non|non|e não|não)\b.*$",
    re.I,
)
_ONE = re.compile(
    r"(?P<apart>, (?:but |and )?)?(?<!\bno )\bone\b"
    r"(?= (?:persists|remains|is (?:seen|present|noted)|(?:on|at|in) the))"
)
_SIDES_APART = re.compile(r"\s(?=[LR]\b)")


class Prose(NamedTuple):
    text: str  # on one line; what is not understood is :data:`UNREAD`
    understood: bool


class Field(NamedTuple):
    name: str
    value: str


@lru_cache(maxsize=50_000)
def as_prose(sentence: str) -> Prose:
    """A sentence with its fields as prose; of a correction, only the corrected statement.

    >>> as_prose("Pneumothorax: none, effusion: small.").text
    'no Pneumothorax; effusion small.'
    """
    text = " ".join(sentence.split())
    own = rules_of(text)
    if match := own.patterns["retracts"].search(text):
        text = text[match.end() :].partition(";")[2].strip() or UNREAD * len(text)
    if not language_of(text) or UNREAD in text:
        return Prose(UNREAD * len(text), False)
    if match := own.patterns["corrects"].search(text):
        text = _NOT.sub("", text[match.end() :].lstrip(" :,'\""))
    if _ASKS.search(text):
        return Prose(UNREAD * len(text), False)
    if (match := _EXCEPT.match(text)) and list_head(match["head"], own) == "absent":
        text = f"{match['but']}; {match['head']}: {match['list']}"
    for pattern, word in _SIGNS:
        text = pattern.sub(word.replace("NONE", own.prose["absent"]), text)
    text = _ONE.sub(lambda match: _named(match, own), text)
    text = _IN_PARTS.sub(lambda match: _joined(match, own), text)
    text = _OFFER.sub(lambda match: _chosen(match, own), text)
    items = _telegram(_items(text, own), own)
    plus = any(_FRONT.match(item) for item, _ in items) or text.startswith("-")
    parts, understood = list[str](), True
    denial = finding = ""  # the words before each item of a list, and the finding a side belongs to
    names = list[str]()  # items still without a value: "effusion, pneumothorax: none"
    for item, end in items:
        field = _field(item, own, plus) or _of_a_side(item, finding, own)
        if field is None:
            last = _LAST.search(item)
            says = answer(item, own) or (last and answer(last[1], own))
            bare = is_name(item, own) and not says
            names = [*names, f"{item}{end}"] if bare and "," in end else []
            finding = "" if names_finding(item, own) else finding
            parts.append(f"{denial}{item}{end}")
            continue
        name, value = field
        for _ in range(NESTED):  # "Pleura: effusion: none"
            inner = None
            if not (names_finding(name, own) or list_head(name, own)):
                inner = _field(value, own, plus)
            if inner is None:
                break
            name, value = f"{name} {inner.name}", inner.value
        if kind := list_head(name, own):
            denial, names = own.prose.get(kind, own.prose["uncertain"]), []
            parts.append(f"{denial}{value}{end}")
            continue
        if own.patterns["a_side"].fullmatch(name.strip()):
            name = f"{finding} {name}"
        elif names and is_name("".join(names) + name, own):
            name = "".join(names) + name
            del parts[-len(names) :]
        denial, names = "", []
        finding = name if names_finding(name, own) else finding
        prose, known = _put(name, value, own)
        understood = understood and known
        # "Lungs: no consolidation, effusion": the denial continues.
        goes_on = names_finding(value, own) or not names_finding(name, own)
        parts.append(prose + (end if goes_on else "; " if end else ""))
    text = "".join(parts)
    return Prose(text if len(items) == 1 else text.rstrip("; "), understood)


@lru_cache(maxsize=10_000)
def is_field(line: str) -> bool:
    """Whether a line gives a finding a value or says something about an organ, in any language."""
    name, _, value = line.partition(":")
    value, words = value.strip(), {*WORD.findall(name.lower())}
    for own in every():
        says = (own.patterns["before"].match(value), own.patterns["normal"].search(value))
        organ = words <= own.words["known"] and not words <= own.words["function_words"]
        names = names_finding(f"{name} {value}", own)
        if (answer(value, own) and names_finding(name, own)) or (organ and (any(says) or names)):
            return True
    return False


@lru_cache(maxsize=10_000)
def is_bare_name(line: str) -> bool:
    """Whether a line names a finding in some language and says nothing about it."""
    line = line.strip(" \t:*[]")
    return ":" not in line and any(_is_unsaid(line, own) for own in every())


def _is_unsaid(name: str, own: Rules) -> bool:
    """Whether a name only names a finding: "enlarged heart", but not "small effusion"."""
    kind, named = answer(name, own), is_name(name, own) and names_finding(name, own)
    return named and (kind is None or not names_finding(name[kind[1] :], own))


def is_side(text: str) -> bool:
    return any(own.patterns["a_side"].fullmatch(text.strip()) for own in every())


@lru_cache(maxsize=10_000)
def is_denial(text: str) -> bool:
    """Whether a text is a value that only says no, in some language."""
    return len(text) < _SHORT and any(_denies(text, own) for own in every())


def list_answer(line: str) -> Answer | None:
    """What a line such as "Pertinent negatives:" says about the list below it, in any language."""
    return next(filter(None, (list_head(line, own) for own in every())), None)


def names_any(text: str) -> bool:
    """Whether a text names a finding in some language."""
    return any(names_finding(text, own) for own in every())


def names_finding(text: str, own: Rules) -> bool:
    return any(pattern.search(text) for pattern in own.findings.values())


def is_name(text: str, own: Rules) -> bool:
    """Whether a text may be the name of a field: a few words that make no statement."""
    words = len(WORD.findall(text))
    return 0 < words <= LONGEST_NAME and not (
        _VERB.search(text)
        or any(own.patterns[kind].search(text) for kind in ("before", "after", "uncertain"))
    )


def list_head(name: str, own: Rules) -> Answer | None:
    """What a name says about the list after it: "Absent", "No evidence of the following"."""
    name = name.strip(" *:.-•")
    for kind, pattern in own.lists.items():
        if pattern.fullmatch(name):
            return kind
    value = answer(name, own)
    if value is None or value[0] not in ("absent", "uncertain") or WORD.search(name, value[1]):
        return None
    return value[0]


def _of_a_side(item: str, finding: str, own: Rules) -> Field | None:
    """The field of an item about the other side, after "Effusion: none on the right, "."""
    sided = finding and own.patterns["a_side"].search(item) and not names_finding(item, own)
    return Field(finding, item) if sided and answer(item, own) else None


def _items(text: str, own: Rules) -> list[tuple[str, str]]:
    """The parts of a sentence between commas and the like, each with its separator."""
    items, done = list[tuple[str, str]](), 0
    for match in [*_ITEM.finditer(text), None]:
        item = text[done : match.start() if match else len(text)]
        end = match[0] if match else ""
        # "Effusion, none": the value is an item of its own.
        if items and _denies(item, own) and is_bare_name(items[-1][0]):
            items[-1] = (f"{items[-1][0].rstrip(' :?')}: {item}", end)
        else:
            items.append((item, end))
        done = match.end() if match else done
    return items


def _telegram(items: list[tuple[str, str]], own: Rules) -> list[tuple[str, str]]:
    """Items of "No edema, heart normal, no effusion": each "no" ends with its item.

    An item that only names a finding may belong to the item before, so it is not read.
    """
    slashed = any(end.strip() == "/" for _, end in items)
    denies = [bool(own.patterns["before"].match(_CLOCK.sub("", item))) for item, _ in items]
    says = [
        denies[place] or (_says_itself(item, own) and (not slashed or item[:1].isupper()))
        for place, (item, _) in enumerate(items)
    ]
    one = not any(denies) or sum(says if slashed else denies) < 2
    if one or any(len(end.split()) > 1 or _OR.search(item) for item, end in items):
        return items
    read = list[tuple[str, str]]()
    for place, (item, end) in enumerate(items):
        unread = not says[place] and any(denies[:place]) and items[place - 1][1].strip() in ",/"
        end = end.replace(",", ";").replace(" /", ";")
        read.append((UNREAD * len(item) if unread else item, end))
    return read


def _says_itself(item: str, own: Rules) -> bool:
    last = _LAST.search(item.rstrip("."))
    return not _is_unsaid(item, own) or bool(last and answer(last[1], own))


def _joined(match: re.Match[str], own: Rules) -> str:
    """The two parts of a name joined, or kept apart if one makes a statement by itself."""
    first, sign, last = match.groups()
    told = any(answer(part, own) or not is_name(part, own) for part in (first, last))
    side_by_side = sign == "/" or names_finding(first, own)
    return f"{first}{'; ' if told else '/' if side_by_side else ' '}{last}"


def _named(match: re.Match[str], own: Rules) -> str:
    """What "one" stands for: "no effusion on the left, but there is one on the right"."""
    before = match.string[: match.start()]
    named = [one for pattern in own.findings.values() for one in pattern.finditer(before)]
    if not named:
        return match[0]
    name = max(named, key=lambda one: one.end())[0]
    return f"; {name}" if match["apart"] else name


def _chosen(match: re.Match[str], own: Rules) -> str:
    """The replacement for the choices that a form offers: nothing, or an unread value."""
    kinds = [
        answer(option.strip(" *"), own)
        for option in re.split("[/,|]", match["inside"] or match["bare"])
    ]
    behind = match.string[match.end() :].lstrip(" *")
    if not all(kinds) or len({kind[0] for kind in kinds if kind}) < 2:
        return match[0]
    if behind[:1] in (":", "?") or (match["inside"] and answer(behind, own)):
        return ""
    if behind[:1] not in ("", ".", ",", ";"):
        return match[0]
    return f" {UNREAD}" if match.string[: match.start()].rstrip().endswith(":") else f": {UNREAD}"


def _denies(text: str, own: Rules) -> bool:
    kind = answer(text, own)
    return kind is not None and kind[0] == "absent" and not text[kind[1] :].strip(" .!")


def _field(item: str, own: Rules, plus: bool) -> Field | None:
    """The name and value of a field; None if the item is not a field."""
    if match := _COLON.search(item):
        name, value = item[: match.start()].lstrip(" -*•>"), item[match.end() :]
        last = _LAST.search(name)
        if last and _denies(last[1], own) and is_bare_name(name[: last.start()]):
            return Field(name[: last.start()], denied(value))
        asked = names_finding(name, own) and not own.patterns["before"].search(name)
        if is_name(name, own) or list_head(name, own) or (asked and _denies(value, own)):
            return Field(name, value)
        return None
    if match := _DASH.search(item):
        name, value = item[: match.start()], item[match.end() :]
        listed = list_head(name, own) in ("absent", "present") and names_finding(value, own)
        organ = own.patterns["normal"].match(value) or names_finding(f"{name} {value}", own)
        says_more = names_finding(value, own) or own.patterns["before"].match(value)
        if listed or (
            organ and is_name(name, own) and not names_finding(name, own) and not says_more
        ):
            return Field(name, value)
    if (match := _SCORE.fullmatch(item)) and is_bare_name(match["name"]):
        return Field(match["name"], "n/a")
    for pattern in (_DASH, _PAREN, _SIGN, _LAST):
        match = pattern.search(item)
        value = "" if match is None else item[match.end() :] if pattern is _DASH else match[1]
        kind = answer(value, own)
        if match is None or kind is None or not _ENDS.match(value, kind[1]):
            continue
        name = item[: match.start()]
        if pattern is _LAST and (
            kind[0] != "absent"
            or any(own.patterns[one].search(item) for one in ("uncertain", "after"))
        ):
            continue
        if is_name(name, own) and (
            names_finding(name, own) or own.patterns["a_side"].fullmatch(name.strip())
        ):
            return Field(name, value)
    sign = _FRONT.match(item)
    if sign and names_finding(item, own):
        return Field(item[sign.end() :], sign[1] or sign[2])
    if plus and (sign := _MINUS.match(item)) and names_finding(item, own):
        return Field(item[sign.end() :], "-")
    return None


def _put(name: str, value: str, own: Rules) -> tuple[str, bool]:
    """A field as prose, and whether its value is understood."""
    clauses = _SIDES_APART.split(value.strip())
    if len(clauses) > 1 and names_finding(name, own) and not names_finding(value, own):
        put = [_put(name, clause, own) for clause in clauses]  # "R none L small"
        return "; ".join(prose for prose, _ in put), all(known for _, known in put)
    lead = _LEAD.match(value)
    bare = value[lead.end() :] if lead else value
    if lead and lead["inside"]:
        bare = lead["inside"] + (f", {bare}" if bare.strip(" .") else "")
    side = own.patterns["a_side"].match(bare)
    if side and answer(after := bare[side.end() :].lstrip(" -–:="), own):
        name, bare = f"{name} {side[0]}", after
    kind = answer(bare, own)
    rest = "" if kind is None else bare[kind[1] :]
    if not names_finding(name, own):
        normal = own.patterns["normal"].match(bare)
        if kind and not normal and not rest.strip(" .") and kind[0] in ("absent", "uncertain"):
            return f"{own.prose[kind[0]]}{name}", True
        return f"{name} {bare if lead and lead['inside'] else value}", True
    if names_finding(value, own):
        # "Pneumothorax: Effusion:": neither has a value.
        inner = _field(value, own, False) if _COLON.search(value) else None
        return _put(*inner, own) if inner and names_finding(inner.name, own) else (value, True)
    meaning = _meaning(re.split(r"[,;(]", bare)[0], own)
    if meaning in (None, "unknown"):
        return UNREAD * len(name), False
    if meaning == "present":
        word = bare[: kind[1]].lower() if kind else ""
        shown = any(word in own.words[one] for one in ("stop", "qualifiers"))
        return f"{name} {bare if shown or not kind else rest.lstrip()}".rstrip(), True
    place = rest.strip(" .") if kind and kind[0] == meaning == "absent" else ""
    return f"{own.prose[meaning]}{name} {place}".rstrip(), True


def _meaning(value: str, own: Rules) -> Answer | None:
    """What the first clause of a value says about the finding before it."""
    patterns = own.patterns
    kind = answer(value, own)
    if kind and kind[0] == "unknown":
        return "unknown"
    is_absent = kind and kind[0] == "absent"
    if (patterns["uncertain"].match if is_absent else patterns["uncertain"].search)(value):
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
