"""Which form of answer a request accepts: JSON or YAML, and whether as the object, a Table or its metadata only."""

from functools import lru_cache
from typing import Final

import msgspec

from services._rules.kubernetes.content_negotiation import JSON, clauses, view_of
from services.apiserver.core.status_errors import ApiError

AGGREGATED: Final = "APIGroupDiscoveryList"
_ACCEPTED = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")


class Form(msgspec.Struct, frozen=True):
    """An answer's form; `view` is empty for the object itself, `version` that of meta.k8s.io for the other views."""

    yaml: bool = False
    view: str = ""
    version: str = "v1"


def not_acceptable(accepted: tuple[str, ...] = _ACCEPTED) -> ApiError:
    text = f"only the following media types are accepted: {', '.join(accepted)}"
    return ApiError(406, "NotAcceptable", text)


@lru_cache(maxsize=512)
def negotiate(accept: str) -> Form | None:
    """The best form for an Accept header; None when nothing fits."""
    if not accept:
        return Form()
    for media, parameters in clauses(accept):
        asked = view_of(parameters)
        if asked is None:
            continue
        view, version = asked
        if media in JSON:
            return Form(view=view, version=version)
        if media in ("application/yaml", "application/x-yaml"):
            return Form(yaml=True, view=view, version=version)
    return None


@lru_cache(maxsize=64)
def discovery_version(accept: str) -> str:
    """The apidiscovery.k8s.io version an Accept header asks for; empty when it wants the plain documents."""
    for media, parameters in clauses(accept):
        if media not in ("application/json", "*/*", ""):
            continue
        if parameters.get("as") == AGGREGATED and parameters.get("g") == "apidiscovery.k8s.io":
            if parameters.get("v") in ("v2", "v2beta1"):
                return parameters["v"]
        elif not parameters.get("as"):
            return ""
    return ""


def discovery_media(version: str) -> str:
    """The media type of aggregated discovery."""
    return f"application/json;g=apidiscovery.k8s.io;v={version};as={AGGREGATED}"
