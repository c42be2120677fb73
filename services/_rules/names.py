"""Names that are derived from other names: bindings, works, namespaces, services, keys and their short hash.

docs/sources.md#names. The rules do not make a name valid: what a user may not write, the API refuses.
"""

from functools import lru_cache
from typing import Final

from services._rules.constants import EXECUTION_NAMESPACE_PREFIX, NAMESPACE_CLUSTER, NAMESPACE_SYSTEM

ESTIMATOR_SERVICE_PREFIX: Final = "karmada-scheduler-estimator"

_FNV_OFFSET: Final = 0x811C9DC5
_FNV_PRIME: Final = 0x01000193
# Digits become letters and digits that spell no words.
_SAFE_DIGITS: Final = str.maketrans("0123456789", "456789bcdf")


class NameFormatError(ValueError):
    """A name or key that does not have the form from which something was to be read."""


def fnv32(text: str) -> int:
    """32-bit FNV-1a hash of the UTF-8 bytes of a text."""
    value = _FNV_OFFSET
    for byte in text.encode("utf-8", "surrogatepass"):
        value = (value ^ byte) * _FNV_PRIME & 0xFFFFFFFF
    return value


def short_hash(text: str) -> str:
    """Hash of a text as at most ten safe characters, for use in names."""
    return str(fnv32(text)).translate(_SAFE_DIGITS)


@lru_cache(maxsize=8192)
def binding_name(kind: str, name: str) -> str:
    """Name of the binding of a template; neither group nor version takes part."""
    return _lower(f"{name.replace(':', '.')}-{kind}")


@lru_cache(maxsize=32768)
def work_name(kind: str, name: str, namespace: str = "") -> str:
    """Name of the work that carries an object, the same in every execution namespace."""
    stem = _lower(name.replace(":", "."))
    key = f"{namespace}-{stem}-{kind}" if namespace else f"{stem}-{kind}"
    return f"{stem}-{short_hash(_lower(key))}"


def binding_reference_key(namespace: str, name: str) -> str:
    """Hash of a binding's namespace and name, the last part of its depended-by label."""
    return short_hash(namespaced_key(namespace, name))


def policy_name(namespace: str, name: str, group_version_kind: str) -> str:
    """Name of a policy made by the command line for one object; the third part reads `apps/v1, Kind=Deployment`."""
    return _lower(f"{name.replace(':', '.')}-{short_hash(namespace + group_version_kind)}")


def namespaced_key(namespace: str, name: str) -> str:
    """`namespace/name`, or the name alone where there is no namespace."""
    return f"{namespace}/{name}" if namespace else name


def cluster_wide_key(api_version: str, kind: str, namespace: str, name: str) -> str:
    """Readable identity of an object inside one cluster.

    Raises NameFormatError where apiVersion has more than one slash.
    """
    return f"{group_version(api_version)}, kind={kind}, {namespaced_key(namespace, name)}"


def federated_key(cluster: str, api_version: str, kind: str, namespace: str, name: str) -> str:
    """Readable identity of an object among all clusters.

    Raises NameFormatError where apiVersion has more than one slash.
    """
    return f"cluster={cluster}, {cluster_wide_key(api_version, kind, namespace, name)}"


def group_version(api_version: str) -> str:
    """An apiVersion in its canonical spelling, without an empty group.

    Raises NameFormatError where it has more than one slash.
    """
    if api_version.count("/") > 1:
        raise NameFormatError(f"apiVersion {api_version!r} has more than one '/': write version or group/version")
    return api_version.removeprefix("/")


def execution_namespace(cluster: str) -> str:
    """Namespace of the control plane that holds the works of a cluster."""
    return EXECUTION_NAMESPACE_PREFIX + cluster


def cluster_of_execution_namespace(namespace: str) -> str:
    """Cluster whose works a namespace holds.

    Raises NameFormatError where it is no execution namespace.
    """
    if not namespace.startswith(EXECUTION_NAMESPACE_PREFIX):
        raise NameFormatError(
            f"namespace {namespace!r} holds no works: such a namespace starts with {EXECUTION_NAMESPACE_PREFIX!r}"
        )
    return namespace[len(EXECUTION_NAMESPACE_PREFIX) :]


def is_reserved_namespace(namespace: str) -> bool:
    """Whether a namespace belongs to the system, so that nothing in it is ever propagated."""
    return namespace in (NAMESPACE_SYSTEM, NAMESPACE_CLUSTER) or namespace.startswith(EXECUTION_NAMESPACE_PREFIX)


def derived_service_name(service_import: str) -> str:
    """Name of the service that stands for an imported one."""
    return f"derived-{service_import}"


def imported_endpoint_slice_name(endpoint_slice: str, cluster: str) -> str:
    """Name under which an endpoint slice of another cluster is imported."""
    return f"imported-{cluster}-{endpoint_slice}"


def dispatched_endpoint_slice_name(endpoint_slice: str, cluster: str) -> str:
    """Name under which an endpoint slice of another cluster is dispatched to consumers of its service."""
    return f"{cluster}-{endpoint_slice}"


def estimator_service_name(cluster: str, prefix: str = ESTIMATOR_SERVICE_PREFIX) -> str:
    """Name of the service of a cluster's capacity estimator."""
    return f"{prefix}-{cluster}"


def impersonation_secret_name(cluster: str) -> str:
    """Name of the secret with the credentials that impersonate users in a cluster."""
    return f"{cluster}-impersonator"


def member_service_account_name(cluster: str) -> str:
    """Name of the account under which the control plane works in a member."""
    return f"karmada-{cluster}"


def member_role_name(service_account: str) -> str:
    """Name of the cluster role, and of its binding, of such an account."""
    return f"karmada-controller-manager:{service_account}"


def _lower(text: str) -> str:
    """Lower case character by character; str.lower would change lengths and depend on neighbours."""
    return text.lower() if text.isascii() else "".join(character.lower()[:1] for character in text)
