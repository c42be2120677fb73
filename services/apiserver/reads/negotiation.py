"""Which form of answer a request accepts: JSON or YAML, and whether as the object, a Table or its metadata only."""

from functools import lru_cache
from typing import Final

import msgspec

from services._rules.kubernetes.content_negotiation import OFFERED, YAML, clauses, names_offered, view_of
from services.apiserver.core.status_errors import ApiError
from services.apiserver.kinds.kind_model import Kind

AGGREGATED: Final = "APIGroupDiscoveryList"
_STREAMED = tuple(f"{media};stream=watch" for media in OFFERED if media != YAML)


class Form(msgspec.Struct, frozen=True):
    """An answer's form; `view` is empty for the object itself, `version` that of meta.k8s.io for the other views."""

    yaml: bool = False
    view: str = ""
    version: str = "v1"


def not_acceptable(accepted: tuple[str, ...] = OFFERED) -> ApiError:
    """406 that says what is accepted."""
    text = f"only the following media types are accepted: {', '.join(accepted)}"
    return ApiError(406, "NotAcceptable", text)


@lru_cache(maxsize=512)
def negotiate(accept: str) -> Form | None:
    """The best form for an Accept header; None when nothing fits."""
    if not accept:
        return Form()
    for clause in clauses(accept):
        for media in OFFERED:
            asked = view_of(clause.parameters, media) if clause.takes(media) else None
            if asked is not None and clause.parameters.get("stream", "watch") in ("", "watch"):
                view, version = asked
                return Form(yaml=media == YAML, view=view, version=version)
    return None


def form_of_resource(accept: str, *, custom: bool) -> Form:
    """The form of an answer about a resource; raises 406.

    Paths of built-in kinds want a media type in full, before they look at its parameters.
    """
    if not custom and not names_offered(accept):
        raise ApiError(406, "NotAcceptable", "406: Not Acceptable", {})
    form = negotiate(accept)
    if form is None:
        raise not_acceptable()
    return form


def form_of_watch(form: Form) -> Form:
    """The form of a watch; raises 406 for YAML, which has no frames."""
    if form.yaml:
        raise not_acceptable(_STREAMED)
    # Events hold single objects, which are no lists of metadata.
    return msgspec.structs.replace(form, view="") if form.view == "PartialObjectMetadataList" else form


def refuse_other_number(form: Form, kind: Kind, *, single: bool) -> None:
    """Refuse a list of metadata for one object, and the metadata of one for a list; raises 406."""
    if not form.view.startswith("Partial") or form.view.endswith("List") != single:
        return
    what, name = ("not a list", kind.resource.kind) if single else ("a list", f"{kind.resource.kind}List")
    go_type = f"*{_package_of(kind)}.{name}"
    if kind.custom:
        go_type = f"*unstructured.{'Unstructured' if single else 'UnstructuredList'}"
    text = f"you requested {form.view}, but the requested object is {what} ({go_type})"
    raise ApiError(406, "NotAcceptable", text)


def _package_of(kind: Kind) -> str:
    """Where the type of a kind is, as it is named to clients; events of both groups are one type."""
    group = kind.resource.group.partition(".")[0]
    return {"": "core", "events": "core", "extensions": "networking"}.get(group, group)


@lru_cache(maxsize=64)
def discovery_version(accept: str) -> str:
    """The apidiscovery.k8s.io version an Accept header asks for; empty when it wants the plain documents."""
    for media, _, parameters in clauses(accept):
        if media not in ("application/json", "*/*"):
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
