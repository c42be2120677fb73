"""Reads from a cluster fact how the member is reached."""

from __future__ import annotations

import msgspec
from msgspec import Struct, field

from schemas.events.cluster import ClusterChanged
from schemas.manifest import Manifest


class Access(Struct, frozen=True, kw_only=True):
    """How a cluster is reached: everything whose change needs a new connection."""

    uid: str
    mode: str
    endpoint: str = ""
    secret: tuple[str, str] = ("", "")
    insecure: bool = False
    proxy: str = ""
    """URL of the proxy that connections go through; empty without one."""
    proxy_headers: tuple[tuple[str, str], ...] = ()
    identity: str = ""
    """Uid of the member's namespace kube-system, empty while it is not known."""
    stranger: str = ""
    """The one that answers in its place, empty while the member itself does."""

    def spec(self) -> Manifest:
        """The part of a Cluster spec that opening a connection reads."""
        namespace, name = self.secret
        spec: Manifest = {
            "apiEndpoint": self.endpoint,
            "secretRef": {"namespace": namespace, "name": name},
            "insecureSkipTLSVerification": self.insecure,
        }
        if self.proxy:
            spec |= {"proxyURL": self.proxy, "proxyHeader": dict(self.proxy_headers)}
        return spec


class _Ref(Struct):
    namespace: str = ""
    name: str = ""


class _Spec(Struct, rename="camel"):
    id: str = ""
    sync_mode: str = ""
    api_endpoint: str = ""
    secret_ref: _Ref | None = None
    insecure_skip_tls_verification: bool = msgspec.field(name="insecureSkipTLSVerification", default=False)
    proxy_url: str = msgspec.field(name="proxyURL", default="")
    proxy_header: dict[str, str] | None = None


class _Cluster(Struct):
    spec: _Spec = field(default_factory=_Spec)


_cluster = msgspec.json.Decoder(_Cluster)


def access_of(event: ClusterChanged) -> Access:
    """The access data in a cluster fact."""
    spec = _cluster.decode(event.manifest).spec
    ref = spec.secret_ref or _Ref()
    return Access(
        uid=event.uid,
        mode=spec.sync_mode,
        endpoint=spec.api_endpoint,
        secret=(ref.namespace, ref.name),
        insecure=spec.insecure_skip_tls_verification,
        proxy=spec.proxy_url,
        proxy_headers=tuple(sorted((spec.proxy_header or {}).items())),
        identity=event.identity or spec.id,
        stranger=event.stranger,
    )
