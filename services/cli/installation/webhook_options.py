"""Options that name the webhook of a control plane: its URL or Service, and its authority."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

if TYPE_CHECKING:
    from services._rules.admission.webhook_configurations import Target

_PORT: Final = 443
_LAST_PORT: Final = 65535


class WebhookOptions(NamedTuple):
    """Where a control plane finds the webhook; by neither a URL nor a Service nothing of it is meant."""

    url: Annotated[
        str, typer.Option("--webhook-url", help="https URL at which the control plane reaches services.webhook.")
    ] = ""
    service: Annotated[
        str,
        typer.Option("--webhook-service", help="namespace/name[:port] of its Service in the control plane's cluster."),
    ] = ""
    ca: Annotated[
        str, typer.Option("--webhook-ca", help="File with the authority of its certificate; else the system's.")
    ] = ""

    def target(self) -> Target | None:
        """Where the webhook is; None where none is named. Raises Failed for what makes no sense."""
        import base64

        from services._rules.admission.webhook_configurations import Target
        from services.cli.common.running import Failed

        if not self.url and not self.service:
            if self.ca:
                raise Failed("--webhook-ca needs --webhook-url or --webhook-service")
            return None
        if self.url and self.service:
            raise Failed("--webhook-url and --webhook-service exclude each other: an API server takes one of them")
        try:
            bundle = Path(self.ca).read_bytes() if self.ca else b""
        except OSError as error:
            raise Failed(f"--webhook-ca {self.ca}: {error.strerror or error}") from None
        if self.ca and b"-----BEGIN CERTIFICATE-----" not in bundle:
            raise Failed(f"--webhook-ca {self.ca} holds no certificate in PEM form")
        encoded = base64.b64encode(bundle).decode()
        if self.url:
            if not self.url.startswith("https://") or "?" in self.url or "#" in self.url:
                raise Failed(f"--webhook-url {self.url}: give https://host[:port], without query and fragment")
            return Target(encoded, url=self.url)
        namespace, slash, rest = self.service.partition("/")
        name, colon, port = rest.partition(":")
        number = int(port) if port.isascii() and port.isdigit() else 0 if colon else _PORT
        if not (namespace and slash and name) or not 0 < number <= _LAST_PORT:
            raise Failed(f"--webhook-service {self.service}: give namespace/name or namespace/name:port")
        return Target(encoded, namespace=namespace, service=name, port=number)
