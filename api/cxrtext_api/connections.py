"""Connections that do not wait for ever, and are not too many."""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from cxrtext_api.settings import Settings

MAX_HEAD_BYTES = 16 * 1024
"""Largest part of a request's line and headers that is kept while more of it is to come."""


def protocol_for(settings: Settings) -> type[H11Protocol]:
    """A class of connections that are closed where a request's head does not arrive in time.

    The server's own timeout of idle connections begins only after a first answer.

    Args:
        settings: Tell how long a head may take and how many connections may be open.
    """

    class BoundedConnection(H11Protocol):
        _patience: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > settings.connections:
                transport.close()
                return
            self._wait_for_head()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            waits = self.conn.their_state is h11.IDLE and self.conn.our_state is h11.IDLE
            if not waits:
                self._stop_waiting()
            elif self._patience is None:
                self._wait_for_head()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            super().connection_lost(exc)

        def _wait_for_head(self) -> None:
            self._patience = self.loop.call_later(settings.header_seconds, self.transport.close)

        def _stop_waiting(self) -> None:
            if self._patience is not None:
                self._patience.cancel()
                self._patience = None

    return BoundedConnection
