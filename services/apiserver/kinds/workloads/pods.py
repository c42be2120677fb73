"""Pods and pod templates: defaults, admission of single pods, quality of service, checks and selectable fields."""

from __future__ import annotations

from schemas.manifest import Manifest
from services._rules.kubernetes import quantity
from services._rules.kubernetes.validation.field_errors import FieldError, invalid
from services._rules.kubernetes.validation.field_rules import apply, each, inside, needed
from services.apiserver.kinds.builtin import BuiltinKind
from services.apiserver.kinds.checks import pod_specs as pod_checks
from services.apiserver.kinds.workloads import pod_defaults, pod_update
from services.apiserver.kinds.workloads.template_warnings import PodMaker, name_warnings, template_warnings

_EVICTING_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
TOLERATION_SECONDS = 300


class Pod(BuiltinKind):
    """core/v1 Pod."""

    generation = True
    graceful_delete = True
    rules = (*pod_checks.NEW_POD, inside("spec", each("volumes", inside("image", needed("reference")))))

    def default(self, obj: Manifest) -> None:
        """Fill in the pod spec."""
        spec = obj.setdefault("spec", {})
        pod_defaults.spec(spec)
        pod_defaults.pod(spec)
        status = obj.get("status") or {}
        address, addresses = status.get("podIP"), status.get("podIPs")
        if address and (not addresses or addresses[0].get("ip") != address):
            status["podIPs"] = [{"ip": address}]
        elif addresses and not address:
            status["podIP"] = addresses[0].get("ip", "")

    def prepare_create(self, obj: Manifest) -> None:
        """Start as Pending, with tolerations of failing nodes."""
        super().prepare_create(obj)
        spec = obj["spec"]
        tolerate_failing_nodes(spec)
        obj["status"] = {"phase": "Pending", "qosClass": qos_class(spec)}

    def prepare_update(self, new: Manifest, old: Manifest) -> None:
        """Fill in again what admission had added: a client that sends its own manifest again does not remove it."""
        super().prepare_update(new, old)
        spec, before = new["spec"], old["spec"]
        tolerate_failing_nodes(spec)
        for name in ("priority", "preemptionPolicy"):
            if name in before:
                spec.setdefault(name, before[name])

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Only images, the deadline and additional tolerations may change."""
        return [*apply(pod_checks.POD, new), *pod_update.check(new, old)]

    def warnings(self, obj: Manifest) -> list[str]:
        """Tell of what is taken and does not do what it seems to ask for."""
        return [*name_warnings(obj, "in the Pod's hostname"), *template_warnings(obj, "")]

    def change_warnings(self, new: Manifest, old: Manifest) -> list[str]:
        """A pod has its name already."""
        return template_warnings(new, "")

    def prepare_ephemeralcontainers(self, new: Manifest, old: Manifest) -> None:
        """Take over the containers that are added to look into a pod."""
        containers = new["spec"].get("ephemeralContainers")
        self._take_spec(new, old, {**old["spec"], **({"ephemeralContainers": containers} if containers else {})})

    def prepare_resize(self, new: Manifest, old: Manifest) -> None:
        """Take over the resources of the containers."""
        self._take_spec(new, old, pod_update.resized(new["spec"], old["spec"]))

    def _take_spec(self, new: Manifest, old: Manifest, spec: Manifest) -> None:
        """Leave of a new state the spec that is left of it, its revision and its field managers."""
        given = {
            name: new["metadata"][name] for name in ("resourceVersion", "managedFields") if name in new["metadata"]
        }
        new.clear()
        new |= {**old, "metadata": {**old["metadata"], **given}, "spec": spec}
        self._set_generation(new, old)

    def validate_ephemeralcontainers(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Ephemeral containers may be added, and stay as they are."""
        return [*apply(pod_checks.POD, new), *pod_update.check_ephemeral(new, old)]

    def validate_resize(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Amounts of processor and memory may change, within the quality of service."""
        found = [*apply(pod_checks.POD, new), *pod_update.check_resize(new, old)]
        quality = qos_class(new["spec"])
        if quality != qos_class(old["spec"]):
            found.append(invalid("spec", quality, "Pod QOS Class may not change as a result of resizing"))
        return found

    def validate_status(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Check the nominated node name and restarts of finished containers."""
        return pod_update.check_status(new, old)

    def field_selectors(self, obj: Manifest) -> dict[str, str]:
        """Add the node, policy, phase and address of the pod."""
        spec, status = obj.get("spec", {}), obj.get("status", {})
        addresses = [item.get("ip", "") for item in status.get("podIPs") or ()]
        return {
            **super().field_selectors(obj),
            "spec.nodeName": spec.get("nodeName", ""),
            "spec.restartPolicy": spec.get("restartPolicy", ""),
            "spec.schedulerName": spec.get("schedulerName", ""),
            "spec.serviceAccountName": spec.get("serviceAccountName", ""),
            "status.phase": status.get("phase", ""),
            "status.podIP": addresses[0] if addresses else status.get("podIP", ""),
            "status.podIPs": ",".join(addresses),
            "status.nominatedNodeName": status.get("nominatedNodeName", ""),
        }


class PodTemplate(PodMaker):
    """core/v1 PodTemplate."""

    template_at = "template"
    names_pods = False
    generation = True
    defaults = {"template?": pod_defaults.template}
    rules = (inside("template", *pod_checks.TEMPLATE, absent={}),)


def tolerate_failing_nodes(spec: Manifest) -> None:
    """Add the default tolerations of not-ready and unreachable nodes where the pod has none for them."""
    tolerations = spec.get("tolerations") or []
    added = [
        {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION_SECONDS}
        for taint in _EVICTING_TAINTS
        if not any(
            item.get("key", "") in ("", taint) and item.get("effect", "") in ("", "NoExecute") for item in tolerations
        )
    ]
    if added:
        spec["tolerations"] = [*tolerations, *added]


def qos_class(spec: Manifest) -> str:
    """Return Guaranteed, Burstable or BestEffort from the cpu and memory of all containers."""
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    guaranteed = True
    for item in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        resources = item.get("resources") or {}
        _add(resources.get("requests") or {}, requests)
        guaranteed = _add(resources.get("limits") or {}, limits) == 2 and guaranteed
    if not requests and not limits:
        return "BestEffort"
    if guaranteed and len(requests) == len(limits) and all(limits.get(name) == requests[name] for name in requests):
        return "Guaranteed"
    return "Burstable"


def _add(amounts: Manifest, total: dict[str, int]) -> int:
    """Add what counts for the class to the total, and return how many resources that are."""
    found = {name: quantity.parse(amounts[name]).nano for name in ("cpu", "memory") if name in amounts}
    counted = {name: nano for name, nano in found.items() if nano > 0}
    for name, nano in counted.items():
        total[name] = total.get(name, 0) + nano
    return len(counted)
