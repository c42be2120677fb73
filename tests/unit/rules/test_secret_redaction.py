"""What is told of a Secret that a cluster refused: enough to find the field, and nothing of what it holds."""

from __future__ import annotations

import pytest

from services._rules.secrets.redaction import UNTOLD, failure_of_secret, refusal_of_secret

VALUE = "hunter2"


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (
            'Secret "db" is invalid: data[password]: Invalid value: "hunter2": must be longer',
            "data[password]: Invalid value",
        ),
        (
            'Secret "db" is invalid: [data: Too long: at most 1048576 bytes, metadata.annotations: Invalid value: '
            + '"hunter2": no, type: Invalid value: "hunter2": field is immutable]',
            "data: Too long, metadata.annotations: Invalid value, type: Invalid value",
        ),
        (
            'Secret "db" is invalid: data: Forbidden: field is immutable when `immutable` is set',
            "data: Forbidden",
        ),
        (
            'admission webhook "length.policies.example" denied the request: hunter2 is too short',
            'admission webhook "length.policies.example" denied the request',
        ),
        (
            "ValidatingAdmissionPolicy 'no-plain' with binding 'all' denied request: hunter2 is no password",
            "ValidatingAdmissionPolicy 'no-plain' with binding 'all' denied request",
        ),
        (
            'secrets "db" is forbidden: exceeded quota: small, requested: count/secrets=1, used: count/secrets=1',
            'secrets "db" is forbidden: exceeded quota: small',
        ),
        (
            'secrets is forbidden: User "system:serviceaccount:a:b" cannot create resource "secrets" in API group "" '
            + 'in the namespace "shop"',
            'cannot create resource "secrets" in API group "" in the namespace "shop"',
        ),
        ('namespaces "shop" not found', 'namespaces "shop" not found'),
    ],
)
def test_refusal_of_a_secret_names_field_and_reason(message: str, told: str) -> None:
    text = refusal_of_secret(422, "Invalid", message)
    assert told in text
    assert "Invalid (HTTP 422)" in text
    assert VALUE not in text
    assert "immutable when" not in text


HOSTILE = [
    VALUE,
    "",
    f'{VALUE}: Invalid value: "x"',
    f'Secret "db" is invalid: {VALUE}: Invalid value: "x"',
    f'Secret "db" is invalid: data[a]: Invalid value: "x, data[{VALUE}]: Invalid value: y": no',
    f'Secret "db" is invalid: data[a]: Invalid value: "x\\", data[{VALUE}]: Invalid value: y": no',
    f'Secret "db" is invalid: data[a]: Invalid value: x, data[{VALUE}]: Invalid value: "y": no',
    f'Secret "db" is invalid: data[a]: Required value: "never closed, data[{VALUE}]: Required value: no',
    f'Secret "db" is invalid: data[a]: Required value: `never closed, data[{VALUE}]: Required value: no',
    f'Secret "db" is invalid: data: Invalid value: map[string]string{{"a":"{VALUE}"}}, data[{VALUE}]: Forbidden: no',
    f'Secret "db" is invalid: data[a {VALUE}]: Invalid value: "b": no',
    f'Secret "{VALUE}!" is invalid: data: Forbidden: no',
    f'Secret "db" is invalid: data[a]: {VALUE}: no',
    f'Secret "db" is invalid: data[a]: Invalid value: "\0{VALUE}\0": {VALUE}',
    f'admission webhook "a.b.c" denied the request: data[{VALUE}]: Invalid value: "x"',
    f'admission webhook "a.b.c" denied the request: Secret "db" is invalid: data[{VALUE}]: Forbidden: no',
    f'admission webhook "{VALUE} x" denied the request',
    f'namespaces "shop" not found {VALUE}',
    f'{VALUE} namespaces "shop" not found',
    f'namespaces "shop"\n{VALUE}" not found',
    f"json: cannot unmarshal string into Go struct field Secret.data of type {VALUE}",
    f"<html><body>{VALUE}</body></html>",
    f"Unauthorized {VALUE}",
    f'secrets "db" is forbidden: unable to create new content in namespace shop because {VALUE} it is',
    'Secret "db" is invalid: ' + '"' * 999 + VALUE,
]


@pytest.mark.parametrize("message", HOSTILE)
@pytest.mark.parametrize("reason", ["Invalid", VALUE, f"Invalid {VALUE}", ""])
def test_refusal_of_a_secret_hides_every_value(message: str, reason: str) -> None:
    text = refusal_of_secret(400, reason, message)
    assert VALUE not in text
    assert "HTTP 400" in text
    assert "\n" not in text


def test_other_failure_of_a_secret_is_named_by_type() -> None:
    assert failure_of_secret(ValueError(VALUE)) == f"ValueError; {UNTOLD}"


def test_long_lists_of_fields_are_cut() -> None:
    fields = ", ".join(f"data[k{number}]: Required value" for number in range(5000))
    text = refusal_of_secret(422, "Invalid", f'Secret "db" is invalid: [{fields}]')
    assert "data[k9]" in text
    assert "data[k10]" not in text
    assert "and 4990 more" in text
