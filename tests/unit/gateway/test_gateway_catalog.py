"""The catalog keeps names, orders and changes so that lists and watches tell the same story."""

from __future__ import annotations

import random

import pytest

from schemas.keys import ObjectKey
from services.gateway.views.catalog import Gone
from tests.integration.gateway.story import CREATED, NGINX, observed, placed, released, rendered, requested, withdrawn
from tests.unit.gateway.gateway_facts import Shown

MAKERS = (
    (requested, {}),
    (released, {}),
    (placed, {"member1": 1}),
    (rendered, {}),
    (withdrawn, {}),
    (observed, {}),
    (observed, {"applied": False, "absent": True}),
)


def key_of(index, namespace="default", group="apps", resource="deployments"):
    return ObjectKey(group=group, resource=resource, namespace=namespace, name=f"n{index}")


def replay(changes, held):
    """What a client holds after a watch."""
    held = dict(held)
    for change in changes:
        if change.after is None:
            del held[change.before.name]
        else:
            assert (change.before is None) == (change.after.name not in held)
            held[change.after.name] = change.after.version
    return held


@pytest.mark.parametrize("seed", range(20))
def test_watch_from_any_revision_ends_with_the_list(seed):
    chance = random.Random(seed)
    shown = Shown()
    seen = []
    for _ in range(60):
        index = chance.randrange(5)
        key, uid = key_of(index), f"u{index}-{chance.randrange(2)}"
        make, facts = chance.choice(MAKERS)
        event = make(key, uid, **facts) if make in (requested, released, placed) else make("member1", key, uid, **facts)
        shown.tell(event)
        for collection in (shown.catalog.bindings, shown.catalog.works):
            held = {name: entry.version for name, entry in collection.entries.items()}
            seen.append((collection, collection.revision, held))
    for collection, revision, held in seen:
        now = {name: entry.version for name, entry in collection.entries.items()}
        assert replay(collection.since(revision), held) == now
        assert collection.names == sorted(collection.entries)


def test_every_change_moves_the_revision_of_a_work_forward():
    shown = Shown()
    versions = []
    for event in (
        rendered("member1"),
        observed("member1"),
        rendered("member1"),
        observed("member1", health="Unhealthy"),
    ):
        shown.tell(event)
        (entry,) = shown.catalog.works.entries.values()
        versions.append(int(entry.version))
    assert versions == sorted(set(versions))


def test_revisions_of_works_belong_to_their_instance():
    shown = Shown(tag=7)
    shown.tell(rendered("member1"))
    revision, ours = shown.catalog.works.parse(int(shown.catalog.works.version()))
    assert (revision, ours) == (1, True)
    assert shown.catalog.works.parse(int(Shown(tag=8).catalog.works.version()))[1] is False


def test_changes_below_the_ring_are_gone():
    shown = Shown(ring=4)
    for generation in range(1, 20):
        shown.tell(requested(generation=generation))
    collection = shown.catalog.bindings
    assert len(collection.since(collection.floor)) <= 8
    with pytest.raises(Gone):
        collection.since(collection.floor - 1)


def test_two_kinds_that_want_one_name_take_turns_by_age():
    young, old = key_of(1, group="apps.kruise.io"), key_of(1)
    shown = Shown(requested(young, "y", created_at=CREATED + 5), requested(old, "o", created_at=CREATED))
    (entry,) = shown.catalog.bindings.entries.values()
    assert entry.place.key == old
    shown.tell(requested(young, "y", created_at=CREATED + 5, generation=2))
    assert [entry.place.key for entry in shown.catalog.bindings.entries.values()] == [old]
    shown.tell(released(old, "o"))
    assert [entry.place.key for entry in shown.catalog.bindings.entries.values()] == [young]
    shown.tell(released(young, "y"))
    assert not shown.catalog.bindings.entries


def test_selection_by_namespace_is_ordered_and_continues():
    shown = Shown()
    for namespace in ("shop", "default"):
        shown.tell(*(requested(key_of(i, namespace), f"{namespace}{i}") for i in range(3)))
    collection = shown.catalog.bindings
    assert [entry.name[0] for entry in collection.select()] == ["default"] * 3 + ["shop"] * 3
    names = [entry.name[1] for entry in collection.select("shop", ("shop", "n0-deployment"))]
    assert names == ["n1-deployment", "n2-deployment"]


def test_an_entry_under_way_keeps_showing_its_own_state():
    shown = Shown(requested(generation=1))
    (before,) = shown.catalog.bindings.entries.values()
    shown.tell(requested(generation=2), placed(member1=1))
    assert before.metadata()["generation"] == 1
    assert before.place.key == NGINX
