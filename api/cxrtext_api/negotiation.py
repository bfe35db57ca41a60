"""Which kind of content a caller sends, and which one it wants."""

from collections.abc import Sequence

from fastapi import Depends, Request
from fastapi.params import Depends as Dependency

from cxrtext_api.refusal import Refusal

JSON = "application/json"
PNG = "image/png"
CSV = "text/csv"
FORMS = ("multipart/form-data", "application/x-www-form-urlencoded")


def preferred(accept: str, offered: Sequence[str]) -> str:
    """The kind of content, of those offered, that an ``Accept`` header wants most.

    Args:
        accept: The header; of equal qualities the kind named first counts.
        offered: What there is; the first is given where nothing of it is named.
    """
    best, answer = 0.0, offered[0]
    for part in accept.split(","):
        name, *parameters = (piece.strip().lower() for piece in part.split(";"))
        quality = _quality(parameters)
        kind = offered[0] if name == "*/*" else name
        if name.endswith("/*") and name != "*/*":
            kind = next((one for one in offered if one.startswith(name[:-1])), "")
        if kind in offered and quality > best:
            best, answer = quality, kind
    return answer


def _quality(parameters: Sequence[str]) -> float:
    for parameter in parameters:
        if parameter.startswith("q="):
            try:
                return min(1.0, max(0.0, float(parameter[2:])))
            except ValueError:
                return 0.0
    return 1.0


def taking(*kinds: str) -> Dependency:
    """A dependency that refuses a body of another kind than these, with a 415."""
    listed = " or ".join(kinds)

    async def check(request: Request) -> None:
        given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if given not in kinds and (given or request.headers.get("content-length", "0") != "0"):
            raise Refusal(415, f"This address takes a body of {listed}.")

    dependency: Dependency = Depends(check)
    return dependency


TAKES_FORM = taking(*FORMS)
TAKES_JSON = taking(JSON)
