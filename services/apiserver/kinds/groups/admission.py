"""Webhook configurations and APIServices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import Errors, FieldError, invalid, required
from services._rules.kubernetes.validation.field_rules import (
    Check,
    Rules,
    apply,
    choice,
    distinct,
    each,
    inside,
    listed,
    needed,
    number,
    refused,
    text,
    unique,
)
from services.apiserver.kinds.builtin import BuiltinKind
from services.apiserver.kinds.checks.affinities import label_selector
from services.apiserver.kinds.kind_model import Resource

OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
SIDE_EFFECTS = {"v1": ("None", "NoneOnDryRun"), "v1beta1": ("None", "NoneOnDryRun", "Some", "Unknown")}
REVIEW_VERSIONS = ("v1", "v1beta1")
_ONE_VERSION = f"one of {', '.join(REVIEW_VERSIONS)}"
_SERVICE_PORT = {"service?": {"port": 443}}


def _fully_qualified(name: str) -> list[str]:
    found = names.subdomain(name)
    if not found and name.count(".") < 2:
        return ["should be a domain with at least three segments separated by dots"]
    return found


def _star_alone(name: str, others: str) -> Check:
    def check(rule: Manifest, path: str) -> Errors:
        values = rule.get(name) or []
        if "*" in values and len(values) != 1:
            yield invalid(f"{path}.{name}", values, f"if '*' is present, must not specify other {others}")

    return check


_RULE = (
    needed("operations"),
    _star_alone("operations", "operations"),
    each("operations", listed(OPERATIONS)),
    needed("apiGroups"),
    _star_alone("apiGroups", "API groups"),
    needed("apiVersions"),
    _star_alone("apiVersions", "API versions"),
    needed("resources"),
    choice("scope", ("*", "Cluster", "Namespaced")),
)
_SERVICE = (
    *(needed(name, detail=f"service {name} is required") for name in ("name", "namespace")),
    number("port", 1, 65535, "port is not valid: must be between 1 and 65535, inclusive"),
)


def _client(config: Manifest, field: str) -> list[FieldError]:
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        return [required(field, "exactly one of url or service is required")]
    if url is None:
        return apply(_SERVICE, service, f"{field}.service")
    if url.startswith("https://"):
        return []
    scheme = url.partition("://")[0] if "://" in url else ""
    message = "'https' is the only allowed URL scheme; desired format: https://host[/path]"
    return [invalid(f"{field}.url", scheme, message)]


def _version(value: str, field: str) -> list[FieldError]:
    return [invalid(field, value, f"Invalid value '{value}': {text}") for text in names.dns1035(value)]


_VERSIONS = each(
    "admissionReviewVersions",
    distinct(lambda name: name, lambda name, field: invalid(field, name, "duplicate version")),
    _version,
)


def _review_versions(hook: Manifest, path: str) -> list[FieldError]:
    versions, field = hook.get("admissionReviewVersions"), f"{path}.admissionReviewVersions"
    if not versions:
        return [required(field, f"must specify {_ONE_VERSION}")]
    found = _VERSIONS(hook, path)
    if not found and not {*versions}.intersection(REVIEW_VERSIONS):
        found.append(invalid(field, versions, f"must include at least {_ONE_VERSION}"))
    return found


def _beta_review_version(hook: Manifest) -> None:
    if not hook.get("admissionReviewVersions"):
        hook["admissionReviewVersions"] = ["v1beta1"]


class WebhookConfiguration(BuiltinKind):
    """Mutating and validating webhook configurations."""

    generation = True
    unconditional_update = False

    @classmethod
    def defaults_of(cls, resource: Resource) -> Mapping[str, Any]:
        """Return the defaults of a version; the beta fails open and needs less."""
        stable = resource.version == "v1"
        hook: dict[str, Any] = {
            "failurePolicy": "Fail" if stable else "Ignore",
            "matchPolicy": "Equivalent" if stable else "Exact",
            "namespaceSelector": {},
            "objectSelector": {},
            "timeoutSeconds": 10 if stable else 30,
            "rules[]": {"scope": "*"},
            "clientConfig?": _SERVICE_PORT,
        }
        if not stable:
            hook |= {"sideEffects": "Unknown", "": _beta_review_version}
        if resource.kind.startswith("Mutating"):
            hook["reinvocationPolicy"] = "Never"
        return {"webhooks[]": hook}

    @classmethod
    def rules_of(cls, resource: Resource) -> Rules:
        """Return the rules of a version; v1 has fewer side effects and no two webhooks of one name."""
        effects = SIDE_EFFECTS[resource.version]
        hook = (
            text("name", _fully_qualified, need=""),
            inside("namespaceSelector", label_selector),
            each("rules", *_RULE),
            choice("failurePolicy", ("Fail", "Ignore")),
            choice("matchPolicy", ("Equivalent", "Exact")),
            choice("sideEffects", effects, need=f"must specify one of {', '.join(effects)}", blank=True),
            number("timeoutSeconds", 1, 30, "the timeout value must be between 1 and 30 seconds"),
            inside("clientConfig", _client, absent={}),
            _review_versions,
        )
        different = (unique("name", blank=True),) if resource.version == "v1" else ()
        return (each("webhooks", *hook, *different),)


def _name_of_service(obj: Manifest, _: str) -> Errors:
    spec, name = obj["spec"], obj["metadata"].get("name", "")
    wanted = f"{spec.get('version', '')}.{spec.get('group', '')}"
    if name and name != wanted:
        yield invalid("metadata.name", name, f'must be `spec.version+"."+spec.group`: {wanted!r}')


def _local_with_trust(spec: Manifest) -> bool:
    return "service" not in spec and bool(spec.get("insecureSkipTLSVerify") or spec.get("caBundle"))


class APIService(BuiltinKind):
    """apiregistration.k8s.io APIService."""

    unconditional_update = False
    defaults = {"spec": _SERVICE_PORT}
    rules = (
        _name_of_service,
        inside(
            "spec",
            text("group", names.subdomain),
            text("version", names.dns1035, blank=True),
            number("groupPriorityMinimum", 1, 20000, "must be positive and less than 20000", absent=0),
            number("versionPriority", 1, 1000, "must be positive and less than 1000", absent=0),
            inside("service", needed("namespace", "name")),
            refused("insecureSkipTLSVerify", "local APIServices may not have TLS settings", _local_with_trust, True),
            refused(
                "insecureSkipTLSVerify",
                "may not be true if caBundle is present",
                lambda spec: "service" in spec and spec.get("insecureSkipTLSVerify") and spec.get("caBundle"),
            ),
        ),
    )

    def check_name(self, name: str) -> list[str]:
        """Names hold a version and a group, which may be empty."""
        return names.path_segment(name)
