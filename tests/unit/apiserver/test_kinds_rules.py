"""Rules of the fields of built-in kinds: one good object of each kind, and what a change of it is refused with."""

import base64
import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from services._rules.kubernetes.patch.json_patch import merge_patch
from services._rules.kubernetes.validation.json_text import json_object_problem
from services.apiserver.core import status_errors as status
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.kinds.kind_model import DecodeError, Kind
from tests.support.builtin_kinds import created, kind_of

RULES = yaml.load(Path(__file__).with_name("kind_rules.yaml").read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
REGISTRY = builtin_registry()


def changes(part: str) -> list[Any]:
    """Parameters for one test: the kind, its good object, the change and the errors that it is refused with."""
    found = []
    for rules in RULES:
        for number, (change, errors) in enumerate(rules.get(part, ())):
            name = f"{rules['kind'].partition(' ')[2]}-{number}"
            found.append(pytest.param(rules, change, errors, id=name))
    return found


def served(rules: dict[str, Any]) -> Kind:
    api_version, _, name = rules["kind"].partition(" ")
    kind = REGISTRY.by_api_version(api_version, name)
    assert kind is not None
    return kind


def assert_beginnings(found: list[str], expected: list[str]) -> None:
    assert len(found) == len(expected), found
    for text, beginning in zip(sorted(found), sorted(expected), strict=True):
        assert text.startswith(beginning)


@pytest.mark.parametrize("rules", RULES, ids=lambda rules: rules["kind"].replace(" ", "_"))
def test_good_object_is_taken(rules: dict[str, Any]) -> None:
    kind = served(rules)
    obj = created(kind, copy.deepcopy(rules["good"]))
    assert kind.check_metadata(obj) + kind.validate_create(obj) == []
    assert kind.validate_update(copy.deepcopy(obj), obj) == []


@pytest.mark.parametrize(("rules", "change", "errors"), changes("refused"))
def test_new_object_is_refused(rules: dict[str, Any], change: dict[str, Any], errors: list[str]) -> None:
    kind = served(rules)
    obj = created(kind, copy.deepcopy(merge_patch(copy.deepcopy(rules["good"]), change)))
    assert_beginnings([str(error) for error in kind.check_metadata(obj) + kind.validate_create(obj)], errors)


@pytest.mark.parametrize(("rules", "change", "errors"), changes("refused_update"))
def test_update_is_refused(rules: dict[str, Any], change: dict[str, Any], errors: list[str]) -> None:
    kind = served(rules)
    old = created(kind, copy.deepcopy(rules["good"]))
    new = copy.deepcopy(merge_patch(copy.deepcopy(old), change))
    kind.decode(new)
    kind.default(new)
    kind.prepare_update(new, old)
    assert_beginnings([str(error) for error in kind.validate_update(new, old)], errors)


@pytest.mark.parametrize(("rules", "change", "errors"), changes("refused_status"))
def test_status_is_refused(rules: dict[str, Any], change: dict[str, Any], errors: list[str]) -> None:
    kind = served(rules)
    old = created(kind, copy.deepcopy(rules["good"]))
    new = {**old, "status": merge_patch(old.get("status") or {}, change)}
    assert_beginnings([str(error) for error in kind.validate_status(new, old)], errors)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"a": [1, {"b": null}, "\\u0041"]}', ""),
        ("null", ""),
        ("", "unexpected end of JSON input"),
        ("{", "unexpected end of JSON input"),
        ("-", "unexpected end of JSON input"),
        ("{a", "invalid character 'a' looking for beginning of object key string"),
        ("nope", "invalid character 'o' in literal null (expecting 'u')"),
        ('{"a" 1}', "invalid character '1' after object key"),
        ('{"a":}', "invalid character '}' looking for beginning of value"),
        ('{"a":1 "b"}', "invalid character '\"' after object key:value pair"),
        ("[1 2]", "invalid character '2' after array element"),
        ("{} x", "invalid character 'x' after top-level value"),
        ('{"a":"\n"}', "invalid character '\\n' in string literal"),
        ("[1]", "json: cannot unmarshal array into Go value of type map[string]interface {}"),
        ("[" * 5000, "unexpected end of JSON input"),
    ],
)
def test_json_inside_of_an_object(text: str, problem: str) -> None:
    assert json_object_problem(text.encode()) == problem


