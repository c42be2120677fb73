"""What a kubeconfig says of its endpoint: address, trust and identity, read by kubernetes-asyncio unless it is plain.

The only importer of kubernetes_asyncio. Its configuration and authentication are used; its generated models, which
cost 110 MB and two seconds, are kept out by loading the client core below an empty package shell.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from schemas.manifest import Manifest
from services._kit.kube.plain_kubeconfig import plain_endpoint
from services._kit.kube.route import Route, proxy_problem, trust


def client_core() -> tuple[Any, Any]:
    """Configuration class and kubeconfig loader, without the generated models; loaded on the first call."""
    name = "kubernetes_asyncio"
    if name not in sys.modules:
        spec = find_spec(name)
        if spec is None or spec.submodule_search_locations is None:
            raise ImportError("kubernetes-asyncio is not installed")
        root = Path(next(iter(spec.submodule_search_locations)))
        for module_name, folder in (
            (name, root),
            (f"{name}.client", root / "client"),
            (f"{name}.config", root / "config"),
        ):
            shell = ModuleType(module_name)
            shell.__path__ = [str(folder)]
            sys.modules[module_name] = shell
        sys.modules[f"{name}.client.models"] = ModuleType(f"{name}.client.models")
        client = sys.modules[f"{name}.client"]
        client.models = sys.modules[f"{name}.client.models"]  # type: ignore[attr-defined]  # a module shell
        client.Configuration = import_module(f"{name}.client.configuration").Configuration  # type: ignore[attr-defined]  # a module shell
        client.ApiClient = import_module(f"{name}.client.api_client").ApiClient  # type: ignore[attr-defined]  # a module shell
    return import_module(f"{name}.client.configuration").Configuration, import_module(f"{name}.config.kube_config")


async def endpoint_of(
    kubeconfig: str | Path | Manifest, context: str | None
) -> tuple[Any, ssl.SSLContext | None, Route]:
    """The configuration, the trust and the way of a kubeconfig's context, given as a path or as decoded content.

    Raises FileNotFoundError for a missing file, ValueError for a proxy-url that leads nowhere.
    """
    plain = plain_endpoint(kubeconfig, context)
    if plain is not None:
        _check(plain.route)
        return plain, plain.ssl_context(), plain.route
    configuration_type, loader = client_core()
    configuration = configuration_type()
    async with _loading():
        if isinstance(kubeconfig, dict):
            await loader.load_kube_config_from_dict(kubeconfig, context=context, client_configuration=configuration)
        else:
            path = _existing(kubeconfig)
            await loader.load_kube_config(config_file=path, context=context, client_configuration=configuration)
        route = Route(str(configuration.proxy or ""), name=str(configuration.tls_server_name or ""))
        _check(route)
        try:
            ssl_context = _ssl_of(configuration, route)
        finally:
            # The loader writes inline certificates and keys to files, which the context has read by now.
            loader._cleanup_temp_files()
    return configuration, ssl_context, route


def _check(route: Route) -> None:
    if route.proxy and (problem := proxy_problem(route.proxy)):
        raise ValueError(f"its proxy-url {problem}")


_locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


def _loading() -> asyncio.Lock:
    """Kubeconfigs are loaded one at a time: the files of one must not go while another is read."""
    return _locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())


def _existing(kubeconfig: str | Path) -> str:
    path = Path(kubeconfig).expanduser()
    if not path.is_file():
        raise FileNotFoundError(f"kubeconfig {path} does not exist")
    return str(path)


def _ssl_of(configuration: Any, route: Route) -> ssl.SSLContext | None:
    if not configuration.host.startswith("https"):
        return None
    context = trust(route, ca_file=configuration.ssl_ca_cert or None)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    return context
