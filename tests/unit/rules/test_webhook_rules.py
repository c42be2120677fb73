"""The first webhook by name whose rules match is the one to call, at an address that may be called."""

from __future__ import annotations

from typing import Any

import pytest

from services._rules.interpreter import InterpretError, Operation
from services._rules.interpreter.webhooks.webhook_index import PATIENCE, ClientConfig, ServiceAddress, Webhooks

WIDGET = ("example.io/v1", "Widget")


def rule(**fields: Any) -> dict[str, Any]:
    kinds = {"apiGroups": ["example.io"], "apiVersions": ["v1"], "kinds": ["Widget"]}
    return {"operations": [Operation.REPLICA], **kinds, **fields}


def hook(name: str = "a.example.io", *rules: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"name": name, "clientConfig": {"url": "https://h.example.io"}, "rules": list(rules) or [rule()], **fields}


def webhooks(*hooks: dict[str, Any], **others: list[dict[str, Any]]) -> Webhooks:
    return Webhooks({name: {"webhooks": listed} for name, listed in {"c": list(hooks), **others}.items()})


def found(known: Webhooks, operation: str = Operation.REPLICA, target: tuple[str, str] = WIDGET) -> str | None:
    hook = known.find(*target, operation)
    return hook.name if hook is not None else None


@pytest.mark.parametrize(
    ("fields", "operation", "target", "matches"),
    [
        ({}, Operation.REPLICA, WIDGET, True),
        ({}, Operation.RETAIN, WIDGET, False),
        ({}, Operation.REPLICA, ("example.io/v2", "Widget"), False),
        ({}, Operation.REPLICA, ("example.com/v1", "Widget"), False),
        ({}, Operation.REPLICA, ("example.io/v1", "Gadget"), False),
        ({"operations": ["*"]}, Operation.RETAIN, WIDGET, True),
        ({"operations": [Operation.RETAIN, Operation.HEALTH]}, Operation.HEALTH, WIDGET, True),
        ({"apiVersions": ["*"]}, Operation.REPLICA, ("example.io/v2", "Widget"), True),
        ({"apiGroups": ["*"]}, Operation.REPLICA, ("v1", "Widget"), True),
        ({"apiGroups": [""]}, Operation.REPLICA, ("v1", "Widget"), True),
        ({"apiGroups": [""]}, Operation.REPLICA, WIDGET, False),
        ({"kinds": ["*"]}, Operation.REPLICA, ("example.io/v1", "Gadget"), True),
        ({"kinds": []}, Operation.REPLICA, WIDGET, False),
    ],
)
def test_webhook_rule_matches_operations_and_kinds(
    fields: dict[str, Any], operation: str, target: tuple[str, str], matches: bool
) -> None:
    assert (found(webhooks(hook("a.example.io", rule(**fields))), operation, target) is not None) is matches


def test_first_matching_webhook_by_name_is_called() -> None:
    known = webhooks(
        hook("b.example.io"), hook("a.example.io", rule(operations=[Operation.RETAIN])), a=[hook("z.example.io")]
    )
    assert found(known) == "a/z.example.io"
    assert found(known, Operation.RETAIN) == "c/a.example.io"
    assert found(known, Operation.HEALTH) is None
    # The order is that of the whole text: a dash comes before a slash.
    assert found(webhooks(hook("a.example.io"), **{"c-1": [hook("z.example.io")]})) == "c-1/z.example.io"


def test_nothing_is_found_where_nothing_is_configured() -> None:
    assert found(Webhooks()) is None
    assert found(Webhooks({"c": {}})) is None


@pytest.mark.parametrize(("seconds", "timeout"), [(None, PATIENCE), (1, 1.0), (30, 30.0), (0, 1.0), (300, 30.0)])
def test_every_webhook_has_a_deadline(seconds: int | None, timeout: float) -> None:
    fields = {} if seconds is None else {"timeoutSeconds": seconds}
    known = webhooks(hook("a.example.io", **fields)).find(*WIDGET, Operation.REPLICA)
    assert known is not None
    assert known.timeout == timeout


@pytest.mark.parametrize(
    "broken", [{"rules": 5}, {"rules": [{"kinds": "Widget"}]}, {"clientConfig": {"caBundle": "%"}}, {"name": 7}]
)
def test_unreadable_webhook_configuration_is_isolated(broken: dict[str, Any]) -> None:
    known = webhooks({**hook(), **broken}, good=[hook("z.example.io")])
    assert found(known) == "good/z.example.io"
    (problem,) = known.unreadable
    assert problem.startswith("ResourceInterpreterWebhookConfiguration c: webhooks: ")


def test_a_service_is_called_by_its_name_within_the_cluster() -> None:
    assert ClientConfig(service=ServiceAddress("ns", "svc")).address == "https://svc.ns.svc:443/"
    assert ClientConfig(service=ServiceAddress("ns", "svc", "/a/b", 8443)).address == "https://svc.ns.svc:8443/a/b"


@pytest.mark.parametrize(
    ("client", "told"),
    [
        (ClientConfig(), "clientConfig: one of url and service"),
        (ClientConfig(url="http://h.example.io"), "clientConfig.url: must start with https://"),
        (ClientConfig(url="h.example.io:443"), "clientConfig.url: must start with https://"),
        (ClientConfig(service=ServiceAddress("ns", "")), "clientConfig.service: name and namespace must be those"),
        (
            ClientConfig(service=ServiceAddress("ns", "h.io/a")),
            "clientConfig.service: name and namespace must be those",
        ),
    ],
)
def test_only_https_is_spoken(client: ClientConfig, told: str) -> None:
    with pytest.raises(InterpretError, match=told):
        _ = client.address


def test_equal_webhook_clients_share_a_connection() -> None:
    same = webhooks(hook("a.example.io"), hook("b.example.io"))
    assert same.clients() == {ClientConfig(url="https://h.example.io")}
