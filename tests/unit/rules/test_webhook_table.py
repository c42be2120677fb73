"""The table of webhooks: the paths that Karmada's tools know, and what a kube-apiserver is told of them."""

from __future__ import annotations

from typing import Any

from services._rules.admission import KINDS
from services._rules.admission.webhook_configurations import Target, webhook_configurations, with_conversion
from services._rules.admission.webhook_table import CONVERSION_PATH, HOOKS, PLACES
from services._rules.constants import DELETION_PROTECTED_LABEL
from services.apiserver.crds.generate import definitions

BOTH = {"CREATE", "UPDATE"}
ALL = {*BOTH, "DELETE"}
EXPECTED = {
    "/mutate-propagationpolicy": ("propagationpolicies", BOTH),
    "/validate-propagationpolicy": ("propagationpolicies", ALL),
    "/mutate-clusterpropagationpolicy": ("clusterpropagationpolicies", BOTH),
    "/validate-clusterpropagationpolicy": ("clusterpropagationpolicies", ALL),
    "/mutate-overridepolicy": ("overridepolicies", BOTH),
    "/validate-overridepolicy": ("overridepolicies", ALL),
    "/mutate-clusteroverridepolicy": ("clusteroverridepolicies", BOTH),
    "/validate-clusteroverridepolicy": ("clusteroverridepolicies", ALL),
    "/mutate-resourcebinding": ("resourcebindings", {"CREATE"}),
    "/validate-resourcebinding": ("resourcebindings", BOTH),
    "/mutate-clusterresourcebinding": ("clusterresourcebindings", {"CREATE"}),
    "/mutate-work": ("works", BOTH),
    "/mutate-federatedhpa": ("federatedhpas", BOTH),
    "/validate-federatedhpa": ("federatedhpas", BOTH),
    "/validate-cronfederatedhpa": ("cronfederatedhpas", BOTH),
    "/mutate-multiclusterservice": ("multiclusterservices", BOTH),
    "/validate-multiclusterservice": ("multiclusterservices", BOTH),
    "/validate-multiclusteringress": ("multiclusteringresses", BOTH),
    "/validate-resourceinterpreterwebhookconfiguration": ("resourceinterpreterwebhookconfigurations", BOTH),
    "/validate-resourceinterpretercustomization": ("resourceinterpretercustomizations", BOTH),
    "/validate-federatedresourcequota": ("federatedresourcequotas", BOTH),
    "/validate-clustertaintpolicy": ("clustertaintpolicies", BOTH),
    "/validate-resourcedeletionprotection": ("*", {"DELETE"}),
    # Karmada has servers of their own for these.
    "/mutate-cluster": ("clusters", BOTH),
    "/validate-cluster": ("clusters", BOTH),
    "/validate-resourceregistry": ("resourceregistries", BOTH),
}


def entries(target: Target) -> dict[str, dict[str, Any]]:
    """The entries of both configurations by path."""
    found = {}
    for configuration in webhook_configurations(target):
        for entry in configuration["webhooks"]:
            client = entry["clientConfig"]
            path = client["service"]["path"] if "service" in client else "/" + client["url"].partition(":8443/")[2]
            assert path.startswith("/mutate-") is (configuration["kind"] == "MutatingWebhookConfiguration")
            found[path] = entry
    return found


def test_every_path_of_karmada_is_there() -> None:
    found = entries(Target("", url="https://hook.example:8443/"))
    shown = {
        path: (entry["rules"][0]["resources"][0], set(entry["rules"][0]["operations"])) for path, entry in found.items()
    }
    assert shown == EXPECTED
    assert set(HOOKS) == set(EXPECTED)


def test_entries_fail_closed_and_in_time() -> None:
    for path, entry in entries(Target("Q0E=", namespace="system", service="webhook", port=8443)).items():
        assert entry["failurePolicy"] == ("Ignore" if path.endswith("-cluster") else "Fail")
        guarded = path.startswith("/validate-") and path.endswith(("propagationpolicy", "overridepolicy"))
        usual = 10 if path == "/validate-resourceinterpretercustomization" else 3
        assert entry["timeoutSeconds"] == (30 if guarded else usual)
        side_effects = "NoneOnDryRun" if path == "/validate-resourcebinding" else "None"
        assert (entry["sideEffects"], entry["admissionReviewVersions"]) == (side_effects, ["v1"])
        assert entry["clientConfig"] == {
            "service": {"namespace": "system", "name": "webhook", "port": 8443, "path": path},
            "caBundle": "Q0E=",
        }
        (rule,) = entry["rules"]
        assert rule["scope"] == "*"
        selected = {"matchExpressions": [{"key": DELETION_PROTECTED_LABEL, "operator": "Exists"}]}
        assert entry.get("objectSelector") == (selected if path.endswith("deletionprotection") else None)


def test_names_are_unique_in_a_configuration() -> None:
    for configuration in webhook_configurations(Target("", url="https://hook.example:8443")):
        names = [entry["name"] for entry in configuration["webhooks"]]
        assert len(names) == len(set(names))
        assert all(name.count(".") >= 2 for name in names)


def test_places_are_those_of_the_definitions() -> None:
    defined = {
        crd["spec"]["names"]["kind"]: (
            crd["spec"]["group"],
            crd["spec"]["names"]["plural"],
            {v["name"] for v in crd["spec"]["versions"]},
        )
        for optional in (False, True)
        for crd in definitions(optional=optional)
    }
    assert set(PLACES) == {*KINDS, "Cluster"}
    for kind, place in PLACES.items():
        group, plural, versions = defined[kind]
        assert (place.group, place.plural) == (group, plural)
        assert place.version in versions


def test_versions_of_bindings_are_converted_by_the_webhook() -> None:
    (crd,) = (one for one in definitions(optional=True) if one["spec"]["names"]["kind"] == "ResourceBinding")
    made = with_conversion(crd, Target("Q0E=", url="https://hook.example:8443"))
    assert made["spec"]["conversion"] == {
        "strategy": "Webhook",
        "webhook": {
            "clientConfig": {"url": f"https://hook.example:8443{CONVERSION_PATH}", "caBundle": "Q0E="},
            "conversionReviewVersions": ["v1"],
        },
    }
    assert "conversion" not in crd["spec"]
