"""After a start, lists the present status of all templates by kind, so that only differing ones are written."""

from __future__ import annotations

import structlog

from schemas.events.template import TemplateChanged
from schemas.keys import ObjectKey
from services._kit.kube.client import ApiError, KubeClient, Unreachable, resource_path
from services.status_aggregator.state import AggregatorState
from services.status_aggregator.template_status import TemplateStatus

log = structlog.get_logger("status_aggregator")

_PAGE = "500"


async def remember_present(client: KubeClient, state: AggregatorState, status: TemplateStatus) -> None:
    """List every kind whose status is summed; a kind that cannot be listed is read object by object later."""
    kinds = {
        (key.group, template.api_version.rpartition("/")[2], key.resource)
        for key, reported in state.objects.items()
        if isinstance(template := reported.template, TemplateChanged)
        and status.offered(template.api_version, template.kind)
    }
    for group, version, resource in sorted(kinds):
        params = {"limit": _PAGE}
        path = resource_path(group, version, resource)
        try:
            while True:
                page = await client.get(path, params=params)
                for item in page.get("items") or ():
                    metadata = item["metadata"]
                    key = ObjectKey(group, resource, metadata.get("namespace", ""), metadata["name"])
                    status.remember(key, item)
                following = (page.get("metadata") or {}).get("continue")
                if not following:
                    break
                params = {"limit": _PAGE, "continue": following}
        except (ApiError, Unreachable) as error:
            log.warning("present_status_unknown", kind=resource, error=str(error))
