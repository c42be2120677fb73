"""What `fleetlog crds` installs beside the definitions: the configurations of the webhook that is named."""

from __future__ import annotations

import base64
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from services.cli.common.running import Failed
from services.cli.installation.webhook_options import WebhookOptions
from tests.support.commands import run_command

PEM = "-----BEGIN CERTIFICATE-----\nQQ==\n-----END CERTIFICATE-----\n"


def printed(*options: str) -> list[dict[str, object]]:
    """The documents of `fleetlog crds print`."""
    shown = run_command("fleetlog", "crds", "print", "-o", "json", *options)
    assert shown.returncode == 0, shown.stderr
    return list(msgspec.json.decode(shown.stdout)["items"])


def test_without_a_webhook_no_configuration_is_printed() -> None:
    assert {item["kind"] for item in printed()} == {"CustomResourceDefinition"}


def test_configurations_follow_the_definitions(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text(PEM)
    found = printed("--webhook-service", "fleetlog-system/webhook", "--webhook-ca", str(tmp_path / "ca.crt"))
    assert [item["kind"] for item in found[-2:]] == ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]
    client = msgspec.to_builtins(found[-1])["webhooks"][0]["clientConfig"]
    assert client["service"] | {"path": ""} == {
        "namespace": "fleetlog-system",
        "name": "webhook",
        "port": 443,
        "path": "",
    }
    assert base64.b64decode(client["caBundle"]).decode() == PEM


def test_all_definitions_convert_bindings_by_the_webhook() -> None:
    found = printed("--all", "--webhook-url", "https://hook.example:8443")
    kinds = Counter(str(item["kind"]) for item in found)
    assert kinds["CustomResourceDefinition"] == len(printed()) + 3
    converted = {
        item["spec"]["names"]["kind"]  # type: ignore[index]
        for item in found
        if item["kind"] == "CustomResourceDefinition" and "conversion" in item["spec"]  # type: ignore[operator]
    }
    assert converted == {"ResourceBinding", "ClusterResourceBinding"}


@pytest.mark.parametrize(
    ("url", "service", "ca", "words"),
    [
        ("", "", "ca.crt", "--webhook-ca needs"),
        ("https://a", "b/c", "", "exclude each other"),
        ("http://a", "", "", "give https://host"),
        ("https://a?b", "", "", "without query"),
        ("", "webhook", "", "give namespace/name"),
        ("", "a/b:0", "", "give namespace/name"),
        ("", "a/b:x", "", "give namespace/name"),
        ("", "a/b:99999", "", "give namespace/name"),
        ("https://a", "", "none.crt", "No such file"),
        ("https://a", "", "empty.crt", "holds no certificate in PEM form"),
    ],
)
def test_a_webhook_that_cannot_be_is_refused(tmp_path: Path, url: str, service: str, ca: str, words: str) -> None:
    (tmp_path / "ca.crt").write_text(PEM)
    (tmp_path / "empty.crt").touch()
    with pytest.raises(Failed, match=words):
        WebhookOptions(url, service, str(tmp_path / ca) if ca else "").target()
