"""Reads ages, sexes, dates and times as people and devices write them."""

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from cxrtext.records.rows import TableRows
from cxrtext.records.study import LeftOut

OLDEST = 130  # years
_AGE = re.compile(r"([0-9]{1,3})(?:[.,][0-9]*)?\s*([^\W\d_]*)\.?")
_PER_YEAR = {
    word: count
    for count, words in {
        1: "y yr yrs year years j jr jahr jahre a an ans año años ano anos anni anno jaar",
        12: "m mo mon month months monat monate mois mes meses mesi mese maand maanden",
        52: "w wk wks week weeks woche wochen sem semaine semaines semana semanas weken settimane",
        365: "d day days t tag tage jour jours día días dia dias giorno giorni dag dagen",
    }.items()
    for word in words.split()
} | {"": 1}
_SEXES = {
    word: letter
    for letter, words in {
        "M": "m male man mann männlich maennlich homme h hombre homem varón masculin masculino "
        "maschio maschile uomo mannelijk",
        "F": "f female woman w weiblich frau femme feminin femenino feminino mujer mulher femmina "
        "femminile donna vrouw vrouwelijk v",
        "O": "o other d divers diverse",
    }.items()
    for word in words.split()
}
_CODES = re.compile(r"(?<![^\W_])([^\W_])\s*[=:]\s*([^\W\d_]+)")
_FRENCH = {"an", "ans", "mois", "jour", "jours", "semaine", "semaines"}
_GERMAN = {"jahr", "jahre", "monat", "monate", "mon", "tag", "tage", "woche", "wochen", "t", "jaar"}


