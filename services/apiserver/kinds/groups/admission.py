"""Webhook configurations and APIServices."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from typing import Any

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import (
    Errors,
    FieldError,
    go_strings,
    invalid,
    required,
)
from services._rules.kubernetes.validation.field_rules import (
    Check,
    Rules,
    apply,
    choice,
    each,
    inside,
    listed,
    needed,
    number,
    refused,
    repeated,
    text,
    unique,
)
from services._rules.kubernetes.validation.status_fields import STATES
from services.apiserver.kinds.builtin import BuiltinKind
from services.apiserver.kinds.checks.affinities import label_selector
from services.apiserver.kinds.checks.expressions import webhook_conditions
from services.apiserver.kinds.kind_model import Resource

OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
SIDE_EFFECTS = ("None", "NoneOnDryRun")
REVIEW_VERSIONS = ("v1", "v1beta1")
_ONE_VERSION = f"one of {', '.join(REVIEW_VERSIONS)}"
_SERVICE_PORT = {"service?": {"port": 443}}


def _star_alone(name: str, others: str) -> Check:
    def check(rule: Manifest, path: str) -> Errors:
        values = rule.get(name) or []
        if "*" in values and len(values) != 1:
            text = f"if '*' is present, must not specify other {others}"
            yield invalid(f"{path}.{name}", go_strings(values), text)

    return check


def _not_blank(value: str, field: str) -> list[FieldError]:
    return [] if value else [required(field)]


def _resources(rule: Manifest, path: str) -> Errors:
    """What is wrong with resources and subresources: one that another covers may not be listed beside it."""
    resources, field = rule.get("resources") or [], f"{path}.resources"
    all_of: set[str] = set()
    of_all: set[str] = set()
    for index, name in enumerate(resources):
        place = f"{field}[{index}]"
        if not name:
            yield required(place)
        resource, slash, subresource = name.partition("/")
        if not slash:
            continue
        if resource in all_of:
            yield invalid(place, name, f"if '{resource}/*' is present, must not specify {name}")
        if subresource in of_all:
            yield invalid(place, name, f"if '*/{subresource}' is present, must not specify {name}")
        if subresource == "*":
            all_of.add(resource)
        if resource == "*":
            of_all.add(subresource)
    shown = go_strings(resources)
    if len(resources) > 1 and "*/*" in resources:
        yield invalid(field, shown, "if '*/*' is present, must not specify other resources")
    if "*" in resources and any(name not in ("", "*") and "/" not in name for name in resources):
        yield invalid(field, shown, "if '*' is present, must not specify other resources without subresources")


# What a webhook or a policy is asked about.
ADMISSION_RULE = (
    needed("operations"),
    _star_alone("operations", "operations"),
    each("operations", listed(OPERATIONS)),
    needed("apiGroups"),
    _star_alone("apiGroups", "API groups"),
    needed("apiVersions"),
    _star_alone("apiVersions", "API versions"),
    each("apiVersions", _not_blank),
    needed("resources"),
    _resources,
    choice("scope", ("*", "Cluster", "Namespaced")),
)


def _service_path(service: Manifest, path: str) -> Errors:
    """What is wrong with the path at which a service is called: each segment is a name."""
    value, field = service.get("path", ""), f"{path}.path"
    if value in ("", "/"):
        return
    if value == "//":
        yield invalid(field, value, "segment[0] may not be empty")
        return
    if not value.startswith("/"):
        yield invalid(field, value, "must start with a '/'")
    for index, step in enumerate(value[1:].removesuffix("/").split("/")):
        texts = [f": {text}" for text in names.subdomain(step)] if step else [" may not be empty"]
        yield from (invalid(field, value, f"segment[{index}]{text}") for text in texts)


def _namespace_of_service(service: Manifest, path: str) -> Errors:
    # An answer names the field beside the one that is missing, as Kubernetes does.
    if not service.get("namespace"):
        yield required(f"{path}.name", "service namespace is required")


_SERVICE = (
    needed("name", detail="service name is required"),
    _namespace_of_service,
    number("port", 1, 65535, "port is not valid: must be between 1 and 65535, inclusive"),
    _service_path,
)
_FORM = "; desired format: https://host[/path]"


def _url(url: str, field: str) -> list[FieldError]:
    """What is wrong with the address of a webhook: it has a host and a path, and nothing else."""
    try:
        parts = urllib.parse.urlsplit(url)
        _ = parts.port
    except ValueError as error:
        return [required(field, f"url must be a valid URL: {error}{_FORM}")]
    found = []
    if parts.scheme != "https":
        found.append(invalid(field, parts.scheme, f"'https' is the only allowed URL scheme{_FORM}"))
    user, at, host = parts.netloc.rpartition("@")
    if not host:
        found.append(invalid(field, "", f"host must be provided{_FORM}"))
    if at:
        found.append(invalid(field, user, "user information is not permitted in the URL"))
    if parts.fragment:
        found.append(invalid(field, parts.fragment, "fragments are not permitted in the URL"))
    if parts.query:
        found.append(invalid(field, parts.query, "query parameters are not permitted in the URL"))
    return found


def _client(config: Manifest, field: str) -> list[FieldError]:
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        return [required(field, "exactly one of url or service is required")]
    return apply(_SERVICE, service, f"{field}.service") if url is None else _url(url, f"{field}.url")


def _versions(values: list[str], field: str) -> Errors:
    twice = {*repeated(values)}
    for index, value in enumerate(values):
        texts = ["duplicate version"] if index in twice else names.dns1035(value)
        yield from (invalid(f"{field}[{index}]", value, text) for text in texts)


def _review_versions(hook: Manifest, path: str) -> list[FieldError]:
    versions, field = hook.get("admissionReviewVersions"), f"{path}.admissionReviewVersions"
    if not versions:
        return [required(field, f"must specify {_ONE_VERSION}")]
    found = list(_versions(versions, field))
    if not {*versions}.intersection(REVIEW_VERSIONS):
        found.append(invalid(field, go_strings(versions), f"must include at least {_ONE_VERSION}"))
    return found


_HOOK: Rules = (
    text("name", names.fully_qualified, need=""),
    inside("namespaceSelector", label_selector),
    inside("objectSelector", label_selector),
    each("rules", *ADMISSION_RULE),
    choice("failurePolicy", ("Fail", "Ignore")),
    choice("matchPolicy", ("Equivalent", "Exact")),
    choice("reinvocationPolicy", ("IfNeeded", "Never")),
    choice("sideEffects", SIDE_EFFECTS, need=f"must specify one of {', '.join(SIDE_EFFECTS)}", blank=True),
    number("timeoutSeconds", 1, 30, "the timeout value must be between 1 and 30 seconds"),
    inside("clientConfig", _client, absent={}),
    _review_versions,
    webhook_conditions,
    unique("name", blank=True),
)


class WebhookConfiguration(BuiltinKind):
    """Mutating and validating webhook configurations."""

    generation = True
    unconditional_update = False
    rules = (each("webhooks", *_HOOK),)

    @classmethod
    def defaults_of(cls, resource: Resource) -> Mapping[str, Any]:
        """Return the defaults; only a mutating webhook can be called again."""
        hook: dict[str, Any] = {
            "failurePolicy": "Fail",
            "matchPolicy": "Equivalent",
            "namespaceSelector": {},
            "objectSelector": {},
            "timeoutSeconds": 10,
            "rules[]": {"scope": "*"},
            "clientConfig?": _SERVICE_PORT,
        }
        if resource.kind.startswith("Mutating"):
            hook["reinvocationPolicy"] = "Never"
        return {"webhooks[]": hook}


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
    status_rules = (each("conditions", STATES),)
    defaults = {"spec": _SERVICE_PORT}
    rules = (
        _name_of_service,
        inside(
            "spec",
            text("group", names.subdomain),
            text("version", names.dns1035, blank=True),
            number("groupPriorityMinimum", 1, 20000, "must be positive and less than 20000", absent=0),
            number("versionPriority", 1, 1000, "must be positive and less than 1000", absent=0),
            inside("service", needed("namespace", "name"), number("port", 1, 65535)),
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
