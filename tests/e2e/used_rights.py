"""Which module uses which right of a service, and why some rights are used by none.

A line is a service, a group (`core`: that without a name, and paths), a resource or path, and verbs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tests.e2e.fleet import Fleet, until
from tests.support.service_rights import Grant, beyond, counted, used

STARTED: Final = """
agent_signer certificates.k8s.io certificatesigningrequests list watch
agent_signer cluster.karmada.io clusters list watch
autoscaler autoscaling horizontalpodautoscalers list watch
autoscaler autoscaling.karmada.io cronfederatedhpas list watch
autoscaler autoscaling.karmada.io federatedhpas list watch
cluster_monitor core events create
cluster_monitor core namespaces create list
cluster_monitor core secrets get list watch
cluster_monitor cluster.karmada.io clusters get list patch watch
cluster_monitor cluster.karmada.io clusters/status patch
cluster_monitor rbac.authorization.k8s.io rolebindings list
cluster_monitor remedy.karmada.io remedies list watch
detector core /api get
detector core /api/* get
detector core /apis get
detector core /apis/* get
detector * * get list watch
estimator core secrets get list watch
executor core secrets get list watch
gateway core secrets get
gateway cluster.karmada.io clusters get
networking core services list watch
networking discovery.k8s.io endpointslices list watch
networking multicluster.x-k8s.io serviceexports list watch
networking multicluster.x-k8s.io serviceimports list watch
networking networking.karmada.io multiclusteringresses list watch
networking networking.karmada.io multiclusterservices list watch
search search.karmada.io resourceregistries list watch
"""
"""What every installation uses."""
WALKED: Final = {
    "test_e2e_autoscaling": """
autoscaler core /api get
autoscaler core /api/* get
autoscaler core /apis get
autoscaler core /apis/* get
autoscaler core events create
autoscaler core secrets get list watch
autoscaler * */scale get patch
autoscaler apps deployments patch
autoscaler autoscaling.karmada.io cronfederatedhpas/status patch
autoscaler autoscaling.karmada.io federatedhpas get patch
autoscaler autoscaling.karmada.io federatedhpas/status patch
autoscaler custom.metrics.k8s.io * get
autoscaler external.metrics.k8s.io * list
""",
    "test_e2e_clusters": """
cluster_monitor core namespaces delete
""",
    "test_e2e_joining": """
cluster_monitor rbac.authorization.k8s.io rolebindings create
cluster_monitor rbac.authorization.k8s.io clusterroles bind
""",
    "test_e2e_proxy": """
gateway cluster.karmada.io clusters list
""",
    "test_e2e_quota": """
status_aggregator * * get
""",
    "test_e2e_rebalancing": """
detector apps.karmada.io workloadrebalancers delete
detector rbac.authorization.k8s.io clusterroles escalate
""",
    "test_e2e_rights": """
detector rbac.authorization.k8s.io roles bind escalate
""",
    "test_e2e_search": """
search core secrets get list watch
""",
    "test_e2e_services": """
detector core events create
detector * * patch
status_aggregator core events create
status_aggregator * */status patch
networking core events create
networking core services create delete get
networking discovery.k8s.io endpointslices create delete update
networking multicluster.x-k8s.io serviceexports/status patch
networking multicluster.x-k8s.io serviceimports/status patch
networking networking.karmada.io multiclusteringresses/status patch
networking networking.karmada.io multiclusterservices/status patch
""",
}
"""What the tests of a module use beside that."""
UNWALKED: Final = {
    "clusters that register themselves (tests/integration/cli)": """
agent_signer certificates.k8s.io certificatesigningrequests get patch
agent_signer certificates.k8s.io certificatesigningrequests/approval update
agent_signer certificates.k8s.io signers approve
agent_signer cluster.karmada.io clusters create get
""",
    "repeated Events only, which depends on time": """
autoscaler core events get patch
cluster_monitor core events get patch
networking core events get patch
status_aggregator core events patch
""",
    "kinds of targets that are handled as Deployments are": """
autoscaler apps replicasets patch
autoscaler apps statefulsets patch
""",
    "a scale that another one changed meanwhile, or that has no patch": """
autoscaler * */scale update
""",
    "ClusterTaintPolicies are watched with the gate Failover only (test_e2e_failover)": """
cluster_monitor policy.karmada.io clustertaintpolicies list watch
""",
    "a minute after the last cluster with credentials there, or with other accounts (tests/integration/members)": """
cluster_monitor rbac.authorization.k8s.io rolebindings delete patch
""",
    "an embedded control plane reviews itself; a stock one's gateway asks it": """
gateway authentication.k8s.io tokenreviews create
gateway authorization.k8s.io subjectaccessreviews create
""",
    "bindings to ClusterRoles are as those to Roles": """
detector rbac.authorization.k8s.io clusterroles bind
""",
    "addresses need a load balancer": """
networking core services patch
networking core services/status patch
networking discovery.k8s.io endpointslices get
""",
    "members that are asked in the name of callers (tests/integration/search)": """
search cluster.karmada.io clusters get list
""",
    "members that forbid what registries select (tests/integration/search)": """
search core events create get patch
search search.karmada.io resourceregistries/status patch
""",
    "many statuses at once": """
status_aggregator * * list
""",
    "an embedded control plane applies the webhook's rules itself (tests/containers, tests/integration/stock)": """
webhook core events create get patch
webhook admissionregistration.k8s.io mutatingwebhookconfigurations get
webhook admissionregistration.k8s.io validatingwebhookconfigurations get
webhook config.karmada.io resourceinterpretercustomizations list
webhook policy.karmada.io federatedresourcequotas list
webhook policy.karmada.io federatedresourcequotas/status update
""",
}
"""Why no test here uses a right, or not each time."""


def grants_of(text: str) -> Iterator[Grant]:
    """The grants that lines name."""
    for line in text.split("\n"):
        if line:
            service, group, resource, *verbs = line.split()
            for verb in verbs:
                yield Grant(service, verb, "" if group == "core" else group, resource)


def check_rights(fleet: Fleet, module: str, *, whole: bool) -> None:
    """Services were allowed nothing but by their own roles; all tests of a module have used what it is listed with."""
    control = fleet.kubectl()

    def now() -> str:
        return control.run("get", "--raw", "/metrics")

    assert beyond(counted(now())) == []
    if whole and module in WALKED:
        wanted = {*grants_of(STARTED), *grants_of(WALKED[module])}
        until(
            f"rights that {module} uses: {sorted(wanted - used(counted(now())))}",
            lambda: wanted <= used(counted(now())),
        )
