"""The command `fleetlog nats init`: keys of an operator, and the identity of observers, who only read the log."""

from __future__ import annotations

import secrets
from functools import partial
from pathlib import Path
from typing import Final

from services._kit.base.log_errors import LogError
from services._kit.base.private_files import private_text
from services._kit.log.connection import Connection
from services._rules.identity.accounts import OBSERVER_API, OBSERVER_USER
from services.cli.common.layout import SERVICES_CREDS, Layout
from services.cli.common.running import Failed, patience
from services.cli.common.waiting import wait_until
from services.cli.nats import authority as keys
from services.cli.nats.account_claims import hand_over_observer
from services.cli.nats.authority import Authority
from services.cli.nats.login_check import PATIENCE, log_in
from services.cli.nats.server_identities import changed, reload_server, server_config, server_pid

_TRY_SECONDS: Final = 2.0


async def init(place: Path, directory: Path, url: str, *, resolver_dir: Path | None, name: str, observer: bool) -> int:
    """Make the keys of an operator in `place`; with `observer` and keys or an installation, only observers; Failed.

    Keys of an earlier version get the credentials of services that they lack.
    """
    layout = Layout(directory)
    if keys.made(place):
        Authority(place).issue_services()
    if observer and keys.made(place):
        return await _add_to_keys(Authority(place), url)
    if observer and not url:
        installation = layout.load()
        if installation is None:
            raise Failed(
                f"there are no keys of an operator in {place} and no installation in {directory}; say with --nats "
                "which servers the keys are for, or name the installation with --dir"
            )
        if installation.nats_url:
            raise Failed(
                f"the log's server at {installation.nats_url} is not run by this installation; name the directory of "
                "its keys with --out, or add the account to its configuration (docs/tail-the-log.md)"
            )
        return await _add_to_installation(layout)
    if not url:
        raise Failed("say for which servers the keys are: --nats nats://n1:4222,nats://n2:4222")
    made = keys.create(place, url, resolver_dir or place / "resolver", name, observer=observer)
    print(f"""Keys of the operator are in {place}; who has them decides who may talk to the log.
  {keys.CONFIG:14} include it in the configuration of every server, then start or restart them
  {SERVICES_CREDS:14} for each service: FLEETLOG_NATS_CREDS={place / SERVICES_CREDS}/NAME.creds
                 and FLEETLOG_NATS_INBOX_PREFIX=_INBOX_NAME
  {keys.HUB_CREDS:14} for commands that write, and an embedded API server; it may do everything
  {keys.SYSTEM_CREDS:14} hands accounts to the servers, and asks them how they are
  operator.nk    nothing here needs it again; put it away
From now on `karmadactl join NAME --mode pull --nats-auth {place}` lets agents in, and unjoin ends them.""")
    if observer:
        print(_creds_usage(made, url), end="")
    return 0


async def _add_to_keys(authority: Authority, url: str) -> int:
    """Issue observers' credentials with keys that are there, and hand the accounts to the running servers."""
    path, url = authority.observer_creds, url or authority.book().url
    if path.exists():
        raise Failed(f"{path} is the identity of observers already; remove the file first to end it and get another")
    async with patience("handing the accounts to the servers"):
        private_text(path, await hand_over_observer(authority, url))
    print(_creds_usage(authority, url), end="")
    return 0


async def _add_to_installation(layout: Layout) -> int:
    """Add observers to the configuration of an installation's own server, and wait until it lets them in."""
    with changed(layout) as installation:
        installation.observer_token = installation.observer_token or secrets.token_urlsafe(24)
        server_config(layout, installation)
    if server_pid(layout):
        login = partial(
            log_in,
            installation.log_url,
            "fleetlog/observer",
            _TRY_SECONDS,
            user=OBSERVER_USER,
            password=installation.observer_token,
        )

        async def reads() -> str:
            reload_server(layout)
            answer = await login()
            if not isinstance(answer, Connection):
                return answer
            try:
                await answer.request(f"{OBSERVER_API}.INFO", timeout=1.0)
            except LogError as error:
                return str(error)
            finally:
                await answer.close()
            return ""

        await wait_until("the log's server lets observers in", reads, PATIENCE)
    print(f"""Who has this password reads the log and writes nothing:
  export FLEETLOG_NATS_URL={installation.log_url}
  export FLEETLOG_NATS_USER={OBSERVER_USER}
  export FLEETLOG_NATS_PASSWORD_FILE={layout.observer_password}
  fleetlog events --follow""")
    return 0


def _creds_usage(authority: Authority, url: str) -> str:
    return f"""Who has {authority.observer_creds} reads the log and writes nothing:
  export FLEETLOG_NATS_URL={url}
  export FLEETLOG_NATS_CREDS={authority.observer_creds}
  fleetlog events --follow
"""
