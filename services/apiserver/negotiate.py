"""Which form of answer a request accepts: JSON or YAML, and whether as the object, a Table or its metadata only."""

from functools import lru_cache

import msgspec

from services.apiserver.status import ApiError

_ACCEPTED = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
_VIEWS = {"Table", "PartialObjectMetadata", "PartialObjectMetadataList"}


class Form(msgspec.Struct, frozen=True):
    """An answer's form; `view` is empty for the object itself, `version` that of meta.k8s.io for the other views."""

    yaml: bool = False
    view: str = ""
    version: str = "v1"


def not_acceptable(accepted: tuple[str, ...] = _ACCEPTED) -> ApiError:
    text = f"only the following media types are accepted: {', '.join(accepted)}"
    return ApiError(406, "NotAcceptable", text)


@lru_cache(maxsize=512)
def negotiate(accept: str, *, views: bool = True) -> Form | None:
    """The best form for an Accept header; None when nothing fits.

    Protobuf is taken as a wish that JSON fulfils, since every client that sends it reads JSON too.
    """
    if not accept:
        return Form()
    clauses: list[tuple[float, int, str, dict[str, str]]] = []
    for position, clause in enumerate(accept.split(",")):
        media, *rest = (p.strip() for p in clause.split(";"))
        params = dict(p.partition("=")[::2] for p in rest)
        try:
            quality = float(params.pop("q", "1"))
        except ValueError:
            quality = 1.0
        clauses.append((-quality, position, media, params))
    for _, _, media, params in sorted(clauses, key=lambda c: (c[0], c[1])):
        view = params.get("as", "")
        if view and (not views or view not in _VIEWS or params.get("g", "meta.k8s.io") != "meta.k8s.io"):
            continue
        version = params.get("v", "v1")
        if view and version not in ("v1", "v1beta1"):
            continue
        if media in ("application/json", "*/*", "application/*", "application/vnd.kubernetes.protobuf"):
            return Form(view=view, version=version)
        if media in ("application/yaml", "application/x-yaml"):
            return Form(yaml=True, view=view, version=version)
    return None
