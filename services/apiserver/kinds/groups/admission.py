"""Webhook configurations and APIServices."""

from __future__ import annotations

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import FieldError, duplicate, invalid, not_supported, required
from services.apiserver.kinds.builtin import BuiltinKind
from services.apiserver.kinds.checks import affinities as affinity_checks

OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
SIDE_EFFECTS = {"v1": ("None", "NoneOnDryRun"), "v1beta1": ("None", "NoneOnDryRun", "Some", "Unknown")}
REVIEW_VERSIONS = ("v1", "v1beta1")


class WebhookConfiguration(BuiltinKind):
    """Mutating and validating webhook configurations."""

    generation = True
    unconditional_update = False

    def default(self, obj: Manifest) -> None:
        """Fill in policies, selectors, timeouts, scopes and ports."""
        stable = self.resource.version == "v1"
        for hook in obj.get("webhooks") or ():
            hook.setdefault("failurePolicy", "Fail" if stable else "Ignore")
            hook.setdefault("matchPolicy", "Equivalent" if stable else "Exact")
            hook.setdefault("namespaceSelector", {})
            hook.setdefault("objectSelector", {})
            hook.setdefault("timeoutSeconds", 10 if stable else 30)
            if not stable:
                hook.setdefault("sideEffects", "Unknown")
                if not hook.get("admissionReviewVersions"):
                    hook["admissionReviewVersions"] = ["v1beta1"]
            if self.resource.kind.startswith("Mutating"):
                hook.setdefault("reinvocationPolicy", "Never")
            for rule in hook.get("rules") or ():
                rule.setdefault("scope", "*")
            service = (hook.get("clientConfig") or {}).get("service")
            if service is not None:
                service.setdefault("port", 443)

    def check(self, obj: Manifest) -> list[FieldError]:
        """Check names, clients, rules and policies of all webhooks."""
        found: list[FieldError] = []
        seen: set[str] = set()
        for index, hook in enumerate(obj.get("webhooks") or ()):
            field, name = f"webhooks[{index}]", hook.get("name", "")
            found += self._hook(hook, field)
            if self.resource.version == "v1" and name in seen:
                found.append(duplicate(f"{field}.name", name))
            seen.add(name)
        return found

    def _hook(self, hook: Manifest, field: str) -> list[FieldError]:
        found = _fully_qualified(hook.get("name", ""), f"{field}.name")
        found += affinity_checks.label_selector(hook.get("namespaceSelector"), f"{field}.namespaceSelector")
        for index, rule in enumerate(hook.get("rules") or ()):
            found += _rule(rule, f"{field}.rules[{index}]")
        for name, supported in (("failurePolicy", ("Fail", "Ignore")), ("matchPolicy", ("Equivalent", "Exact"))):
            if (value := hook.get(name)) is not None and value not in supported:
                found.append(not_supported(f"{field}.{name}", value, supported))
        effects, allowed = hook.get("sideEffects"), SIDE_EFFECTS[self.resource.version]
        if effects is None:
            found.append(required(f"{field}.sideEffects", f"must specify one of {', '.join(allowed)}"))
        elif effects not in allowed:
            found.append(not_supported(f"{field}.sideEffects", effects, allowed))
        seconds = hook.get("timeoutSeconds")
        if seconds is not None and not 1 <= seconds <= 30:
            text = "the timeout value must be between 1 and 30 seconds"
            found.append(invalid(f"{field}.timeoutSeconds", seconds, text))
        found += _client(hook.get("clientConfig") or {}, f"{field}.clientConfig")
        return found + _review_versions(hook.get("admissionReviewVersions") or [], f"{field}.admissionReviewVersions")


def _fully_qualified(name: str, field: str) -> list[FieldError]:
    if not name:
        return [required(field)]
    found = [invalid(field, name, text) for text in names.subdomain(name)]
    if not found and name.count(".") < 2:
        return [invalid(field, name, "should be a domain with at least three segments separated by dots")]
    return found


