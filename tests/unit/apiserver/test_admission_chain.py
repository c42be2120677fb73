"""Which steps of the admission chain see which writes."""

from services.apiserver.admission.chain import Admission, Attributes
from services.apiserver.core.request_context import LOOPBACK, Call
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.kinds.kind_model import Kind


class Recorder:
    def __init__(self) -> None:
        self.seen: list[str] = []

    async def mutate(self, attributes: Attributes) -> None:
        self.seen.append(f"mutate {attributes.kind.resource.plural}")

    async def validate(self, attributes: Attributes) -> None:
        self.seen.append(f"validate {attributes.kind.resource.plural}")


class PodsOnly(Recorder):
    resources = frozenset({"/pods"})


async def write(chain: Admission, kind: Kind) -> None:
    attributes = Attributes("CREATE", kind, "", "ns", "a", {}, None, Call(LOOPBACK))
    await chain.mutate(attributes)
    await chain.validate(attributes)


async def test_admission_plugin_sees_its_resources_only() -> None:
    registry = builtin_registry("current")
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
