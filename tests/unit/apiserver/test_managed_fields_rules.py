"""Who manages which field after plain writes and applies; conflicts, taking over, and giving up."""

import copy
import json
from typing import Any

import pytest

from services._rules.kubernetes.managed_fields.field_sets import read_fields
from services._rules.kubernetes.managed_fields.manager_entries import ANCIENT
from services._rules.kubernetes.managed_fields.schema_shapes import Shape
from services._rules.kubernetes.managed_fields.tracking import FieldOwnership, Writer
from services._rules.kubernetes.patch.json_patch import PatchError

STRING = {"type": "string"}
ITEM = {"type": "object", "properties": {"name": STRING, "image": STRING, "n": {"type": "integer"}}}
SELECTOR = {"type": "object", "properties": {"app": STRING}}
SCHEMA = {
    "type": "object",
    "properties": {
        "kind": STRING,
        "apiVersion": STRING,
        "metadata": {"type": "object", "properties": {"name": STRING, "uid": STRING, "labels": {
            "type": "object", "additionalProperties": STRING}, "annotations": {
            "type": "object", "additionalProperties": STRING}}},
        "data": {"type": "object", "additionalProperties": STRING},
        "spec": {
            "type": "object",
            "properties": {
                "items": {"type": "array", "items": ITEM, "x-kubernetes-patch-strategy": "merge",
                          "x-kubernetes-patch-merge-key": "name"},
                "set": {"type": "array", "items": STRING, "x-kubernetes-list-type": "set"},
                "plain": {"type": "array", "items": STRING},
                "selector": SELECTOR,
            },
        },
    },
}  # fmt: skip
EMPTY: dict[str, Any] = {"kind": "Thing", "apiVersion": "v1", "metadata": {}, "spec": {"items": None}}
OWN = FieldOwnership(SCHEMA, EMPTY, lambda schema: schema is SELECTOR)


def thing(**fields: Any) -> dict[str, Any]:
    return {"kind": "Thing", "apiVersion": "v1", "metadata": {"name": "a"}, **fields}


def writer(name: str, second: int = 0, version: str = "v1") -> Writer:
    return Writer(name, version, f"2026-01-01T00:00:{second:02d}Z")


def shown(entries: list) -> dict[str, Any]:
    return {f"{entry['manager']}/{entry['operation']}": entry["fieldsV1"] for entry in entries}


def with_managers(obj: dict, entries: list) -> dict:
    return {**obj, "metadata": {**obj["metadata"], "managedFields": entries}}


def apply(live: dict | None, name: str, config: dict, *, force: bool = False, second: int = 0) -> dict:
    kept = copy.deepcopy((live, config))
    merged, entries = OWN.applied(live, config, writer(name, second), force=force)
    assert (live, config) == kept
    return with_managers(merged, entries)


def test_create_owns_the_fields_it_sets() -> None:
    obj = thing(
        spec={"items": [{"name": "x", "image": "i"}], "set": ["s"], "plain": ["p"], "selector": {"app": "a"}},
        data={"k": "v"},
    )
    (entry,) = OWN.created(obj, writer("me"))
    item = {".": {}, "f:name": {}, "f:image": {}}
    assert entry == {
        "manager": "me",
        "operation": "Update",
        "apiVersion": "v1",
        "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {
            "f:data": {".": {}, "f:k": {}},
            "f:spec": {
                "f:items": {'k:{"name":"x"}': item},
                "f:set": {".": {}, 'v:"s"': {}},
                "f:plain": {},
                "f:selector": {},
            },
        },
    }


def test_update_owns_changed_fields_only() -> None:
    first = thing(data={"a": "1", "b": "2"})
    first = with_managers(first, OWN.created(first, writer("one")))
    second = thing(data={"a": "9", "b": "2", "c": "3"})
    entries = OWN.updated(second, first, writer("two", 1))
    assert shown(entries) == {
        "one/Update": {"f:data": {".": {}, "f:b": {}}},
        "two/Update": {"f:data": {"f:a": {}, "f:c": {}}},
    }
    gone = OWN.updated(thing(), with_managers(second, entries), writer("three", 2))
    assert gone == []


def test_an_update_that_changes_nothing_keeps_the_times() -> None:
    first = thing(data={"a": "1"})
    first = with_managers(first, OWN.created(first, writer("one")))
    assert OWN.updated(thing(data={"a": "1"}), first, writer("one", 30)) == first["metadata"]["managedFields"]


