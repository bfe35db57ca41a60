"""Access by key: check the key of a request before reading its body.

FastAPI reads a form before it calls a dependency.  A :class:`Guarded` route checks the key first,
for the scopes that its :func:`wants` dependencies name.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Depends, Request, Response, Security
from fastapi.routing import APIRoute
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from cxrtext_api.gate.keys import CALLER, Caller, KeyRing
from cxrtext_api.observe.audit import AuditLog
from cxrtext_api.problems import NO_AUDIT, Refusal

_BEARER = HTTPBearer(auto_error=False, description="A key, if the server needs one.")
_Key = Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)]


class _Wanted:
    """A dependency that names the scopes a key needs: all scopes of any one set."""

    def __init__(self, *sets: frozenset[str]) -> None:
        self.sets = sets

    async def __call__(self, key: _Key) -> None:
        """Make the API's description say that a key may be needed."""


def wants(*scopes: str, or_else: str | None = None) -> Any:
    """A dependency of routes: the key must have all of these scopes, or the other one.

    The last one counts, so that a route may need more than its router.
    """
    sets = [frozenset(scopes), *([frozenset({or_else})] if or_else else [])]
    return Depends(_Wanted(*sets))


class Guarded(APIRoute):
    """A route that lets nobody in without the key that it needs."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        dependencies = [one.dependency for one in self.dependencies]
        sets = [one.sets for one in dependencies if isinstance(one, _Wanted)][-1]

        async def guarded(request: Request) -> Response:
            await _admit(request, sets)
            return await handle(request)

        return guarded


async def _admit(request: Request, sets: tuple[frozenset[str], ...]) -> None:
    keys: KeyRing = request.app.state.keys
    audit: AuditLog = request.app.state.audit
    if keys.is_due:
        await asyncio.to_thread(keys.refresh)
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    caller = keys.find(key.strip() if scheme.lower() == "bearer" else None)
    if caller is None:
        raise Refusal(401, headers={"WWW-Authenticate": "Bearer"})
    request.scope[CALLER] = caller
    if not any(scopes <= caller.scopes for scopes in sets):
        named = " or ".join(" and ".join(sorted(scopes)) for scopes in sets)
        raise Refusal(403, f"This key lacks the scope for that: {named}.")
    if audit.failed and not await asyncio.to_thread(audit.works):
        raise Refusal(503, NO_AUDIT)


async def _caller(request: Request) -> Caller:
    caller: Caller = request.scope[CALLER]
    return caller


CallerDep = Annotated[Caller, Depends(_caller)]
