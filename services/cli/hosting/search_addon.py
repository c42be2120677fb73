"""The add-on karmada-search: the APIService by which a control plane sends it searches.

Search works on without it; one that leads to nothing makes every kubectl complain.
"""

from __future__ import annotations

from typing import Final

from services.cli.common.running import Failed, complain
from services.cli.hosting import metrics_adapter
from services.cli.hosting.addon_options import Reached
from services.cli.hosting.rolling_out import path_of, put, remove
from services.cli.installation.certificate_files import SEARCH_PORT
from services.cli.installation.gateway_setup import GATEWAY_OF
from services.cli.search.search_setup import api_service, search_service

_VERSION: Final = "apiregistration.k8s.io/v1"
_NAME: Final = api_service("", SEARCH_PORT)["metadata"]["name"]


async def enable(options: Reached, namespace: str) -> None:
    """Have search asked; a note says where the control plane is not known."""
    try:
        async with metrics_adapter.reached(options) as control:
            # The same authority signs for both.
            gateway = await control.get(path_of("APIService", _VERSION, "", GATEWAY_OF.name))
            await put(control, search_service(f"search.{namespace}.svc"))
            await put(control, api_service(gateway["spec"]["caBundle"], SEARCH_PORT))
    except Failed as error:
        complain(f"note: the control plane sends it no searches: {error}")


async def disable(options: Reached) -> None:
    """Have search asked no more."""
    try:
        async with metrics_adapter.reached(options) as control:
            await remove(control, path_of("APIService", _VERSION, "", _NAME))
    except Failed as error:
        complain(f"note: the control plane still has APIService {_NAME}: {error}")