def test_one_empty_entry_resets_and_then_nothing_is_tracked() -> None:
    first = thing(data={"a": "1"})
    first = with_managers(first, OWN.created(first, writer("one")))
    assert OWN.updated(with_managers(thing(data={"a": "2"}), [{}]), first, writer("two")) == []
    assert OWN.updated(thing(data={"a": "3"}), thing(data={"a": "2"}), writer("two")) == []


def test_appliers_share_equal_values() -> None:
    live = apply(None, "m1", thing(data={"a": "1"}))
    live = apply(live, "m2", thing(data={"a": "1"}), second=1)
    assert shown(live["metadata"]["managedFields"]) == {
        "m1/Apply": {"f:data": {"f:a": {}}},
        "m2/Apply": {"f:data": {"f:a": {}}},
    }
    live = apply(live, "m1", thing(data={}))
    assert live["data"] == {"a": "1"}
    live = apply(live, "m2", thing(data={}))
    assert "data" not in live
    assert live["metadata"]["managedFields"] == []


def test_applying_the_same_again_changes_nothing() -> None:
    live = apply(None, "m1", thing(data={"a": "1"}))
    assert apply(live, "m1", thing(data={"a": "1"}), second=9) == live


def test_a_conflict_names_every_field_and_its_manager() -> None:
    live = apply(None, "m1", thing(data={"a": "1", "b": "1"}))
    changed = {**live, "data": {"a": "e", "b": "1"}}
    changed = with_managers(changed, OWN.updated(changed, live, writer("editor", 1)))
    with pytest.raises(PatchError) as caught:
        apply(changed, "m2", thing(data={"a": "2", "b": "2"}))
    error = caught.value
    assert (error.status, error.reason) == (409, "Conflict")
    assert error.details == {
        "causes": [
            {"reason": "FieldManagerConflict", "message": 'conflict with "m1"', "field": ".data.b"},
            {"reason": "FieldManagerConflict", "message": 'conflict with "editor" using v1', "field": ".data.a"},
        ]
    }
    assert error.message.startswith("Apply failed with 2 conflicts: conflicts with ")
    forced = apply(changed, "m2", thing(data={"a": "2", "b": "2"}), force=True)
    assert shown(forced["metadata"]["managedFields"]) == {"m2/Apply": {"f:data": {"f:a": {}, "f:b": {}}}}


def test_list_items_merge_by_key_and_go_with_their_last_manager() -> None:
    live = apply(None, "m1", thing(spec={"items": [{"name": "x", "image": "1"}]}))
    live = apply(live, "m2", thing(spec={"items": [{"name": "y", "image": "2"}, {"name": "x", "n": 5}]}), second=1)
    assert live["spec"]["items"] == [{"name": "x", "image": "1", "n": 5}, {"name": "y", "image": "2"}]
    with pytest.raises(PatchError, match=r'conflict with "m1": \.spec\.items\[name="x"\]\.image'):
        apply(live, "m2", thing(spec={"items": [{"name": "x", "image": "other"}]}))
    live = apply(live, "m2", thing(spec={"items": []}))
    assert live["spec"]["items"] == [{"name": "x", "image": "1"}]


def test_atomic_fields_conflict_as_a_whole() -> None:
    live = apply(None, "m1", thing(spec={"plain": ["x"], "selector": {"app": "a"}}))
    for spec, field in (({"plain": ["x", "y"]}, ".spec.plain"), ({"selector": {"app": "b"}}, ".spec.selector")):
        with pytest.raises(PatchError, match=f'conflict with "m1": {field}'):
            apply(live, "m2", thing(spec=spec))
    taken = apply(live, "m2", thing(spec={"plain": ["y"]}), force=True)
    assert taken["spec"]["plain"] == ["y"]


def test_fields_before_the_first_apply_have_a_manager() -> None:
    with pytest.raises(PatchError, match=r'conflict with "before-first-apply" using v1: \.data\.a'):
        apply(thing(data={"a": "1"}), "m1", thing(data={"a": "2"}))
    live = apply(thing(data={"a": "1"}), "m1", thing(data={"a": "1"}))
    assert shown(live["metadata"]["managedFields"]) == {
        "m1/Apply": {"f:data": {"f:a": {}}},
        "before-first-apply/Update": {"f:data": {".": {}, "f:a": {}}},
    }


