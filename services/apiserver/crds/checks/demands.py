"""What is demanded of a definition: all of a new one, and of a changed one nothing that it lacked before."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from schemas.manifest import Manifest
from services.apiserver.crds.checks.conversion_webhooks import REVIEW_VERSIONS, readable_bundle
from services.apiserver.crds.checks.default_values import has_unpruned_defaults
from services.apiserver.crds.checks.list_types import check_identity, check_set_items
from services.apiserver.crds.checks.selectable_fields import MOST
from services.apiserver.crds.structural import any_schema, check_structural, every_schema, inconvertible
from services.apiserver.kinds.builtin import NEWEST

Schema = dict[str, Any]

TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_BUNDLES_SINCE: Final = 31
"""The first release that reads the certificates of conversion webhooks."""
_BETA_DEFAULTS: Final = (
    "(cannot set default values in apiextensions.k8s.io/v1beta1 CRDs, must use apiextensions.k8s.io/v1)"
)


class Demands(msgspec.Struct, frozen=True, kw_only=True):
    """What a definition has to satisfy beside the rules that always hold; the defaults are those of a new one in v1."""

    release: int = NEWEST
    """The minor release whose behaviour is wanted."""
    no_defaults: str | None = None
    """Why schemas may have no defaults; None where they may."""
    schemas: bool = True
    """Each version has a schema."""
    known_types: bool = True
    structural: bool = True
    pruned_defaults: bool = True
    atomic_sets: bool = True
    """Items of sets are compared as a whole."""
    identity: bool = True
    """Items of sets and maps are never null, and items of maps have their keys."""
    known_reviews: bool = True
    """A conversion webhook takes a version of ConversionReview that is understood."""
    sound_bundle: bool = False
    """The certificates of a conversion webhook can be read."""
    any_selectable: tuple[str, ...] = ()
    """Names of versions that may have any number of selectable fields; the empty one stands for the whole spec."""


def of_new(release: int, *, beta: bool) -> Demands:
    """Return what is demanded of a new definition; `beta` for one in v1beta1."""
    if not beta:
        return Demands(release=release)
    return Demands(release=release, no_defaults=_BETA_DEFAULTS, schemas=False, known_types=False, structural=False)


def of_changed(new: Manifest, old: Manifest, release: int, *, beta: bool, established: bool) -> Demands:
    """Return what is demanded of a definition that replaces `old`; `established` says whether that one is."""
    begin, spec = of_new(release, beta=beta), old["spec"]
    schemas = list(schemas_of(spec))
    parts = [part for schema in schemas for part in every_schema(schema)]
    conversion = spec.get("conversion") or {}
    webhook = conversion.get("webhook") or {}
    reviews = webhook.get("conversionReviewVersions") or ()
    bundle = (webhook.get("clientConfig") or {}).get("caBundle")
    return Demands(
        release=release,
        no_defaults=None if any("default" in part for part in parts) else begin.no_defaults,
        schemas=begin.schemas and len(schemas) == len(spec.get("versions") or ()),
        known_types=begin.known_types and all(not part.get("type") or part["type"] in TYPES for part in parts),
        structural=begin.structural and not any(map(_loose, schemas)),
        pruned_defaults=not any(map(_unpruned, schemas)),
        atomic_sets=not any(True for part in parts for _ in check_set_items(part, "")),
        identity=not any(True for part in parts for _ in check_identity(part, "")),
        known_reviews=not reviews or any(name in REVIEW_VERSIONS for name in reviews),
        sound_bundle=release >= _BUNDLES_SINCE and established and (not bundle or readable_bundle(bundle)),
        any_selectable=tuple(_many_selectable(new["spec"], spec)),
    )


def schemas_of(spec: Manifest) -> Iterator[Schema]:
    """Iterate over the schemas of the versions that have one."""
    for version in spec.get("versions") or ():
        if (schema := (version.get("schema") or {}).get("openAPIV3Schema")) is not None:
            yield schema


def _loose(schema: Schema) -> bool:
    return bool(inconvertible(schema) or check_structural(schema, ""))


def _unpruned(schema: Schema) -> bool:
    return any_schema(schema, lambda part: "default" in part) and not _loose(schema) and has_unpruned_defaults(schema)


def _many_selectable(new: Manifest, old: Manifest) -> Iterator[str]:
    before = {version["name"]: version.get("selectableFields") or [] for version in old.get("versions") or ()}
    now = {version.get("name", ""): version.get("selectableFields") or [] for version in new.get("versions") or ()}
    kept = [name for name, fields in now.items() if len(fields) > MOST and before.get(name) == fields]
    yield from kept
    # Fields that all versions share are checked once, for all of them.
    if kept and len(kept) == len(now) == len(before):
        yield ""