def test_update_of_a_service_keeps_what_was_given_out() -> None:
    kind = kind_of("v1", "Service")
    ports = [{"name": "a", "port": 80, "nodePort": 30001}, {"name": "b", "port": 81, "nodePort": 30002}]
    spec = {"type": "NodePort", "clusterIP": "10.96.0.9", "ports": ports}
    old = created(kind, {"spec": spec})
    new = copy.deepcopy(old)
    new["spec"] = {"type": "NodePort", "ports": [{"name": "b", "port": 81}, {"name": "a", "port": 82}]}
    kind.default(new)
    kind.prepare_update(new, old)
    assert new["spec"]["clusterIPs"] == ["10.96.0.9"]
    assert [port["nodePort"] for port in new["spec"]["ports"]] == [30002, 30001]
    assert kind.validate_update(new, old) == []


def test_issued_certificate_stays() -> None:
    kind = kind_of("certificates.k8s.io/v1", "CertificateSigningRequest")
    old = {"metadata": {"name": "a"}, "status": {"certificate": "b25l"}}
    new = {"metadata": {"name": "a"}, "status": {"certificate": "dHdv"}}
    found = [str(error) for error in kind.validate_status(new, old)]
    assert "status.certificate: Forbidden: updates may not modify existing certificate content" in found
    assert kind.validate_status(old, old) == []


def test_certificate_of_a_request_is_a_chain_of_blocks() -> None:
    kind = kind_of("certificates.k8s.io/v1", "CertificateSigningRequest")
    chain = {
        "nothing": "must contain at least one CERTIFICATE PEM block",
        "-----BEGIN KEY-----\neHg=\n-----END KEY-----\n": 'only CERTIFICATE PEM blocks are allowed, found "KEY"',
        "-----BEGIN CERTIFICATE-----\na: b\n\neHg=\n-----END CERTIFICATE-----\n": "no PEM block headers are permitted",
    }
    for text, problem in chain.items():
        new = {"metadata": {"name": "a"}, "status": {"certificate": base64.b64encode(text.encode()).decode()}}
        found = [str(error) for error in kind.validate_status(new, {"metadata": {"name": "a"}})]
        assert found == [f'status.certificate: Invalid value: "<certificate data>": {problem}']


def test_resource_lists_name_the_stored_version() -> None:
    found = {
        item["name"]: (item.get("storageVersionHash"), item["singularName"])
        for item in (REGISTRY.api_resource_list("", "v1") or {})["resources"]
    }
    assert found["pods"] == ("xPOwRZ+Yhw8=", "pod")
    assert found["services"] == ("0/CO1lhkEBI=", "service")
    assert found["bindings"] == (None, "binding")
    assert found["pods/status"] == (None, "")


def test_port_number_beyond_32_bits_is_no_port() -> None:
    body = {"spec": {"ports": [{"port": 80, "targetPort": 3_000_000_000}]}}
    with pytest.raises(DecodeError, match="cannot unmarshal number 3000000000 into Go value of type int32"):
        kind_of("v1", "Service").decode(body)


def test_refusal_of_very_many_faults_has_a_bounded_size() -> None:
    kind = kind_of("v1", "ResourceQuota")
    body = {"spec": {"hard": {"services": "1"}, "scopes": ["Odd", "BestEffort"] * 10_000}}
    errors = kind.validate_create(created(kind, body))
    assert len(errors) == 20_000
    assert len(status.invalid("ResourceQuota", "x", errors).encode()) < 8 * 1024 * 1024
