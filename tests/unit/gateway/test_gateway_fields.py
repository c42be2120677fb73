"""Every field of Karmada's bindings and works is shown from some fact, or is listed here with the reason why not."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from schemas.events.eviction import EvictionRequested, EvictionTask
from schemas.events.placement import PlacementDecided, TargetCluster
from schemas.events.rollup import ClusterStatusItem, StatusRolledUp
from services.gateway.views import binding_views as bindings
from services.gateway.views import work_views as works
from tests.golden.runners.api_fields import definitions, fields_of
from tests.integration.gateway.story import CREATED, NGINX, observed, raw, rendered, requested
from tests.unit.gateway.gateway_facts import Shown, entries

GROUP = "work.karmada.io"
TASK = EvictionTask(
    from_cluster="member1",
    purge_mode="Gracefully",
    replicas=1,
    reason="TaintUntolerated",
    message="why",
    producer="TaintManager",
    grace_period_seconds=600,
    suppress_deletion=False,
    preserved_state={"label": "value"},
    created_at=CREATED,
    clusters_before=("member1",),
)
NOT_SHOWN = {
    ".spec.clusters[].components": "no fact has the components of a cluster; the scheduler places whole sets",
    ".status.conditions[].observedGeneration": "Karmada leaves it out, too",
}
"""Fields, with all below them, that no fact gives; one that is shown after all has to leave this list."""


def schema(plural, version="v1alpha2"):
    """The schema of a kind, as its definition has it."""
    (found,) = [item for item in definitions()[GROUP, plural]["versions"] if item["name"] == version]
    return found["schema"]["openAPIV3Schema"]


def sample(part):
    """A value with every field of a schema."""
    if part.get("x-kubernetes-preserve-unknown-fields"):
        return {"any": 1}
    if "properties" in part:
        return {name: sample(inner) for name, inner in part["properties"].items()}
    if "additionalProperties" in part:
        return {"key": sample(part["additionalProperties"])}
    if "items" in part:
        return [sample(part["items"])]
    if part.get("format") == "date-time":
        return "2023-11-14T22:13:20Z"
    plain = {"string": "text", "integer": 1, "boolean": True, "object": {}}
    return part["enum"][0] if "enum" in part else plain[part.get("type", "string")]


def paths(value, part, path=""):
    """The fields of a schema that a value has, as the recording writes them."""
    yield path or "."
    if isinstance(value, list):
        for item in value:
            yield from paths(item, part["items"], f"{path}[]")
    elif isinstance(value, dict):
        for name, inner in value.items():
            if name in part.get("properties", {}):
                yield from paths(inner, part["properties"][name], f"{path}.{name}")
            elif "additionalProperties" in part:
                yield from paths(inner, part["additionalProperties"], f"{path}{{}}")


def missing(body, part):
    """Fields of a schema that a body does not have."""
    body = msgspec.json.decode(msgspec.json.encode(body))
    shown = set(paths(body, part))
    return {field["path"] for field in fields_of(part)} - shown


def request(part, key=NGINX, kind="Deployment"):
    """A request whose spec has every field but those that other facts give."""
    spec = sample(part["properties"]["spec"])
    given = {name: value for name, value in spec.items() if name not in ("clusters", "gracefulEvictionTasks")}
    return replace(requested(key, kind=kind), spec=raw(given))


def bound(part, key=NGINX, kind="Deployment"):
    """A binding with every facet."""
    decided = PlacementDecided(
        key=key,
        uid="u1",
        clusters=(TargetCluster("member2", 2),),
        binding_generation=1,
        affinity_name="one",
        scheduled_at=CREATED,
        changes=1,
        observed_generation=2,
    )
    item = ClusterStatusItem(
        cluster="member2", applied=True, message="said", health="Healthy", status=raw({"replicas": 1})
    )
    shown = Shown(
        request(part, key, kind),
        decided,
        EvictionRequested(key=key, uid="u1", tasks=(TASK,), changes=1),
        StatusRolledUp(key=key, uid="u1", items=(item,)),
    )
    (entry,) = [*entries(shown.catalog.bindings), *entries(shown.catalog.cluster_bindings)]
    return entry


def unlisted(fields):
    """Fields that are neither on the list nor below one that is."""
    return {name for name in fields if not any(name == item or name.startswith(f"{item}[") for item in NOT_SHOWN)}


@pytest.mark.parametrize("plural", ["resourcebindings", "clusterresourcebindings"])
def test_every_field_of_a_binding_is_shown(plural) -> None:
    part = schema(plural)
    key, kind = (NGINX, "Deployment") if plural == "resourcebindings" else (replace(NGINX, namespace=""), "ClusterRole")
    entry = bound(part, key, kind)
    lacking = missing(bindings.build(entry.source, entry.version), part)
    assert unlisted(lacking) == set()


def test_listed_fields_are_really_not_shown() -> None:
    part = schema("resourcebindings")
    entry = bound(part)
    lacking = missing(bindings.build(entry.source, entry.version), part)
    assert NOT_SHOWN.keys() <= lacking


def test_every_field_of_an_older_binding_is_shown() -> None:
    part = schema("resourcebindings", "v1alpha1")
    entry = bound(schema("resourcebindings"))
    lacking = missing(bindings.build(entry.source, entry.version, "work.karmada.io/v1alpha1"), part)
    assert unlisted(lacking) == set()


def test_every_field_of_a_work_is_shown() -> None:
    part = schema("works", "v1alpha1")
    shown = Shown(rendered("member1"), observed("member1"))
    (entry,) = entries(shown.catalog.works)
    lacking = missing(works.build(entry.source, entry.version, entry.created), part)
    assert unlisted(lacking) == set()


def test_a_binding_has_the_metadata_of_a_controlled_object() -> None:
    entry = bound(schema("resourcebindings"))
    metadata = bindings.build(entry.source, entry.version)["metadata"]
    assert set(metadata) == {
        *("name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp"),
        *("labels", "annotations", "ownerReferences", "finalizers"),
    }
    assert metadata["generation"] == 3