def years(text: str, units: Mapping[str, int] = _PER_YEAR) -> str:
    """An age in whole years: "058Y", "58,0" and "58 J." are 58, "007M" is 0; "" if not an age."""
    match = _AGE.fullmatch(text.strip())
    per_year = (units.get(match[2]) or units.get(match[2].casefold())) if match else None
    if not match or not per_year or (age := int(match[1]) // per_year) > OLDEST:
        return ""
    return str(age)


def _units(header: str, texts: Iterable[str]) -> dict[str, int]:
    """Units per year: "12 j" is days in a column with French words, years with German ones."""
    units = {found[2].casefold() for text in texts if (found := _AGE.fullmatch(text))}
    french = bool(units & _FRENCH) or "â" in header.lower()
    german = bool(units & _GERMAN or re.search("(?i)alter|leeftijd", header))
    if french == german and (french or units - {"j"}):
        return {**_PER_YEAR, "j": 0, "J": int(german)}  # German abbreviates in capitals
    return {**_PER_YEAR, "j": 365} if french else _PER_YEAR


def _letters(header: str, texts: Iterable[str]) -> dict[str, str]:
    """What letters for sex mean given the others in the column ("M" next to "H"); "?" if unsure."""
    beside = {text.rstrip(".").casefold() for text in texts}
    if any(one.startswith(("f", "w")) for one in beside):
        return {"m": "?" if beside & {"h", "v"} else "m", "v": "?" if "m" in beside else "m"}
    if "h" in beside:
        return {"m": "f", "d": "f", "v": "?"}
    if {"u", "d"} <= beside and "m" not in beside:
        return {"u": "m", "d": "f"}
    if re.match("(?i)sexo|g[eé]nero", header):
        return {"v": "m", "m": "f" if "v" in beside else "?", "d": "?"}
    dutch = header.casefold().startswith("gesl")
    return {"m": "m" if dutch or "v" not in beside else "?", "v": "f" if dutch else "?", "d": "?"}


def sex(text: str, codes: Mapping[str, str] | None = None) -> str:
    """M, F or O from a letter or a word in seven languages; "" for anything else.

    ``codes`` says what numbers and letters mean in the column.
    """
    word = text.strip().rstrip(".").casefold()
    word = (codes or {}).get(word.removesuffix(".0"), word)
    plain = "".join(c for c in unicodedata.normalize("NFKD", word) if not unicodedata.combining(c))
    return _SEXES.get(word) or _SEXES.get(plain, "")


_NOTHING = re.compile(
    "null|none|nan?|nil|unk(?:nown)?|unbekannt|anon(?:ym(?:e|ous|i[sz]ed|isiert)?|imo)?|inconnue?|"
    "des?con(?:oc|hec)ido|sconosciuto|ignoto|onbekend|missing|empty|blank|undefined|not(?:avail|"
    "applic)able|nichtvorhanden|keine|pending|tbd|ausstehend|folgt|seeabove|sieheoben|noreport|"
)
_SHORT = re.compile(r"\s*(?:n\W+[adv]|k\W+a|n\.n|s\W+d|\\n)\W*", re.IGNORECASE)


def says_nothing(text: str) -> bool:
    """Whether a cell is empty or stands for a missing value: NULL, n/a, unknown, "-"."""
    word = re.sub(r"[\W_]+", "", text).casefold()
    return bool(_NOTHING.fullmatch(word) or _SHORT.fullmatch(text))


# --- dates and times ---

TIME_DIGITS = 14
_DIGITS = re.compile(r"(\d{4}(?:\d\d){0,2})[T ]?((?:\d\d){0,3})(?:[.,]\d+)?")
_PARTS = r"(?P<one>\d\d?)(?P<mark>[./-])(?P<other>\d\d?)(?P=mark)(?P<year_>\d{4}|\d\d)"
_DAY = rf"(?:(?P<year>\d{{4}})[-/.](?P<month>\d\d?)(?:[-/.](?P<day>\d\d?))?|{_PARTS})"
_CLOCK = r"(?P<hour>\d\d?):(?P<minute>\d\d?)(?::(?P<second>\d\d?)(?:[.,]\d+)?)?"
_TIME = re.compile(
    rf"{_DAY}(?:(?:T|,?\s+)?{_CLOCK}(?:\s*(?P<half>[AP])\.?M\.?)?(?:\s+[A-Z]{{3,5}})?)?",
    re.IGNORECASE,
)
_ZONE = re.compile(r"(?<=\d)\s*(Z|[+-]\d\d:?\d\d)$")
_BEGIN = re.compile(rf"\s*{_PARTS}(?!\d)")
CENTURY = 70  # two-digit years from here on belong to the last century


def date_order(texts: Iterable[str]) -> str:
    """Whether the dates of a column begin with the "day" or the "month"; "" if unclear."""
    pairs = [(int(m["one"]), int(m["other"])) for text in texts if (m := _BEGIN.match(text))]
    days = any(first > 12 for first, _ in pairs)
    months = any(second > 12 for _, second in pairs)
    return "day" if days and not months else "month" if months and not days else ""


def read_time(text: str, order: str = "") -> str:
    """The digits of a time such as 2024-03-01 12:00, 1.3.2024 or 20240301120000+0100.

    A time with a zone becomes local time; one without is taken as local.  Returns "" for text that
    is not a time or is ambiguous: only the `date_order` of the column tells the month of 3/1/2024.
    """
    text = text.strip()
    zone = _ZONE.search(text)
    digits = _digits(text[: zone.start()] if zone else text, order)
    if zone is None or len(digits) <= len("20240301"):
        return digits
    try:
        moment = datetime.strptime(digits.ljust(TIME_DIGITS, "0") + zone[1], "%Y%m%d%H%M%S%z")
        return moment.astimezone().strftime("%Y%m%d%H%M%S")
    except (ValueError, OverflowError):
        return digits


def _digits(text: str, order: str) -> str:
    if plain := _DIGITS.fullmatch(text):
        return plain[1] + plain[2]
    if (match := _TIME.fullmatch(text)) is None:
        return ""
    parts = [match[name] for name in ("year", "month", "day")]
    if match["mark"]:
        # Dates with points begin with the day; dates with slashes may begin with either.
        order = order or ("day" if match["mark"] == "." else "")
        if not order:
            return ""
        year = match["year_"]
        if len(year) == 2:
            year = f"{19 if int(year) >= CENTURY else 20}{year}"
        days = match["one"], match["other"]
        parts = [year, *(reversed(days) if order == "day" else days)]
    clock = [match[name] for name in ("hour", "minute", "second")]
    if match["half"]:
        clock[0] = str(int(clock[0]) % 12 + 12 * (match["half"] in "Pp"))
    return "".join(part.zfill(2) for part in (*parts, *clock) if part)


def moment(day: str, time: str = "") -> str:
    """A date and time from DICOM or a table as 2019-03-02T10:15:00 or 2019-03-02, else ""."""
    digits = read_time(day) or day.replace(".", "")
    if time and len(digits) == 8:
        digits = read_time(digits + time.replace(":", "")) or digits
    try:
        text = datetime.strptime(digits.ljust(TIME_DIGITS, "0"), "%Y%m%d%H%M%S").isoformat()
    except ValueError:
        return ""
    return text if len(digits) > 8 else text[:10]


def days_between(first: str, taken: str) -> str:
    """Days from one `moment` to another, with two decimals if both have a time of day."""
    times = datetime.fromisoformat(first), datetime.fromisoformat(taken)
    if min(len(first), len(taken)) <= 10:
        return str((times[1].date() - times[0].date()).days)
    return f"{(times[1] - times[0]).total_seconds() / 86_400:.2f}".removesuffix(".00")


# --- columns ---

AGE, SEX, TIMES = "age", "sex", ("date", "acquired", "time")


@dataclass(slots=True)
class Meaning:
    """How to read the cells of a column: as whole years, as M, F or O, or as digits of a time."""

    read: Callable[[str], str]
    filled: int = 0
    unread: int = 0
    row: int = 0  # the first row that cannot be read

    def fault(self, name: str, header: str) -> str:
        """A message about unreadable cells, without quoting them; "" if all can be read."""
        if not self.unread:
            return ""
        shown = name if name == header else f"{name} ({header})"
        advice = ""
        if name == SEX:
            advice = "; say in the header what numbers and letters mean: sex (1=male, V=female)"
        elif name in TIMES:
            advice = "; write days first with points, or years first: 2024-04-13"
        count = "no cell" if self.unread == self.filled else f"{self.unread} of {self.filled} cells"
        verb = "can be read" if self.unread == self.filled else "cannot be read"
        return f"{shown}: {count} {verb} (first: row {self.row}){advice}"


def meanings_of(table: TableRows, wanted: Collection[str]) -> dict[str, Meaning]:
    """How to read the wanted columns for age, sex and times, judged by their own cells."""
    names = [name for name in table.columns if name in wanted and name in (AGE, SEX, *TIMES)]
    rows: dict[str, dict[str, list[int]]] = {name: {} for name in names}  # rows by cell
    for entry in table.read(names) if names else ():
        if not isinstance(entry, LeftOut):
            for name, cell in entry[1].items():
                if text := cell.strip():
                    rows[name].setdefault(text, []).append(entry[0])
    meanings = {}
    for name, cells in rows.items():
        meaning = Meaning(_reader(name, table.names.get(name, name), cells))
        unread = [row for text, some in cells.items() if not meaning.read(text) for row in some]
        meaning.filled, meaning.unread = sum(map(len, cells.values())), len(unread)
        meaning.row = min(unread, default=0)
        meanings[name] = meaning
    return meanings


def _reader(name: str, header: str, texts: Collection[str]) -> Callable[[str], str]:
    if name == AGE:
        return partial(years, units=_units(header, texts))
    if name == SEX:
        pairs = ((code.casefold(), word.casefold()) for code, word in _CODES.findall(header))
        codes = {code: word for code, word in pairs if code.isdigit() or len(word) > 1}
        return partial(sex, codes={**_letters(header, texts), **codes})
    return partial(read_time, order=date_order(texts))
