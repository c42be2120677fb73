"""Reading bodies: canonical form, unknown fields, refusals of wrong JSON types."""

from typing import Any

import msgspec
import pytest

from services.apiserver.kinds.decoding.field_tables import canonical_quantity
from services.apiserver.kinds.kind_model import DecodeError, Kind
from tests.support.builtin_kinds import kind_of


def decoded(kind: Kind, obj: dict[str, Any]) -> dict[str, Any]:
    kind.decode(obj)
    return obj


def refusal(kind: Kind, raw: bytes) -> str:
    with pytest.raises(DecodeError) as caught:
        kind.decode(msgspec.json.decode(raw), raw)
    return str(caught.value)


def test_unknown_fields_nulls_and_empty_optional_values_go() -> None:
    obj = {"metadata": {"name": "a", "labels": {}, "nope": 1}, "data": None, "binaryData": {}, "extra": {"x": 1}}
    found = decoded(kind_of("v1", "ConfigMap"), obj)
    assert found == {"metadata": {"name": "a"}}


def test_pointers_keep_zero_values_and_plain_fields_drop_them() -> None:
    spec = {"replicas": 0, "minReadySeconds": 0, "paused": False, "template": {"spec": {"containers": []}}}
    found = decoded(kind_of("apps/v1", "Deployment"), {"metadata": {}, "spec": spec})["spec"]
    assert found["replicas"] == 0
    assert "minReadySeconds" not in found
    assert "paused" not in found


def test_fields_that_are_always_written_appear() -> None:
    found = decoded(kind_of("apps/v1", "Deployment"), {"metadata": {"name": "a"}})
    assert found["status"] == {}
    assert found["spec"]["strategy"] == {}
    assert found["spec"]["template"]["metadata"] == {}
    assert found["spec"]["template"]["spec"] == {"containers": None}