def _rule(rule: Manifest, field: str) -> list[FieldError]:
    found: list[FieldError] = []
    operations = rule.get("operations") or []
    if not operations:
        found.append(required(f"{field}.operations"))
    if "*" in operations and len(operations) > 1:
        text = "if '*' is present, must not specify other operations"
        found.append(invalid(f"{field}.operations", operations, text))
    found += [
        not_supported(f"{field}.operations[{index}]", name, OPERATIONS)
        for index, name in enumerate(operations)
        if name not in OPERATIONS
    ]
    for name in ("apiGroups", "apiVersions", "resources"):
        values = rule.get(name) or []
        if not values:
            found.append(required(f"{field}.{name}"))
        if "*" in values and len(values) > 1 and name != "resources":
            kind = "API groups" if name == "apiGroups" else "API versions"
            found.append(invalid(f"{field}.{name}", values, f"if '*' is present, must not specify other {kind}"))
    scope = rule.get("scope")
    if scope is not None and scope not in ("*", "Cluster", "Namespaced"):
        found.append(not_supported(f"{field}.scope", scope, ("*", "Cluster", "Namespaced")))
    return found


def _client(config: Manifest, field: str) -> list[FieldError]:
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        return [required(field, "exactly one of url or service is required")]
    service = service or {}
    if url is not None:
        if not url.startswith("https://"):
            scheme = url.partition("://")[0] if "://" in url else ""
            text = "'https' is the only allowed URL scheme; desired format: https://host[/path]"
            return [invalid(f"{field}.url", scheme, text)]
        return []
    found = [
        required(f"{field}.service.{name}", f"service {name} is required")
        for name in ("name", "namespace")
        if not service.get(name)
    ]
    if not 1 <= service.get("port", 443) <= 65535:
        text = "port is not valid: must be between 1 and 65535, inclusive"
        found.append(invalid(f"{field}.service.port", service["port"], text))
    return found


def _review_versions(versions: list[str], field: str) -> list[FieldError]:
    if not versions:
        return [required(field, f"must specify one of {', '.join(REVIEW_VERSIONS)}")]
    found: list[FieldError] = []
    seen: set[str] = set()
    for index, name in enumerate(versions):
        if name in seen:
            found.append(invalid(f"{field}[{index}]", name, "duplicate version"))
        seen.add(name)
        found += [invalid(f"{field}[{index}]", name, f"Invalid value '{name}': {text}") for text in names.dns1035(name)]
    if not found and not seen.intersection(REVIEW_VERSIONS):
        text = f"must include at least one of {', '.join(REVIEW_VERSIONS)}"
        found.append(invalid(field, versions, text))
    return found


class APIService(BuiltinKind):
    """apiregistration.k8s.io APIService."""

    has_status = True
    unconditional_update = False

    def default(self, obj: Manifest) -> None:
        """Fill in the port of the service."""
        service = obj["spec"].get("service")
        if service is not None:
            service.setdefault("port", 443)

    def check(self, obj: Manifest) -> list[FieldError]:
        """Check name, priorities and how the backend is trusted."""
        spec = obj["spec"]
        group, version = spec.get("group", ""), spec.get("version", "")
        found: list[FieldError] = []
        wanted = f"{version}.{group}"
        name = obj["metadata"].get("name", "")
        if name and name != wanted:
            found.append(invalid("metadata.name", name, f'must be `spec.version+"."+spec.group`: {wanted!r}'))
        if group:
            found += [invalid("spec.group", group, text) for text in names.subdomain(group)]
        found += [invalid("spec.version", version, text) for text in names.dns1035(version)]
        for field, limit in (("groupPriorityMinimum", 20000), ("versionPriority", 1000)):
            value = spec.get(field, 0)
            if not 0 < value <= limit:
                found.append(invalid(f"spec.{field}", value, f"must be positive and less than {limit}"))
        service = spec.get("service")
        if service is None:
            if spec.get("insecureSkipTLSVerify") or spec.get("caBundle"):
                found.append(invalid("spec.insecureSkipTLSVerify", True, "local APIServices may not have TLS settings"))
            return found
        found += [required(f"spec.service.{name}") for name in ("namespace", "name") if not service.get(name)]
        if spec.get("insecureSkipTLSVerify") and spec.get("caBundle"):
            text = "may not be true if caBundle is present"
            found.append(invalid("spec.insecureSkipTLSVerify", True, text))
        return found

    def check_name(self, name: str) -> list[str]:
        """Names hold a version and a group, which may be empty."""
        return names.path_segment(name)
