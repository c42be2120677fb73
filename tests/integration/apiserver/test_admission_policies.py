"""ValidatingAdmissionPolicies in force: what they deny, warn of and let pass, with parameters and variables."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from services._rules.kubernetes.cel.programs import COST_EXCEEDED
from tests.integration.apiserver.core_objects import CM, config

GROUP = "/apis/admissionregistration.k8s.io/v1"
POLICIES, BINDINGS = f"{GROUP}/validatingadmissionpolicies", f"{GROUP}/validatingadmissionpolicybindings"
RULE = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
DENIED = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: "


def policy(*expressions: str, **spec: Any) -> dict[str, Any]:
    validations = [{"expression": expression} for expression in expressions]
    return {
        "metadata": {"name": "p"},
        "spec": {"matchConstraints": {"resourceRules": [RULE]}, "validations": validations, **spec},
    }


def binding(*actions: str, **spec: Any) -> dict[str, Any]:
    actions = actions or ("Deny",)
    return {"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": actions, **spec}}


async def in_force(client: Any, policy: dict[str, Any], binding: dict[str, Any]) -> None:
    for path, body in ((POLICIES, policy), (BINDINGS, binding)):
        code, answer = await client("POST", path, body)
        assert code == 201, answer


async def create(client: Any, **data: str) -> tuple[int, str]:
    """Create a ConfigMap without keeping it; returns the code and the message of a refusal."""
    code, answer = await client("POST", f"{CM}?dryRun=All", config("x", **data))
    return code, answer.get("message", "")


async def test_a_bound_policy_denies(client: Any) -> None:
    await in_force(client, policy("object.data.size() < 2"), binding())
    assert (await create(client, a="1"))[0] == 201
    code, status = await client("POST", CM, config("x", a="1", b="2"))
    text = "failed expression: object.data.size() < 2"
    assert status["message"] == f'configmaps "x" is forbidden: {DENIED}{text}'
    assert (code, status["reason"], status["details"]["causes"]) == (422, "Invalid", [{"message": text}])
    await client("DELETE", f"{BINDINGS}/b")
    assert (await create(client, a="1", b="2"))[0] == 201


@pytest.mark.parametrize(
    ("reason", "code"), [("Forbidden", 403), ("Unauthorized", 401), ("RequestEntityTooLarge", 413), ("Invalid", 422)]
)
async def test_the_reason_chooses_the_code(client: Any, reason: str, code: int) -> None:
    item = {"expression": "false", "reason": reason, "message": "no", "messageExpression": "'not ' + object.data.a"}
    await in_force(client, policy(validations=[item]), binding())
    assert await create(client, a="1") == (code, f'configmaps "x" is forbidden: {DENIED}not 1')
    # A message expression that fails leaves the message.
    assert await create(client) == (code, f'configmaps "x" is forbidden: {DENIED}no')


async def test_warnings_let_the_write_pass(client: Any) -> None:
    await in_force(client, policy("false"), binding("Warn", "Audit"))
    url = f"{client.server.url}{CM}"
    async with client.session.post(url, json=config("x")) as response:
        assert response.status == 201
        text = "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': failed expression: false"
        assert text in response.headers["Warning"]


async def test_the_audit_log_has_violations_and_annotations(client: Any) -> None:
    annotation = {"key": "size", "valueExpression": "string(object.data.size())"}
    await in_force(client, policy("false", auditAnnotations=[annotation]), binding("Audit"))
    assert (await client("POST", CM, config("x", a="1")))[0] == 201
    records = [msgspec.json.decode(line) for line in client.server.settings.audit_log.read_bytes().splitlines()]
    found = next(record["annotations"] for record in records if record["name"] == "x")
    assert found["p/size"] == "1"
    failure = {"message": "failed expression: false", "policy": "p", "binding": "b", "validationActions": ["Audit"]}
    assert msgspec.json.decode(found["validation.policy.admission.k8s.io/validation_failure"]) == [failure]


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        ("request.operation == 'CREATE' && request.userInfo.username == 'admin'", True),
        ("request.userInfo.groups.exists(g, g == 'devs')", False),
        ("oldObject == null && request.resource.resource == 'configmaps' && request.dryRun", True),
        ("namespaceObject.metadata.name == 'default'", True),
        ("variables.both == '1-2' && variables.a == '1'", True),
        ("has(object.data.c) && variables.broken == ''", False),
        ("authorizer.group('apps').resource('deployments').namespace('x').check('create').allowed()", True),
        ("authorizer.requestResource.check('create').allowed() && authorizer.path('/x').check('get').allowed()", True),
        ("object.data.a.matches('^[0-9]$') && quantity(object.data.b).isGreaterThan(quantity('1500m'))", True),
        ("object.data.?c.orValue('none') == 'none' && object.data.all(k, v, v != '3')", True),
        ("params == null", True),
    ],
)
async def test_expressions_see_the_request(client: Any, expression: str, holds: bool) -> None:
    variables = [
        {"name": "a", "expression": "object.data.a"},
        {"name": "both", "expression": "variables.a + '-' + object.data.b"},
        {"name": "broken", "expression": "object.data.c"},
    ]
    param = {"apiVersion": "v1", "kind": "ConfigMap"}
    await in_force(client, policy(expression, variables=variables, paramKind=param), binding())
    code, text = await create(client, a="1", b="2")
    assert (code == 201) is holds, text


async def replaced(client: Any, path: str, obj: dict[str, Any]) -> int:
    """The code of a PUT that names the revision which it replaces, as one of these kinds must."""
    _, held = await client("GET", path)
    meta = {**obj["metadata"], "resourceVersion": held["metadata"]["resourceVersion"]}
    code, _ = await client("PUT", path, {**obj, "metadata": meta})
    return int(code)


async def test_failures_follow_the_failure_policy(client: Any) -> None:
    expressions = ("object.data.nope == 'x'", "variables.v")
    wanted = {"variables": [{"name": "v", "expression": "object.data.gone == ''"}]}
    made = policy(*expressions, **wanted)
    await in_force(client, made, binding())
    text = "expression 'object.data.nope == 'x'' resulted in error: no such key: nope"
    assert await create(client, a="1") == (422, f'configmaps "x" is forbidden: {DENIED}{text}')
    made["spec"]["failurePolicy"] = "Ignore"
    assert (await replaced(client, f"{POLICIES}/p", made)) == 200
    assert (await create(client, a="1"))[0] == 201


async def test_conditions_decide_what_is_checked(client: Any) -> None:
    conditions = [{"name": "marked", "expression": "has(object.data.marked)"}]
    await in_force(client, policy("false", matchConditions=conditions), binding())
    assert (await create(client, a="1"))[0] == 201
    assert (await create(client, marked="1"))[0] == 422


async def test_bindings_narrow_what_is_checked(client: Any) -> None:
    await client("POST", "/api/v1/namespaces", {"metadata": {"name": "strict", "labels": {"env": "prod"}}})
    chosen = {"namespaceSelector": {"matchLabels": {"env": "prod"}}}
    await in_force(client, policy("false"), binding(matchResources=chosen))
    assert (await create(client))[0] == 201
    assert (await client("POST", "/api/v1/namespaces/strict/configmaps", config("x")))[0] == 422
    excluded = {"excludeResourceRules": [{**RULE, "resourceNames": ["x"]}]}
    assert (await replaced(client, f"{BINDINGS}/b", binding(matchResources=excluded))) == 200
    assert (await create(client))[0] == 201
    assert (await client("POST", CM, config("y")))[0] == 422


async def test_parameters_by_name_and_by_selector(client: Any) -> None:
    await client("POST", CM, config("limits", most="1") | {"metadata": {"name": "limits", "labels": {"l": "1"}}})
    made = policy("object.data.size() <= int(params.data.most)", paramKind={"apiVersion": "v1", "kind": "ConfigMap"})
    ref = {"name": "limits", "namespace": "default", "parameterNotFoundAction": "Deny"}
    await in_force(client, made, binding(paramRef=ref))
    assert (await create(client, a="1"))[0] == 201
    assert (await create(client, a="1", b="2"))[0] == 422
    ref = {"selector": {"matchLabels": {"l": "1"}}, "parameterNotFoundAction": "Deny"}
    assert (await replaced(client, f"{BINDINGS}/b", binding(paramRef=ref))) == 200
    assert (await create(client, a="1", b="2"))[0] == 422
    ref = {"selector": {"matchLabels": {"l": "2"}}, "parameterNotFoundAction": "Deny"}
    assert (await replaced(client, f"{BINDINGS}/b", binding(paramRef=ref))) == 200
    text = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
    assert await create(client) == (422, f'configmaps "x" is forbidden: {DENIED}{text}')
    ref["parameterNotFoundAction"] = "Allow"
    assert (await replaced(client, f"{BINDINGS}/b", binding(paramRef=ref))) == 200
    assert (await create(client, a="1", b="2"))[0] == 201


async def test_expensive_expressions_are_cut(client: Any) -> None:
    expression = "object.data.all(a, object.data.all(b, object.data.all(c, a != b || b != c || true)))"
    await in_force(client, policy(expression), binding())
    code, text = await create(client, **{f"k{n}": "v" for n in range(300)})
    assert (code, COST_EXCEEDED in text) == (422, True)


async def test_policies_do_not_stop_their_own_removal(client: Any) -> None:
    rule = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
    await in_force(client, policy("false", matchConstraints={"resourceRules": [rule]}), binding())
    assert (await create(client))[0] == 422
    assert (await client("DELETE", f"{POLICIES}/p"))[0] == 200
    assert (await create(client))[0] == 201


@pytest.mark.parametrize(
    ("spec", "field", "text"),
    [
        ({"validations": []}, "spec.validations", "validations or auditAnnotations must contain at least one item"),
        ({"matchConstraints": None}, "spec.matchConstraints", "Required value"),
        ({"matchConstraints": {}}, "spec.matchConstraints.resourceRules", "Required value"),
        ({"failurePolicy": "Maybe"}, "spec.failurePolicy", 'Unsupported value: "Maybe"'),
        ({"paramKind": {"apiVersion": "v1"}}, "spec.paramKind.kind", "Required value"),
        ({"validations": [{"expression": " "}]}, "spec.validations[0].expression", "expression is not specified"),
        ({"validations": [{"expression": "'a'"}]}, "spec.validations[0].expression", "must evaluate to bool"),
        ({"validations": [{"expression": "request.x"}]}, "spec.validations[0].expression", "undefined field 'x'"),
        ({"validations": [{"expression": "params.x"}]}, "spec.validations[0].expression", "undeclared reference"),
        ({"validations": [{"expression": "variables.x"}]}, "spec.validations[0].expression", "undefined field 'x'"),
        ({"validations": [{"expression": "true", "reason": "No"}]}, "spec.validations[0].reason", "Unsupported value"),
        ({"validations": [{"expression": "a ||\n b"}]}, "spec.validations[0].message", "must be specified if"),
        ({"variables": [{"name": "a-b", "expression": "1"}]}, "spec.variables[0].name", "not a valid CEL identifier"),
        ({"matchConditions": [{"expression": "true"}]}, "spec.matchConditions[0].name", "Required value"),
        (
            {"auditAnnotations": [{"key": "a", "valueExpression": "1"}]},
            "spec.auditAnnotations[0].valueExpression",
            "to",
        ),
    ],
)
async def test_policies_are_checked(client: Any, spec: dict[str, Any], field: str, text: str) -> None:
    made = policy("true", **spec)
    code, status = await client("POST", POLICIES, made)
    causes = {cause["field"]: cause["message"] for cause in status["details"]["causes"]}
    assert code == 422
    assert text in causes[field]


@pytest.mark.parametrize(
    ("spec", "field", "text"),
    [
        ({"validationActions": []}, "spec.validationActions", "Required value"),
        ({"validationActions": ["Deny", "Warn"]}, "spec.validationActions", "must not contain both"),
        ({"validationActions": ["Audit", "Audit"]}, "spec.validationActions[1]", "Duplicate value"),
        ({"validationActions": ["Log"]}, "spec.validationActions[0]", 'Unsupported value: "Log"'),
        ({"policyName": ""}, "spec.policyName", "Required value"),
        ({"paramRef": {"parameterNotFoundAction": "Deny"}}, "spec.paramRef", "one of name or selector"),
        ({"paramRef": {"name": "a"}}, "spec.paramRef.parameterNotFoundAction", "Required value"),
        ({"paramRef": {"name": "a", "selector": {}}}, "spec.paramRef.name", "mutually exclusive"),
    ],
)
async def test_bindings_are_checked(client: Any, spec: dict[str, Any], field: str, text: str) -> None:
    code, status = await client("POST", BINDINGS, binding(**spec))
    causes = {cause["field"]: cause["message"] for cause in status["details"]["causes"]}
    assert code == 422
    assert text in causes[field]


async def test_webhooks_are_not_called_beside_their_conditions(client: Any) -> None:
    conditions = [{"name": "marked", "expression": "object.data.marked == 'yes'"}]
    hook = {
        "name": "h.example.com",
        "rules": [RULE],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "matchConditions": conditions,
    }
    hooks = f"{GROUP}/validatingwebhookconfigurations"
    code, _ = await client("POST", hooks, {"metadata": {"name": "h"}, "webhooks": [hook]})
    assert code == 201
    assert (await create(client, marked="no"))[0] == 201
    assert (await create(client, marked="yes"))[0] == 500
    # A condition that has no result refuses the write, unless failures are to be ignored.
    assert (await create(client))[0] == 403
    code, status = await client(
        "POST",
        hooks,
        {
            "metadata": {"name": "i"},
            "webhooks": [hook | {"matchConditions": [{"name": "x", "expression": "request.nope"}]}],
        },
    )
    assert (code, status["details"]["causes"][0]["field"]) == (422, "webhooks[0].matchConditions[0].expression")
