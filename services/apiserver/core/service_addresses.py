"""How the address of a Service is found, for what the server itself calls: webhooks and aggregated servers."""

from __future__ import annotations

from collections.abc import Callable

Resolver = Callable[[str, str, int], str | None]
"""(namespace, name, port) of a Service -> base URL of its backend, None when it cannot be found."""


class Unresolved(Exception):
    """Why an APIService has no backend address."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message
