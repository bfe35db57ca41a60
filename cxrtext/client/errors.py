"""What goes wrong between a client and a server."""

from cxrtext.errors import CxrTextError


class ApiError(CxrTextError):
    """The server answered with an error, or not at all.

    ``status`` is 0 where there was no answer, ``detail`` says what is wrong and what to do,
    ``request_id`` is the one in the server's log, and ``retry_after`` are the seconds that the
    server asks to wait.
    """

    def __init__(
        self,
        status: int,
        title: str,
        detail: str,
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        said = f"{title} ({status}): {detail}" if status else f"{title}: {detail}"
        super().__init__(said + (f" [request {request_id}]" if request_id else ""))
        self.status = status
        self.title = title
        self.detail = detail
        self.request_id = request_id
        self.retry_after = retry_after
