"""A binding shows who depends on it, and where those run."""

from __future__ import annotations

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from services._rules.identities import binding_id
from services._rules.names import binding_reference_key
from services.gateway.views import binding_views as bindings
from services.gateway.views.owner_views import MOST
from tests.integration.gateway.story import NGINX, placed, requested
from tests.unit.gateway.gateway_facts import Shown, entries
from tests.unit.pipeline.test_dependencies_delivered import APP, attached

REFERENCES = [{"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": "app"}]
DEPENDED_BY = "resourcebinding.karmada.io/depended-by-"


def owner(name="nginx", requires=(APP,)):
    key = replace(NGINX, name=name)
    return replace(requested(), key=key, requires=requires, dependencies=Raw(msgspec.json.encode(REFERENCES)))


def shown(story, name="app-configmap"):
    (entry,) = [entry for entry in entries(story.catalog.bindings) if entry.key.name == name]
    body = bindings.build(entry.source, entry.version, "work.karmada.io/v1alpha2")
    return msgspec.json.decode(msgspec.json.encode(body))


def test_an_attached_binding_names_its_owners():
    story = Shown(attached(), owner(), placed(m1=2))
    body = shown(story)
    clusters = shown(story, "nginx-deployment")["spec"]["clusters"]
    assert body["spec"]["requiredBy"] == [{"namespace": "default", "name": "nginx-deployment", "clusters": clusters}]
    assert "clusters" not in body["spec"]
    assert "placement" not in body["spec"]
    label = DEPENDED_BY + binding_reference_key("default", "nginx-deployment")
    assert body["metadata"]["labels"][label] == binding_id(NGINX, "u1")
    assert body["metadata"]["ownerReferences"][0]["kind"] == "ConfigMap"


def test_an_owner_carries_its_dependencies():
    metadata = shown(Shown(attached(), owner()), "nginx-deployment")["metadata"]
    assert msgspec.json.decode(metadata["annotations"]["resourcebinding.karmada.io/dependencies"]) == REFERENCES
    assert metadata["finalizers"] == [
        "karmada.io/binding-controller",
        "karmada.io/binding-dependencies-distributor",
    ]


def test_it_is_shown_again_when_an_owner_moves_or_leaves():
    story = Shown(attached(), owner())
    assert "clusters" not in shown(story)["spec"]["requiredBy"][0]
    before = shown(story)["metadata"]["resourceVersion"]
    story.tell(placed(m1=2))
    assert shown(story)["spec"]["requiredBy"][0]["clusters"]
    assert int(shown(story)["metadata"]["resourceVersion"]) > int(before)
    story.tell(owner(requires=()))
    body = shown(story)
    assert "requiredBy" not in body["spec"]
    assert not [label for label in body["metadata"]["labels"] if label.startswith(DEPENDED_BY)]


def test_owners_beyond_a_number_are_counted():
    story = Shown(attached(), *(owner(f"web-{number:04}") for number in range(MOST + 5)))
    body = shown(story)
    assert len(body["spec"]["requiredBy"]) == MOST
    assert body["metadata"]["annotations"][bindings.OWNERS_ANNOTATION] == str(MOST + 5)
