"""Which steps of the admission chain see which writes."""

from services._rules.admission import KINDS
from services.apiserver.admission.chain import Admission, Attributes, nothing
from services.apiserver.admission.karmada_kinds import DeletionProtection, KarmadaKinds
from services.apiserver.core.request_context import LOOPBACK, Call
from services.apiserver.crds.generate import definitions
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.kinds.kind_model import Kind
from services.apiserver.server import ApiServer
from services.apiserver.settings import Settings
from services.apiserver.store.memory_store import MemoryStore


class Recorder:
    def __init__(self) -> None:
        self.seen: list[str] = []

    async def mutate(self, attributes: Attributes) -> None:
        self.seen.append(f"mutate {attributes.kind.resource.plural}")

    async def validate(self, attributes: Attributes) -> None:
        self.seen.append(f"validate {attributes.kind.resource.plural}")


class PodsOnly(Recorder):
    resources = frozenset({"/pods"})


class DeletionsOnly(Recorder):
    operations = frozenset({"DELETE"})


async def write(chain: Admission, kind: Kind, operation: str = "CREATE") -> None:
    attributes = Attributes(operation, kind, "", "ns", "a", {}, None, Call(LOOPBACK))
    await chain.mutate(attributes)
    await chain.validate(attributes)


async def test_admission_plugin_sees_its_resources_only() -> None:
    registry = builtin_registry()
    pods, maps = registry.find("", "v1", "pods"), registry.find("", "v1", "configmaps")
    assert pods is not None
    assert maps is not None
    everything, some, late = Recorder(), PodsOnly(), PodsOnly()
    chain = Admission([everything, some])
    await write(chain, maps)
    await write(chain, pods)
    assert everything.seen == ["mutate configmaps", "validate configmaps", "mutate pods", "validate pods"]
    assert some.seen == ["mutate pods", "validate pods"]
    chain.plugins.append(late)
    await write(chain, pods)
    assert late.seen == ["mutate pods", "validate pods"]


class OnlyChecks(Recorder):
    mutate = nothing


async def test_admission_plugin_has_one_half() -> None:
    maps = builtin_registry().find("", "v1", "configmaps")
    assert maps is not None
    checks = OnlyChecks()
    await write(Admission([checks]), maps)
    assert checks.seen == ["validate configmaps"]


async def test_admission_plugin_sees_its_operations_only() -> None:
    maps = builtin_registry().find("", "v1", "configmaps")
    assert maps is not None
    deletions = DeletionsOnly()
    chain = Admission([deletions])
    for operation in ("CREATE", "UPDATE", "DELETE"):
        await write(chain, maps, operation)
    assert deletions.seen == ["mutate configmaps", "validate configmaps"]


def test_a_server_without_admission_has_no_such_plugins() -> None:
    for admission in (True, False):
        server = ApiServer(MemoryStore(), builtin_registry(), Settings(admission=admission))
        found = [type(plugin) for plugin in server.objects.admission.plugins]
        assert (KarmadaKinds in found, DeletionProtection in found) == (admission, admission)


def test_every_kind_with_rules_is_a_definition_of_ours() -> None:
    crds = [*definitions(optional=False), *definitions(optional=True)]
    served = {f"{crd['spec']['group']}/{crd['spec']['names']['plural']}": crd["spec"]["names"]["kind"] for crd in crds}
    assert {served[resource] for resource in KarmadaKinds.resources} == {*KINDS, "Cluster"}