def test_a_field_goes_with_the_last_of_what_was_applied_in_it() -> None:
    live = apply(None, "one", thing(spec={"items": [{"name": "x", "image": "i"}]}, data={"a": "1"}))
    live = apply(live, "two", thing(data={"b": "2"}))
    assert apply(live, "one", thing())["data"] == {"b": "2"}
    live = apply(apply(live, "one", thing()), "two", thing())
    assert live.keys() == {"kind", "apiVersion", "metadata"}
    assert live["metadata"]["name"] == "a"


def test_given_up_field_of_another_manager_is_kept() -> None:
    first = thing(data={"a": "1", "b": "2"})
    live = with_managers(first, OWN.created(first, writer("creator")))
    live = apply(live, "m1", thing(data={"a": "5"}), force=True)
    assert apply(live, "m1", thing(data={}))["data"] == {"b": "2"}


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (thing(odd="x"), ".odd: field not declared in schema"),
        (thing(data="str"), ".data: expected map, got &{str}"),
        (thing(spec={"plain": "x"}), ".spec.plain: expected list, got &{x}"),
        (thing(spec={"items": [{"name": "x", "n": "bad"}]}),
         ".spec.items[0].n: expected numeric (int or float), got *value.valueUnstructured"),
    ],
)  # fmt: skip
def test_configurations_that_do_not_fit_are_refused(config: dict, text: str) -> None:
    with pytest.raises(PatchError) as caught:
        apply(None, "m1", config)
    assert caught.value.message == f"failed to create typed patch object: {text}"


def test_the_oldest_updaters_are_folded_together() -> None:
    obj = thing(data={"k0": "v"})
    live = with_managers(obj, OWN.created(obj, writer("w00")))
    for index in range(1, 15):
        new = thing(data={**live["data"], f"k{index}": "v"})
        live = with_managers(new, OWN.updated(new, live, writer(f"w{index:02d}", index)))
    managers = [entry["manager"] for entry in live["metadata"]["managedFields"]]
    assert len(managers) == 10
    assert managers.count(ANCIENT) == 1
    owned: set = set()
    for entry in live["metadata"]["managedFields"]:
        owned |= read_fields(entry["fieldsV1"])
    assert {("f:data", f"f:k{index}") for index in range(15)} <= owned


LAST = "kubectl.kubernetes.io/last-applied-configuration"


def annotated(obj: dict, config: dict) -> dict:
    return {**obj, "metadata": {**obj["metadata"], "annotations": {LAST: json.dumps(config)}}}


def by_client(data: dict, config: dict) -> dict:
    """An object that a client-side apply of `config` left, and then lost some of it."""
    obj = annotated(thing(data=data), config)
    return with_managers(obj, OWN.created(obj, writer("kubectl-client-side-apply")))


def test_kubectl_takes_over_what_it_applied_from_its_side() -> None:
    live = by_client({"x": "1"}, thing(data={"x": "1"}))
    after = apply(live, "kubectl", thing(data={"x": "2"}), second=5)
    assert after["data"] == {"x": "2"}
    assert "f:x" not in shown(after["metadata"]["managedFields"])["kubectl-client-side-apply/Update"]["f:data"]
    with pytest.raises(PatchError, match="1 conflict"):
        apply(live, "someone", thing(data={"x": "2"}))


def test_kubectl_does_not_take_over_what_others_set_since() -> None:
    live = by_client({"x": "changed", "y": "1"}, thing(data={"x": "1", "y": "1"}))
    with pytest.raises(PatchError, match=r"1 conflict: .*\.data\.x"):
        apply(live, "kubectl", thing(data={"x": "2", "y": "2"}))


@pytest.mark.parametrize("text", ["{bad", "[1]", '{"apiVersion":"v2","data":{"x":"1"}}', '{"apiVersion":"v1","q":1}'])
def test_an_annotation_that_does_not_fit_hands_nothing_over(text: str) -> None:
    live = by_client({"x": "1"}, thing())
    live["metadata"]["annotations"][LAST] = text
    with pytest.raises(PatchError, match="1 conflict"):
        apply(live, "kubectl", thing(data={"x": "2"}))


