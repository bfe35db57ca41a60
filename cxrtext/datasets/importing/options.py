"""What the user may choose about an import."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cxrtext.errors import ConfigError
from cxrtext.records import BadItem

AGE_TOP = 89
"""With hashed ids, older patients are given as one year more than this: great ages are rare."""


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """What the user may choose about an import.

    Args:
        layout: The name of a layout, or "auto".
        keep: Metadata to be read into the manifest.
        reports: A table or folder of reports, instead of those of the set.
        boxes: A box file, instead of that of the set.
        hash_key: A file whose content keys the hashes that replace ids; None keeps the ids.
        split: Shares of train, val and test, for sets without a split of their own.
        seed: Another seed draws another split.
        require_view: Whether images that do not say their view are set aside.
        copy: Whether images are copied where a hard link would do.
        max_rejected: How many rows and files may be damaged.
    """

    layout: str = "auto"
    keep: tuple[str, ...] = ()
    reports: Path | None = None
    boxes: Path | None = None
    hash_key: Path | None = None
    split: tuple[int, int, int] = (80, 10, 10)
    seed: int = 0
    require_view: bool = False
    copy: bool = False
    max_rejected: int = 100


def check_options(options: ImportOptions) -> None:
    """Refuse shares that are none, and dates where ids are hashed.

    Raises:
        ConfigError: Naming the option.
    """
    shares = options.split
    if len(shares) != 3 or min(shares) < 0 or not sum(shares):
        raise ConfigError(
            f"--split is {','.join(map(str, shares))}; give three shares such as 80,10,10"
        )
    if options.hash_key is not None and "date" in options.keep:
        raise ConfigError("--keep date: dates are dropped with --hash-ids; leave date out")


def columns_kept(
    keep: tuple[str, ...], offered: Mapping[str, str], layout: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Divide what a set offers into what the user asked for and the rest.

    Args:
        keep: What the user asked for.
        offered: What the set has, by the name that the user gives.
        layout: The name of the layout.

    Returns:
        The columns kept, in the user's order, and those left out.

    Raises:
        ConfigError: The set has no such metadata.
    """
    keep = tuple(name for name in keep if name != "view")  # always there
    for name in keep:
        if name not in offered:
            has = ", ".join(offered) or "none"
            raise ConfigError(
                f"--keep {name}: the {layout} layout has no such metadata; it has: {has}"
            )
    return tuple(dict.fromkeys(keep)), tuple(name for name in offered if name not in keep)


def years(text: str) -> str:
    """An age in whole years: "058Y", "58.0" and "58" are 58, "007M" is 0; "" where it is none."""
    number, unit = (text[:-1], text[-1]) if text[-1:].isalpha() else (text, "Y")
    number = number.partition(".")[0]
    if not (number.isascii() and number.isdigit() and len(number) <= 3):
        return ""
    per_year = {"Y": 1, "M": 12, "W": 52, "D": 365}.get(unit.upper())
    return "" if per_year is None else str(int(number) // per_year)


def sex(text: str) -> str:
    """M, F or O, from a letter or a word; "" where it is none of these."""
    letter = text[:1].upper()
    return letter if letter in ("M", "F", "O") else ""


def bad_ids(item: str, study_id: str, patient_id: str) -> BadItem | None:
    """Say what is wrong with the ids of a row or a file, if anything."""
    if not study_id:
        return BadItem(item, "no study id; give every image one")
    for name, value in (("study", study_id), ("patient", patient_id)):
        if not value.isprintable() or len(value) > 200:
            return BadItem(item, f"its {name} id is no plain text; mend it")
    return None
