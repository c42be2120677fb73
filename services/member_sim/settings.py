"""Settings of one simulated member, from arguments or from FLEETLOG_MEMBER_* environment variables."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from services._kit.base.settings import Settings, access_options
from services._rules.kubernetes.quantity import QuantityError, parse
from services.member_sim.world.world_model import Config

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,46}[a-z0-9])?")
_PREFIX = "FLEETLOG_MEMBER_"


class MemberSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How one simulated member runs; port 0 takes a free one, an empty ``nats_url`` keeps everything in memory."""

    name: str = "member1"
    host: str = "127.0.0.1"
    port: int = 0
    admin_port: int = 0
    nats_url: str = ""
    """URLs of the log's servers, with commas."""
    nats_creds: str = ""
    """File with the credentials for these servers; empty where the URL contains them."""
    nats_user: str = ""
    nats_password_file: str = ""
    """File with the password of `nats_user`."""
    tls_ca: str = ""
    """File with the authority that signed the certificates of these servers."""
    replicas: int = 1
    """Servers that keep the member's objects."""
    data_dir: Path = Path(".fleetlog/member1")
    kubeconfig: Path | None = None
    public_url: str = ""
    """Where others reach the member, for its kubeconfig and its certificate; empty: where it listens."""
    token: str = ""
    """Bearer token of the cluster's administrator; drawn at random when empty."""
    admin_token: str = ""
    """Bearer token of the fault port; the administrator's token when empty."""
    version: str = "v1.31.4"
    nodes: int = 3
    cpu: str = "8"
    memory: str = "32Gi"
    pods: int = 110
    region: str = ""
    ready_delay: float = 0.1
    """Seconds until a placed pod is ready."""
    dual_stack: bool = False
    """Whether pods have an address of IPv6 beside that of IPv4."""
    authorization: str = "Node,RBAC"
    """How requests are decided, as in a cluster: Node,RBAC by roles; AlwaysAllow lets every identity do everything."""
    audit_log: Path | None = None

    @property
    def stream(self) -> str:
        """Name of the stream that holds the member's objects."""
        return f"OBJECTS_{self.name}"

    def config(self, ca: str) -> Config:
        """Return what the decisions need of this; ``ca`` is the cluster's certificate authority as PEM."""
        return Config(
            member=self.name,
            nodes=self.nodes,
            cpu=self.cpu,
            memory=self.memory,
            pods=self.pods,
            version=self.version,
            region=self.region,
            ready_delay=self.ready_delay,
            dual_stack=self.dual_stack,
            ca=ca,
        )

    @property
    def public_host(self) -> str:
        """The host of `public_url`."""
        return urlsplit(self.public_url).hostname or ""

    def log_access(self) -> dict[str, Any]:
        """Options of the client of the log's servers; raises SettingsError for a file that cannot be read."""
        return access_options(
            Settings(
                nats_creds=self.nats_creds,
                nats_user=self.nats_user,
                nats_password_file=self.nats_password_file,
                tls_ca=self.tls_ca,
            )
        )

    def check(self) -> None:
        """Raise ValueError naming the setting that cannot work."""
        if self.public_url and not self.public_host:
            raise ValueError(f"public_url {self.public_url!r}: give a URL, such as https://member1:6443")
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"name {self.name!r}: use at most 48 lower-case letters, digits and '-'")
        for name, quantity in (("cpu", self.cpu), ("memory", self.memory)):
            try:
                parse(quantity)
            except QuantityError as e:
                raise ValueError(f"{name}: {e}") from e
        if self.replicas not in (1, 3, 5):
            raise ValueError(f"replicas: use 1, 3 or 5, not {self.replicas}")
        for name, number in (("nodes", self.nodes), ("pods", self.pods), ("ready_delay", self.ready_delay)):
            if number < 0:
                raise ValueError(f"{name}: must not be negative, it is {number}")


def from_environment(environ: Mapping[str, str] = os.environ) -> MemberSettings:
    """Read FLEETLOG_MEMBER_<SETTING> variables; raises ValueError naming the variable that cannot be read."""
    given: dict[str, Any] = {}
    known = {field.name for field in msgspec.structs.fields(MemberSettings)}
    for variable, text in environ.items():
        if not variable.startswith(_PREFIX):
            continue
        name = variable.removeprefix(_PREFIX).lower()
        if name not in known:
            raise ValueError(f"{variable}: there is no such setting, use one of {', '.join(sorted(known))}")
        given[name] = text
    paths = {name: Path(given.pop(name)) for name in ("data_dir", "kubeconfig", "audit_log") if given.get(name)}
    try:
        settings = msgspec.convert(given, MemberSettings, strict=False)
    except msgspec.ValidationError as e:
        raise ValueError(f"{_PREFIX}*: {e}") from e
    if "data_dir" not in paths:
        paths["data_dir"] = Path(".fleetlog") / settings.name
    settings = msgspec.structs.replace(settings, **paths)
    settings.check()
    return settings
