"""The catalog keeps names, orders and changes so that lists and watches tell the same story."""

from __future__ import annotations

import random

import pytest

from schemas.keys import ObjectKey
from services.apiserver.store.store_port import Compacted
from services.gateway.views.view_shapes import GROUP
from tests.integration.gateway.story import CREATED, NGINX, observed, placed, released, rendered, requested, withdrawn
from tests.unit.gateway.gateway_facts import Shown, entries

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


def replay(events, held):
    """What a client holds after a watch."""
    held = dict(held)
    for event in events:
        name = event.entry.key
        if event.deleted:
            del held[name]
        else:
            assert (event.prev is None) == (name not in held)
            held[name] = event.entry.revision
    return held


def watch(collection, revision):
    return collection.watch(GROUP, collection._resource, revision)


@pytest.mark.parametrize("seed", range(20))
async def test_watch_from_any_revision_ends_with_the_list(seed):
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
            held = {entry.key: entry.revision for entry in entries(collection)}
            seen.append((collection, collection.revision, held))
    for collection, revision, held in seen:
        now = {entry.key: entry.revision for entry in entries(collection)}
        assert replay(await watch(collection, revision).next(0), held) == now


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
        (entry,) = entries(shown.catalog.works)
        versions.append(int(entry.version))
    assert versions == sorted(set(versions))


def test_revisions_of_works_belong_to_their_instance():
    shown = Shown(tag=7)
    shown.tell(rendered("member1"))
    works, theirs = shown.catalog.works, Shown(tag=8)
    theirs.tell(rendered("member1"))
    assert works.own(works.revision) == works.revision
    assert theirs.catalog.works.own(works.revision) != works.revision
    with pytest.raises(Compacted):
        watch(theirs.catalog.works, works.revision)


def test_changes_below_the_ring_are_gone():
    shown = Shown(ring=4)
    for generation in range(1, 20):
        shown.tell(requested(generation=generation))
    collection = shown.catalog.bindings
    floor = collection.floor(GROUP, collection._resource)
    assert floor > 0
    assert watch(collection, floor)
    with pytest.raises(Compacted):
        watch(collection, floor - 1)


def test_two_kinds_that_want_one_name_take_turns_by_age():
    young, old = key_of(1, group="apps.kruise.io"), key_of(1)
    shown = Shown(requested(young, "y", created_at=CREATED + 5), requested(old, "o", created_at=CREATED))
    (entry,) = entries(shown.catalog.bindings)
    assert entry.place.key == old
    shown.tell(requested(young, "y", created_at=CREATED + 5, generation=2))
    assert [entry.place.key for entry in entries(shown.catalog.bindings)] == [old]
    shown.tell(released(old, "o"))
    assert [entry.place.key for entry in entries(shown.catalog.bindings)] == [young]
    shown.tell(released(young, "y"))
    assert not entries(shown.catalog.bindings)


def test_an_entry_under_way_keeps_showing_its_own_state():
    shown = Shown(requested(generation=1))
    (before,) = entries(shown.catalog.bindings)
    shown.tell(requested(generation=2), placed(member1=1))
    assert before.obj["metadata"]["generation"] == 1
    assert before.place.key == NGINX