def test_reading_twice_changes_nothing() -> None:
    kind = kind_of("v1", "Pod")
    obj = decoded(kind, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    again = decoded(kind, msgspec.json.decode(msgspec.json.encode(obj)))
    assert again == obj


@pytest.mark.parametrize("given", ["", "abc", "1Qi", "1.2.3", "--1", "1 Gi"])
def test_bad_quantities_are_refused(given: str) -> None:
    with pytest.raises(ValueError, match="quantit"):
        canonical_quantity(given)


def test_quantities_in_bodies_may_be_numbers() -> None:
    resources = {"limits": {"cpu": 1, "memory": "0.5Gi"}}
    pod = {"metadata": {}, "spec": {"containers": [{"name": "c", "resources": resources}]}}
    found = decoded(kind_of("v1", "Pod"), pod)
    assert found["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "1", "memory": "512Mi"}


def test_amounts_of_storage_capacities_are_quantities() -> None:
    kind = kind_of("storage.k8s.io/v1", "CSIStorageCapacity")
    given = {"metadata": {"name": "c"}, "storageClassName": "fast", "capacity": 1024, "maximumVolumeSize": "0.5Gi"}
    found = decoded(kind, given)
    assert (found["capacity"], found["maximumVolumeSize"]) == ("1024", "512Mi")
    assert "capacity" not in decoded(kind, {"metadata": {"name": "c"}, "storageClassName": "fast"})
    with pytest.raises(DecodeError, match="quantit"):
        kind.decode({"metadata": {"name": "c"}, "maximumVolumeSize": "* * * * *"})


def test_times_are_written_in_utc() -> None:
    obj = {"metadata": {"name": "a", "deletionTimestamp": "2020-01-01T02:00:00.5+02:00"}}
    assert decoded(kind_of("v1", "ConfigMap"), obj)["metadata"]["deletionTimestamp"] == "2020-01-01T00:00:00Z"


def test_unknown_fields_are_named_in_document_order() -> None:
    containers = [{"name": "a", "imagee": "x"}, {"name": "b", "ports": [{"containerPort": 1, "proto": "TCP"}]}]
    obj = {"zzz": 1, "spec": {"replica": 1, "template": {"spec": {"containers": containers}}}}
    assert kind_of("apps/v1", "Deployment").unknown_fields(obj) == [
        "zzz",
        "spec.replica",
        "spec.template.spec.containers[0].imagee",
        "spec.template.spec.containers[1].ports[0].proto",
    ]


def test_pruning_drops_unknown_fields_and_nothing_else() -> None:
    obj = {"metadata": {"name": "a", "odd": 1}, "spec": {"replicas": "wrong", "odd": [1]}}
    kind_of("apps/v1", "Deployment").prune(obj)
    assert obj == {"metadata": {"name": "a"}, "spec": {"replicas": "wrong"}}


def test_a_wrong_type_is_refused_with_trail_and_place() -> None:
    raw = b'{"apiVersion":"apps/v1","kind":"Deployment","spec":{"replicas":"three","template":{}}}'
    assert refusal(kind_of("apps/v1", "Deployment"), raw) == (
        "v1.Deployment.Spec: v1.DeploymentSpec.Replicas: readUint32: unexpected character: \ufffd, "
        'error found in #10 byte of ...|eplicas":"three","te|..., bigger context '
        '...|"apps/v1","kind":"Deployment","spec":{"replicas":"three","template":{}}}|...'
    )


def test_fields_after_the_wrong_one_leave_their_names_too() -> None:
    raw = b'{"spec": {"renewTime": "2020-01-01T00:00:09Z", "leaseTransitions": 1}}'
    text = refusal(kind_of("coordination.k8s.io/v1", "Lease"), raw)
    assert text.startswith(
        "v1.Lease.Spec: v1.LeaseSpec.LeaseTransitions: RenewTime: unmarshalerDecoder: parsing time "
        '"2020-01-01T00:00:09Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000", error found'
    )


@pytest.mark.parametrize(
    ("api_version", "name", "raw", "part"),
    [
        (
            "v1",
            "Secret",
            b'{"data": {"k": "not base64!"}}',
            "v1.Secret.Data: decode base64: illegal base64 data at input byte 3",
        ),
        ("v1", "Secret", b'{"data": {"k": "abc"}}', "illegal base64 data at input byte 0"),
        ("v1", "Secret", b'{"data": {"k": 1}}', "base64Codec: invalid input"),
        ("v1", "ConfigMap", b'{"metadata":"x"}', 'readObjectStart: expect { or n, but found "'),
        ("v1", "ConfigMap", b'{"data":[]}', "v1.ConfigMap.Data: ReadMapCB: expect { or n, but found ["),
        ("v1", "Pod", b'{"spec":{"hostNetwork":"x"}}', "ReadBool: expect t or f, but found"),
        ("v1", "Pod", b'{"spec":{"containers":{}}}', "[]v1.Container: decode slice: expect [ or n, but found {"),
        ("apps/v1", "Deployment", b'{"spec":{"replicas":1.5}}', "assertInteger: can not decode float as int"),
        ("apps/v1", "Deployment", b'{"spec":{"replicas":3000000000}}', "ReadInt32: overflow"),
        (
            "v1",
            "Service",
            b'{"spec":{"ports":[{"targetPort":true}]}}',
            "json: cannot unmarshal bool into Go value of type int32",
        ),
        ("v1", "ConfigMap", b'{"metadata":{"creationTimestamp":"soon"}}', 'cannot parse "soon" as "2006"'),
        (
            "v1",
            "ConfigMap",
            b'{"metadata":{"creationTimestamp":5}}',
            "json: cannot unmarshal number into Go value of type string",
        ),
    ],
)
def test_decode_error_names_the_expected_type(api_version: str, name: str, raw: bytes, part: str) -> None:
    assert part in refusal(kind_of(api_version, name), raw)


def test_without_the_body_a_refusal_quotes_the_object() -> None:
    with pytest.raises(DecodeError, match=r"v1\.Deployment\.Spec: .*replicas"):
        kind_of("apps/v1", "Deployment").decode({"spec": {"replicas": "three"}})


def test_after_an_error_the_next_object_ends_the_trail() -> None:
    raw = b'{"apiVersion":"v1","data":{"n":5},"kind":"ConfigMap","metadata":{"name":"c"}}'
    text = refusal(kind_of("v1", "ConfigMap"), raw)
    assert text.startswith("v1.ConfigMap.ObjectMeta: v1.ObjectMeta.TypeMeta: Kind: Data: ReadString: expects")
