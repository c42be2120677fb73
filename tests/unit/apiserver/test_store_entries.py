"""What a store holds of an object: its bytes for good, what is made of them for a while."""

import pytest

from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.store import store_port as store
from services.apiserver.store.store_port import Entry, Event, Kept, Key, encode_value


def entry(name: str, revision: int = 7, *, decoded: bool = False) -> Entry:
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": '"resourceVersion":""'}}
    return Entry(Key("", "configmaps", "ns", name), encode_value(obj), revision, obj if decoded else None)


@pytest.mark.parametrize("decoded", [True, False])
def test_an_entry_shows_its_revision_once_and_nowhere_else(decoded: bool) -> None:
    found = entry("a", decoded=decoded)
    assert found.raw.count(b'"resourceVersion":"7"') == 1
    assert found.obj["metadata"] == {"name": "a", "resourceVersion": "7"}
    assert found.obj["data"] == {"k": '"resourceVersion":""'}


def test_decoded_object_is_shared_until_dropped() -> None:
    found = entry("a")
    first = found.obj
    assert found.obj is first
    found.drop()
    assert found.obj is not first
    assert found.obj == first


def test_a_look_at_an_object_does_not_keep_it_decoded() -> None:
    found = entry("a")
    assert found.look() == found.look()
    assert found.look() is not found.look()
    kept = found.obj
    assert found.look() is kept


def test_oldest_decoded_objects_are_dropped_first() -> None:
    dropped: list[str] = []

    class Spare:
        def __init__(self, name: str) -> None:
            self.name = name

        def drop(self) -> None:
            dropped.append(self.name)

    kept = Kept(100)
    for name, size in (("a", 40), ("b", 40), ("c", 40), ("huge", 1000), ("d", 1)):
        kept.add(Spare(name), size)
    assert dropped == ["a", "b", "c", "huge"]


def test_entries_that_were_read_do_not_stay_decoded_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_decoded", Kept(3 * len(entry("e0").raw)))
    entries = [entry(f"e{number}") for number in range(9)]
    first = [found.obj for found in entries]
    assert [found.obj is before for found, before in zip(entries[-3:], first[-3:], strict=True)] == [True] * 3
    assert entries[0].obj is not first[0]


def test_a_frame_is_made_once_per_form() -> None:
    made: list[str] = []
    event = Event(entry("a"), None, deleted=False)

    def make(form: str) -> bytes:
        made.append(form)
        return form.encode()

    for form in ("one", "two", "one"):
        assert event.frame(form, lambda form=form: make(form)) == form.encode()  # type: ignore[misc]  # bound now
    assert made == ["one", "two"]
    event.drop()
    assert event.frame("one", lambda: make("one")) == b"one"
    assert made == ["one", "two", "one"]


def test_bytes_are_shown_as_stored_only_where_the_object_is() -> None:
    kinds = [kind for kind in builtin_registry().all() if not kind.virtual]
    as_stored = {kind.resource.group_resource for kind in kinds if kind.shown_as_stored}
    assert {"deployments.apps", "events", "configmaps"} <= as_stored
    for kind in kinds:
        obj = {"apiVersion": f"{kind.store_group}/{kind.store_version}".lstrip("/"), "kind": kind.resource.kind}
        obj |= {"metadata": {}, "spec": {}, "involvedObject": {"name": "x"}}
        assert not kind.shown_as_stored or kind.from_store(obj) is obj
