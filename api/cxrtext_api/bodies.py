"""The bodies of requests: how much and how slowly they may come."""

import asyncio
import contextlib

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

DRAIN_BYTES = 2**23
DRAIN_SECONDS = 3.0
"""How far a body that is not wanted is read on, so that a proxy that sends it sees the answer."""


class Body:
    """Counts and times what is received.

    Args:
        receive: The server's receive.
        max_bytes: Largest body.
        seconds: How long it may take to arrive.
    """

    def __init__(self, receive: Receive, max_bytes: int, seconds: float) -> None:
        self._receive = receive
        self._max_bytes = max_bytes
        self._deadline = asyncio.get_running_loop().time() + seconds
        self._whole = False
        self.received = 0

    async def receive(self) -> Message:
        """The next part of the body, or the word that the caller has gone.

        Raises:
            HTTPException: 413 where it is too large, 408 where it is too slow.
        """
        if self._whole:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            raise HTTPException(408, headers={"Connection": "close"}) from None
        self.received += len(message.get("body", b""))
        self._whole = not message.get("more_body", False)
        if self.received > self._max_bytes:
            raise HTTPException(413, headers={"Connection": "close"})
        return message


async def answer_and_drain(response: Response, scope: Scope, receive: Receive, send: Send) -> None:
    """Send an answer at once, then read what still comes, up to a bound, before closing.

    A connection that is closed while data lies unread is reset, and the caller, or a proxy before
    it, may never see the answer.
    """

    async def send_open(message: Message) -> None:
        if message["type"] == "http.response.body":
            message = {**message, "more_body": True}
        await send(message)

    await response(scope, receive, send_open)
    drained = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_SECONDS):
            while drained < DRAIN_BYTES:
                message = await receive()
                drained += len(message.get("body", b""))
                if not message.get("more_body", False):
                    break
    await send({"type": "http.response.body", "body": b"", "more_body": False})
