"""What a route answers with besides the errors of the library."""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from cxrtext_api.problems import REQUEST_ID, RETRY_SECONDS, problem_response


class Refusal(Exception):  # noqa: N818 - an answer rather than an error
    """A problem with a detail of its own.

    Args:
        status: The HTTP status.
        detail: What is wrong and what to do; nothing that the caller sent.
    """

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


class RefusingRoute(APIRoute):
    """A route whose refusals become problem documents."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The route's handler."""
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await handler(request)
            except Refusal as refusal:
                return problem_response(
                    request.scope[REQUEST_ID],
                    refusal.status,
                    refusal.detail,
                    headers={"Retry-After": str(RETRY_SECONDS)} if refusal.status == 503 else None,
                )

        return handle