def test_an_apply_of_kubectl_keeps_the_annotation_current() -> None:
    live = by_client({"x": "1"}, thing(data={"x": "1"}))
    config = thing(data={"x": "<2>"})
    after = apply(live, "kubectl", config)
    text = after["metadata"]["annotations"][LAST]
    assert json.loads(text) == config
    assert text.endswith("}\n")
    assert r"\u003c2\u003e" in text
    assert LAST not in apply(with_managers(thing(), []), "kubectl", config)["metadata"].get("annotations", {})


def test_subresources_have_managers_of_their_own() -> None:
    before = thing(data={"x": "1"})
    live = with_managers(before, OWN.created(before, writer("m")))
    new = {**live, "data": {"x": "2"}}
    scaled = Writer("m", "v1", "2026-01-01T00:00:09Z", "scale")
    entries = OWN.updated(new, live, scaled)
    assert [(entry["manager"], entry.get("subresource")) for entry in entries] == [("m", None), ("m", "scale")]
    with pytest.raises(PatchError, match=r'conflict with "m" with subresource "scale" using v1: \.data\.x'):
        apply(with_managers({**before, "data": {"x": "2"}}, entries), "a", thing(data={"x": "3"}))


def test_what_a_write_cannot_change_gets_no_manager() -> None:
    before = thing(data={"x": "1"})
    live = with_managers(before, OWN.created(before, writer("m")))
    to_spec = Writer("n", "v1", "2026-01-01T00:00:09Z", "", ("f:data",))
    assert OWN.updated({**live, "data": {"x": "2"}}, live, to_spec) == live["metadata"]["managedFields"]
    _, entries = OWN.applied(live, thing(data={"x": "3"}), to_spec)
    assert shown(entries) == shown(live["metadata"]["managedFields"])
    assert OWN.created(before, to_spec) == []


GOOD = {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}


@pytest.mark.parametrize(
    "entry",
    [
        {**GOOD, "operation": "Odd"},
        {**GOOD, "apiVersion": ""},
        {**GOOD, "fieldsType": "FieldsV2"},
        {**GOOD, "fieldsType": ""},
        {**GOOD, "fieldsV1": {"x": {}}},
        {**GOOD, "fieldsV1": {"f:a": {"k:{bad": {}}}},
        {**GOOD, "fieldsV1": {"k:[]": {}}},
        {**GOOD, "fieldsV1": {"v:": {}}},
        {**GOOD, "fieldsV1": {"i:x": {}}},
        {**GOOD, "fieldsV1": {"f:a": 5}},
        "x",
    ],
)
def test_managed_fields_that_make_no_sense_count_as_none(entry: object) -> None:
    before = thing(data={"x": "1"})
    live = with_managers(before, OWN.created(before, writer("m")))
    assert OWN.updated(with_managers(before, [entry]), live, writer("n", 5)) == live["metadata"]["managedFields"]
    assert shown(OWN.created(with_managers(before, [entry]), writer("n"))) == {
        "n/Update": {"f:data": {".": {}, "f:x": {}}}
    }


def test_managed_fields_that_make_sense_are_taken_over() -> None:
    before = thing(data={"x": "1"})
    live = with_managers(before, OWN.created(before, writer("m")))
    fields = {"f:data": {"f:x": {}, "f:l": {'k:{"a":1}': {".": {}}, 'v:"s"': {}, "i:0": {}}}}
    given = {**GOOD, "manager": "q", "fieldsV1": fields}
    assert shown(OWN.updated(with_managers(before, [given]), live, writer("n", 5))) == {"q/Update": fields}


def test_tracking_takes_each_item_as_often_in_long_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = 0
    element = Shape._element

    def counted(*given: Any) -> str:
        nonlocal taken
        taken += 1
        return element(*given)

    monkeypatch.setattr(Shape, "_element", counted)

    def per_item(many: int) -> float:
        nonlocal taken
        before = thing(spec={"items": [{"name": f"n{at}", "image": "i"} for at in range(many)]})
        live = with_managers(before, OWN.created(before, writer("a")))
        config = thing(spec={"items": [{"name": f"n{at}", "image": "j"} for at in range(many)]})
        taken = 0
        applied = apply(live, "m", config, force=True)
        apply(applied, "m", thing(spec={"items": [{"name": "n1", "image": "k"}]}), force=True)
        return taken / many

    assert per_item(400) <= per_item(40)
