"""Characters that have no place in a sentence."""

import html
import re

# Category Cc except the tab and the line breaks, the separators of lines and paragraphs, and two
# characters without width that text from web pages and from Windows brings along.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\u200b\ufeff]")
# "[<Lungs are clear.>]": a dictation system's marks around a template's field.
_FIELD_MARK = re.compile(r"\[<|>\]")
_NUMBER = re.compile(r" ?\d")


def without_controls(text: str) -> str:
    r"""Return a text whose lines end in ``\n`` and whose control characters are spaces."""
    return _CONTROL.sub(" ", text.replace("\r\n", "\n").replace("\r", "\n"))


def _without_field_marks(text: str) -> str:
    """Put a space for each mark, but for a ``[<`` before a number with no end: "less than"."""
    parts: list[str] = []
    done, less_than = 0, -1
    for match in _FIELD_MARK.finditer(text):
        if match[0] == "[<" and _NUMBER.match(text, match.end()):
            less_than = match.start()
            continue
        if match[0] == ">]" and less_than >= done:
            parts += [text[done:less_than], " "]
            done = less_than + len("[<")
        parts += [text[done : match.start()], " "]
        done, less_than = match.end(), -1
    return "".join([*parts, text[done:]])


def normalise(text: str) -> str:
    """Return a text as its sentences are to show it, in time linear in its length.

    HTML's character references (``&gt;``) are resolved once, control characters become spaces,
    line breaks line feeds, and so do a dictation system's field marks ``[<`` and ``>]``.

    Args:
        text: The text.

    Returns:
        The text; all other characters are as they were.
    """
    if "&" in text:
        text = html.unescape(text)
    text = without_controls(text)
    return _without_field_marks(text) if "[<" in text or ">]" in text else text
