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

Schema = dict[str, Any]

TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")


class Demands(msgspec.Struct, frozen=True, kw_only=True):
    """What a definition has to satisfy beside the rules that always hold; the defaults are those of a new one."""

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


def of_changed(new: Manifest, old: Manifest, *, established: bool) -> Demands:
    """Return what is demanded of a definition that replaces `old`; `established` says whether that one is."""
    spec = old["spec"]
    schemas = list(schemas_of(spec))
    parts = [part for schema in schemas for part in every_schema(schema)]
    conversion = spec.get("conversion") or {}
    webhook = conversion.get("webhook") or {}
    reviews = webhook.get("conversionReviewVersions") or ()
    bundle = (webhook.get("clientConfig") or {}).get("caBundle")
    return Demands(
        schemas=len(schemas) == len(spec.get("versions") or ()),
        known_types=all(not part.get("type") or part["type"] in TYPES for part in parts),
        structural=not any(map(_loose, schemas)),
        pruned_defaults=not any(map(_unpruned, schemas)),
        atomic_sets=not any(True for part in parts for _ in check_set_items(part, "")),
        identity=not any(True for part in parts for _ in check_identity(part, "")),
        known_reviews=not reviews or any(name in REVIEW_VERSIONS for name in reviews),
        sound_bundle=established and (not bundle or readable_bundle(bundle)),
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
