"""Reads all objects of a kind from the control plane, page by page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import structlog

from schemas.manifest import Manifest
from services._kit.kube.client import ApiError, KubeClient, Unreachable, resource_path

log = structlog.get_logger("status_aggregator")

_PAGE: Final = "500"


async def present_objects(client: KubeClient, group: str, version: str, resource: str) -> AsyncIterator[Manifest]:
    """Every object of a kind; ends early, with a warning in the log, where it cannot be listed."""
    params = {"limit": _PAGE}
    path = resource_path(group, version, resource)
    try:
        while True:
            page = await client.get(path, params=params)
            for item in page.get("items") or ():
                yield item
            following = (page.get("metadata") or {}).get("continue")
            if not following:
                return
            params = {"limit": _PAGE, "continue": following}
    except (ApiError, Unreachable) as error:
        log.warning("present_status_unknown", kind=resource, error=str(error))
