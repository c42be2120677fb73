"""Settings of a process: frozen Structs filled from FLEETLOG_* variables and a file; what is mistyped is refused."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from services._kit.base.answer_limits import DEFAULTS, Limits
from services._kit.base.durations import seconds
from services._rules.feature_gates import FeatureGateError, feature_gates

PREFIX: Final = "FLEETLOG_"
OF_COMMANDS: Final = frozenset({"FLEETLOG_DIR", "FLEETLOG_NATS_AUTH"})
"""Variables of commands, which a shell may have exported when a service is started from it."""
FILE: Final = "FLEETLOG_SETTINGS_FILE"
MISTYPED: Final = 0.86
"""How alike an unknown setting and one of a service are from which on it is that one, mistyped."""


class SettingsError(ValueError):
    """A setting that is mistyped, missing or malformed; the message names its variable."""


def gates_of(entries: Sequence[str]) -> dict[str, bool]:
    """Every feature gate by entries such as `Failover=true`; raises SettingsError for one that does not exist."""
    try:
        return feature_gates(entries)
    except FeatureGateError as error:
        raise SettingsError(f"FLEETLOG_FEATURE_GATES: {error}") from None


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every service needs; a service adds its own fields in a subclass.

    Each field is read from the variable FLEETLOG_<FIELD IN CAPITALS>.
    """

    nats_url: str = "nats://127.0.0.1:4222"
    """Comma-separated URLs of the log's servers."""
    nats_creds: str = ""
    """File with a user's JWT and key."""
    nats_user: str = ""
    nats_password: str = ""
    nats_password_file: str = ""
    """File with the password of `nats_user`."""
    nats_nkey_file: str = ""
    """File with the seed of a user's nkey (`SU…`)."""
    nats_token_file: str = ""
    nats_inbox_prefix: str = "_INBOX"
    tls_ca: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    instance: str = ""
    """Name of this instance, unique within its service; empty: made from service and host."""
    http_host: str = "127.0.0.1"
    http_port: int = 0
    """Port of /healthz, /readyz and /metrics; 0: any free port, -1: none."""
    log_level: str = "info"
    data_dir: str = ""
    takeover_after: float = 2.0
    """Seconds of silence after which a standby takes over."""
    shard_groups: int = 1
    """Groups that instances of executor, override renderer and status aggregator share, 1 to 8; others share none."""
    fault_points: str = ""
    """Directory in which tests order the process to die at a point; empty: none."""
    topology_replicas: int = 1
    """Servers of the log that hold each stream that is created at start."""
    topology_bytes: tuple[str, ...] = ()
    """How large streams may be that are created or updated at start: `FACTS=20Gi,HISTORY=100Gi`."""
    answer_bytes: int = DEFAULTS.answer_bytes
    """Bytes of one answer of a member or webhook; answers of the control plane may have eight times as many."""
    object_bytes: int = DEFAULTS.object_bytes
    """Bytes of one object of a member."""
    list_objects: int = DEFAULTS.list_objects
    """Objects of one kind that a member may list; the control plane twenty times as many."""
    list_kept_bytes: int = DEFAULTS.list_kept_bytes
    """Bytes that are kept of one list of nodes or pods of a member."""
    answer_seconds: float = DEFAULTS.answer_seconds
    """Seconds for one answer."""
    silence_seconds: float = DEFAULTS.silence_seconds
    """Seconds without a byte after which an answer is given up and a watch goes on over a new connection."""
    watch_seconds: float = DEFAULTS.watch_seconds
    """Seconds after which servers are asked to end a watch, which then goes on; less than `silence_seconds`."""
    member_cache_bytes: int = DEFAULTS.cache_bytes
    """Bytes of live objects of one member that are kept at hand, besides 16 KiB for each that it was given."""
    member_cpu_share: float = DEFAULTS.cpu_share
    """Part of a core that is spent on what one member sends; 1: as much as there is."""
    apply_topology: bool = False
    """Create missing streams at start; otherwise they are waited for."""

    @property
    def answer_limits(self) -> Limits:
        """Bounds of what others may send."""
        return Limits(
            answer_bytes=self.answer_bytes,
            object_bytes=self.object_bytes,
            list_objects=self.list_objects,
            list_kept_bytes=self.list_kept_bytes,
            answer_seconds=self.answer_seconds,
            first_byte_seconds=self.silence_seconds,
            silence_seconds=self.silence_seconds,
            watch_seconds=min(self.watch_seconds, self.silence_seconds * 5 / 6),
            cache_bytes=self.member_cache_bytes,
            cpu_share=self.member_cpu_share,
        )


T = TypeVar("T", bound=Settings)


class Given(Struct, frozen=True):
    """A setting as it was given: its name as a field, and as people wrote it, with the place."""

    name: str
    value: Any
    origin: str


def load(kind: type[T], environment: Mapping[str, str] | None = None) -> T:
    """Settings from the environment, over those of the file that FLEETLOG_SETTINGS_FILE names (JSON or TOML).

    What is unknown is left out, as a setting of another service. Raises SettingsError where it looks like one of these,
    mistyped, and for what is missing or malformed; it names the variable and what it could be.
    """
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    done: dict[str, Any] = {}
    for one in given(environment):
        if one.name not in fields:
            if meant := mistyped(one.name, fields):
                variable = f"{PREFIX}{meant.upper()}"
                raise SettingsError(f"{one.origin}: no such setting; did you mean {variable}?")
            continue
        try:
            done[one.name] = convert(one.value, fields[one.name].type)
        except msgspec.ValidationError as error:
            raise SettingsError(f"{one.origin}: {error}") from None
    missing = [field for field in fields.values() if field.required and field.name not in done]
    if missing:
        raise SettingsError(f"{PREFIX}{missing[0].name.upper()} is not set, but {kind.__name__} needs it")
    return kind(**done)


