"""Who may do what in an installation: its services no more than they need, tenants what roles give them.

That nothing of what services need is refused is asserted at the end of every module that uses an installation.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from services._rules.kubernetes.rbac.service_roles import RULES
from services.cli.installation.up import services_of
from tests.e2e.fleet import Failed, Fleet, Kubectl, until
from tests.e2e.reading import reader_of
from tests.e2e.space import Space

pytestmark = pytest.mark.xdist_group("workloads")

SECRETS = "default"
CREDENTIALS = "karmada-cluster"


@pytest.fixture
def services(fleet: Fleet) -> dict[str, Kubectl]:
    """kubectl with the identity of each service that has one."""
    names = [name for name in services_of(fleet.installation) if name in RULES]
    return {name: Kubectl(fleet.layout.identity(name)) for name in names}


def may(kubectl: Kubectl, *what: str) -> bool:
    """What `kubectl auth can-i` says, beside its warnings."""
    said = kubectl.run("auth", "can-i", *what, check=False).splitlines()
    assert {"yes", "no"} & {line.partition(" ")[0] for line in said}, said
    return "yes" in said


def test_every_service_is_a_user_of_its_own(services: dict[str, Kubectl]) -> None:
    assert set(services) == set(RULES) - {"webhook"}
    for name, kubectl in services.items():
        assert f"fleetlog:{name}" in kubectl.run("auth", "whoami", "-o", "yaml")


def test_no_service_may_do_what_it_has_no_business_with(services: dict[str, Kubectl]) -> None:
    rights = {name: reader_of(kubectl.kubeconfig) for name, kubectl in services.items()}
    for name, user in rights.items():
        for verb, kind in (
            ("delete", "deployments.apps"),
            ("create", "deployments.apps"),
            ("create", "clusterrolebindings.rbac.authorization.k8s.io"),
            ("impersonate", "users"),
            ("create", "serviceaccounts/token"),
            ("delete", "clusters.cluster.karmada.io"),
        ):
            assert not user.may(verb, kind), (name, verb, kind)
        # Roles are templates, too: who claims them has to be allowed what they grant.
        for verb in ("escalate", "bind"):
            allowed = user.may(verb, "clusterroles.rbac.authorization.k8s.io")
            assert allowed is (name == "detector"), (name, verb)
    for name in ("cluster_monitor", "estimator", "executor"):
        assert not rights[name].may("get", "secrets", SECRETS), name
        assert rights[name].may("get", "secrets", CREDENTIALS), name
        assert not rights[name].may("update", "secrets", CREDENTIALS), name


def test_refusals_name_user_and_resource(control: Kubectl) -> None:
    with pytest.raises(Failed, match='User "jane" cannot list resource "secrets"'):
        control.run("get", "secrets", "-A", "--as=jane")


@pytest.mark.main_path
def test_a_tenant_has_its_namespace_and_no_other(control: Kubectl, space: Space, fleet: Fleet, tmp_path: Path) -> None:
    control.run("create", "serviceaccount", "tenant", namespace=space.name)
    subject = f"--serviceaccount={space.name}:tenant"
    control.run("create", "rolebinding", "tenant", "--clusterrole=edit", subject, namespace=space.name)
    token = control.run("create", "token", "tenant", namespace=space.name).strip()
    config = tmp_path / "tenant.kubeconfig"
    text = control.run("config", "view", "--minify", "--flatten", "-o", "json")
    config.write_text(text)
    tenant = Kubectl(config)
    (user,) = tenant.run("config", "get-users").split()[1:]
    tenant.run("config", "delete-user", user)
    tenant.run("config", "set-credentials", user, f"--token={token}")
    own = ("-n", space.name)
    until("policies of a tenant", lambda: may(tenant, "create", "propagationpolicies.policy.karmada.io", *own))
    tenant.run("create", "configmap", "kept", namespace=space.name)
    for what in (
        ("list", "secrets", "-n", "kube-system"),
        ("create", "propagationpolicies.policy.karmada.io", "-n", "default"),
        ("create", "clusterpropagationpolicies.policy.karmada.io"),
        ("update", "federatedresourcequotas.policy.karmada.io", *own),
        ("create", "rolebindings", *own),
        ("list", "clusters.cluster.karmada.io"),
    ):
        assert not may(tenant, *what), what
    with pytest.raises(Failed, match="cannot create resource"):
        tenant.run("create", "clusterrolebinding", "mine", "--clusterrole=cluster-admin", subject)
    with pytest.raises(Failed, match="cannot impersonate resource"):
        tenant.run("get", "pods", "--as=admin", "--as-group=system:masters", namespace=space.name)


def test_roles_and_bindings_are_templates_as_well(space: Space) -> None:
    api = "rbac.authorization.k8s.io"
    place = {"name": "writer", "namespace": space.name}
    rules = [{"apiGroups": ["", "apps"], "resources": ["*"], "verbs": ["*"]}]
    role = space.apply({"apiVersion": f"{api}/v1", "kind": "Role", "metadata": place, "rules": rules})
    subjects = [{"kind": "User", "name": "jane", "apiGroup": api}]
    reference = {"kind": "Role", "name": "writer", "apiGroup": api}
    metadata = {**place, "name": "writers"}
    binding = {"kind": "RoleBinding", "metadata": metadata, "roleRef": reference, "subjects": subjects}
    binding = space.apply({"apiVersion": f"{api}/v1", **binding})
    for template in (role, binding):
        space.policy(template, {"clusterAffinity": {"clusterNames": ["member1"]}})
    for kind, name in (("role", "writer"), ("rolebinding", "writers")):

        def claimed(kind: str = kind, name: str = name) -> bool:
            found = space.control.run("get", kind, name, "-o", "yaml", namespace=space.name)
            return "propagationpolicy.karmada.io/permanent-id" in found

        until(f"claim of the {kind}", claimed)
    own = ("-n", space.name, "--as=jane")
    until("rights in the member", lambda: may(space.member["member1"], "delete", "deployments.apps", *own))


def test_members_ask_for_roles_as_well(fleet: Fleet) -> None:
    member = fleet.kubectl(fleet.members[0])
    assert not may(member, "list", "secrets", "--as=jane")
    assert may(member, "list", "secrets", "--as=karmada", "--as-group=system:masters")
