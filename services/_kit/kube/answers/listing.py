"""Reads a whole list page by page within limits, and yields the event loop between pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec import Raw

from services._kit.kube.answers.bodies import TooLarge
from services._kit.kube.answers.pages import FIRST_PAGE, SMALLEST_PAGE, Page, next_size
from services._kit.kube.api import BadAnswer

if TYPE_CHECKING:
    from services._kit.kube.client import KubeClient

_LONGEST_TOKEN = 16 << 10


async def each_item(
    client: KubeClient, path: str, take: Callable[[Raw], None], params: Mapping[str, str] | None = None
) -> str:
    """Hand every object of a list to `take`, in the order of the list; the list's resourceVersion.

    Pages are as large as a few milliseconds of work and the limit of an answer allow. Raises ApiError, Unreachable,
    BadAnswer for what is no complete list or exceeds a limit, and what `take` raises.
    """
    limits = client.limits
    size, following = FIRST_PAGE, ""
    pages = objects = 0
    seen: set[int] = set()

    def taken(raw: Raw) -> None:
        nonlocal objects
        objects += 1
        if objects > limits.list_objects:
            raise BadAnswer(f"the list has more than {limits.list_objects} objects")
        take(raw)

    try:
        while True:
            asked = {**(params or {}), "limit": str(size)}
            if following:
                asked["continue"] = following
            try:
                data = await client.request("GET", path, params=asked)
            except TooLarge:
                if size <= SMALLEST_PAGE:
                    raise
                size = max(SMALLEST_PAGE, size // 8)
                continue
            page = Page(data, limits)
            await client.share.each(page, taken)
            following = page.meta.next
            if not following:
                return page.meta.resource_version
            pages += 1
            _check_token(following, seen)
            if pages >= limits.list_pages:
                raise BadAnswer(f"the list has more than {limits.list_pages} pages")
            size = next_size(size, len(data))
    except TooLarge:
        raise
    except BadAnswer as error:
        text = str(error)
        if path in text:
            raise
        raise BadAnswer(f"GET {client.server}{path}, page {pages + 1}: {text}") from error


def _check_token(token: str, seen: set[int]) -> None:
    """Raise BadAnswer for a token that was there before, or cannot be sent."""
    if len(token) > _LONGEST_TOKEN:
        raise BadAnswer(f"the continue token has {len(token)} characters")
    if hash(token) in seen:
        raise BadAnswer("a continue token is repeated: the list would never end")
    seen.add(hash(token))