def tell_unknown(kind: type[Settings], environment: Mapping[str, str] | None, logger: Any) -> None:
    """Log what is given that a service does not know; raises SettingsError."""
    fields = {field.name for field in msgspec.structs.fields(kind)}
    for one in given(environment):
        if one.name not in fields:
            reason = "this service has no such setting; `fleetlog settings check` says which have"
            logger.warning("setting_unknown", setting=one.origin, reason=reason)


def given(environment: Mapping[str, str] | None = None) -> list[Given]:
    """The settings of an environment, over those of the file that it names; raises SettingsError."""
    environment = os.environ if environment is None else environment
    path = environment.get(FILE, "")
    found = {name: Given(name, value, f"{name} in {path}") for name, value in read(Path(path)).items()} if path else {}
    for variable, text in environment.items():
        if variable.startswith(PREFIX) and variable != FILE and variable not in OF_COMMANDS:
            name = variable[len(PREFIX) :].lower()
            found[name] = Given(name, text, variable)
    return list(found.values())


def mistyped(name: str, known: Iterable[str]) -> str:
    """The setting that an unknown one was meant to be; empty where none of these is nearly the same."""
    return next(iter(get_close_matches(name, known, 1, MISTYPED)), "")


def read(path: Path) -> dict[str, Any]:
    """The settings of a file; raises SettingsError."""
    try:
        text = path.read_bytes()
        if path.suffix == ".toml":
            return msgspec.toml.decode(text, type=dict[str, Any])
        return msgspec.json.decode(text, type=dict[str, Any])
    except OSError as error:
        raise SettingsError(f"{FILE}: {path} cannot be read: {error.strerror}") from None
    except msgspec.MsgspecError as error:
        raise SettingsError(f"{FILE}: {path}: {error}") from None


def convert(value: Any, kind: Any) -> Any:
    """Text of the environment becomes what the field wants; lists have commas, times may be written `1m30s`.

    Raises msgspec.ValidationError.
    """
    if isinstance(value, str) and kind is bool:
        truth = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
        if value.lower() not in truth:
            raise msgspec.ValidationError(f"expected true or false, got {value!r}")
        return truth[value.lower()]
    if isinstance(value, str) and kind in (float, float | None) and (lasts := seconds(value)) is not None:
        return lasts
    if isinstance(value, str) and getattr(kind, "__origin__", None) in (tuple, list):
        value = [part.strip() for part in value.split(",") if part.strip()]
    return msgspec.convert(value, kind, strict=False)


_OF_THE_LOG: Final = (
    "nats_url",
    "nats_creds",
    "nats_user",
    "nats_password",
    "nats_password_file",
    "nats_nkey_file",
    "nats_token_file",
    "nats_inbox_prefix",
    "tls_ca",
    "tls_cert",
    "tls_key",
)


def log_environment(settings: Settings) -> dict[str, str]:
    """The variables that name the log and the identity there, for a process that reads it as well."""
    return {f"{PREFIX}{name.upper()}": getattr(settings, name) for name in _OF_THE_LOG}


def log_settings(environment: Mapping[str, str]) -> Settings:
    """Settings of which only those variables count, and of the file that is named only those; raises SettingsError."""
    path = environment.get(FILE, "")
    written = read(Path(path)) if path else {}
    of_file = {f"{PREFIX}{name.upper()}": str(written[name]) for name in _OF_THE_LOG if name in written}
    known = {f"{PREFIX}{name.upper()}" for name in _OF_THE_LOG}
    return load(Settings, of_file | {name: value for name, value in environment.items() if name in known})


def tls_context(settings: Settings) -> ssl.SSLContext | None:
    """The TLS context that the settings ask for, None without any; raises SettingsError for unreadable files."""
    if not settings.tls_ca and not settings.tls_cert:
        return None
    try:
        context = ssl.create_default_context(cafile=settings.tls_ca or None)
        if settings.tls_cert:
            context.load_cert_chain(settings.tls_cert, settings.tls_key or None)
    except OSError as error:
        raise SettingsError(f"FLEETLOG_TLS_CA, FLEETLOG_TLS_CERT, FLEETLOG_TLS_KEY: {error}") from error
    return context


def credentials(settings: Settings) -> dict[str, Any]:
    """Options of the client for the identity that the settings name.

    Passwords, tokens and credentials are read again with every connection; raises SettingsError for what is not there.
    """
    options: dict[str, Any] = {"inbox_prefix": settings.nats_inbox_prefix.encode()}
    if settings.nats_creds:
        options["user_credentials"] = settings.nats_creds
    if settings.nats_nkey_file:
        options["nkeys_seed_str"] = _secret("NATS_NKEY_FILE", settings.nats_nkey_file)
    if settings.nats_user:
        options["user"], options["password"] = settings.nats_user, settings.nats_password
        if settings.nats_password_file:
            options["password"] = _read_again("NATS_PASSWORD_FILE", settings.nats_password_file)
    if settings.nats_token_file:
        options["token"] = _read_again("NATS_TOKEN_FILE", settings.nats_token_file)
    return options


def access_options(settings: Settings) -> dict[str, Any]:
    """Options of the client for identity and TLS, for those that read the log's settings only; raises SettingsError."""
    context = tls_context(settings)
    return credentials(settings) | ({"tls": context} if context is not None else {})


def _read_again(variable: str, path: str) -> Callable[[], str]:
    """Reads a file that is exchanged while this runs; what was read last counts while it cannot be read."""
    last = _secret(variable, path)

    def read() -> str:
        nonlocal last
        with suppress(SettingsError):
            last = _secret(variable, path)
        return last

    return read


def _secret(variable: str, path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{PREFIX}{variable}: {error}") from error
