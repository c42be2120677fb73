"""Makes what the tests of containers need where no registry answers: `python -m tests.containers.prepare [--stock]`.

Debian's packages and the wheels of this environment give images of the same names that the Dockerfile and the
compositions use, the image of the services, and the plugins of the engine's client. Nothing that is there is made
again. Needs root, for debootstrap, and apt-get. With `--stock` kube-apiserver is made as well, from sources.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from k8s.images import ETCD_IMAGE, KUBE_APISERVER_IMAGE, NATS_IMAGE, PROMETHEUS_IMAGE
from tests.containers import engine, kube_apiserver
from tests.containers.debian import KEYS, MIRROR, SUITE, Debian
from tests.natsserver import engine_answers, find_binary

_MORE: Final = (PROMETHEUS_IMAGE, engine.NATS_POD_IMAGE, ETCD_IMAGE)
"""Images without which only some tests are skipped."""
_AUTHORITIES: Final = Path("/etc/ssl/certs/ca-certificates.crt")


def main(stock: bool) -> int:
    """Make everything that is missing, kube-apiserver only for `stock`; the exit code."""
    if not engine_answers():
        print("no container engine answers here: its tests are skipped")
        return 0
    with tempfile.TemporaryDirectory(prefix="fleetlog-containers-") as directory:
        place = Path(directory)
        wanted = (*_MORE, KUBE_APISERVER_IMAGE) if stock else _MORE
        if (engine.why_not() or not all(map(engine.has_image, wanted))) and not _prepared(place, wanted):
            return 1
    if not engine.why_not():
        # Tests build it again, from what the engine keeps of this.
        engine.build()
    print(engine.why_not() or "containers can be tested here")
    return 0


def _prepared(place: Path, wanted: Sequence[str]) -> bool:
    if os.geteuid() or not shutil.which("apt-get") or not Path(KEYS).exists():
        print("this needs root, apt-get and Debian's archive keys; pull the images instead", file=sys.stderr)
        return False
    debian = Debian(place)
    if "docker compose" in engine.why_not():
        _plugins(debian)
        engine.why_not.cache_clear()
    if not engine.has_image(engine.PYTHON_IMAGE):
        _python(debian, place)
    if not engine.has_image(NATS_IMAGE):
        _nats(place)
    if not engine.has_image(engine.NATS_POD_IMAGE):
        _nats_in_pods(debian, place)
    if not engine.has_image(PROMETHEUS_IMAGE):
        _prometheus(place)
    if not engine.has_image(ETCD_IMAGE):
        _etcd(debian, place)
    if KUBE_APISERVER_IMAGE in wanted and not engine.has_image(KUBE_APISERVER_IMAGE):
        _kube_apiserver(place)
    engine.why_not.cache_clear()
    return True


def _plugins(debian: Debian) -> None:
    print("plugins of the engine's client …", flush=True)
    wanted = engine.KEPT / "cli-plugins"
    wanted.mkdir(parents=True, exist_ok=True)
    for name in ("docker-compose", "docker-buildx"):
        shutil.copy(debian.unpacked(name) / "usr/libexec/docker/cli-plugins" / name, wanted)


def _python(debian: Debian, place: Path) -> None:
    """A small Debian with its Python and pip, as the official image has them."""
    print(f"{engine.PYTHON_IMAGE} from Debian's packages, a minute …", flush=True)
    tool, root = debian.unpacked("debootstrap"), place / "root"
    subprocess.run(
        [
            *("sh", str(tool / "usr/sbin/debootstrap"), "--variant=minbase", f"--keyring={KEYS}"),
            *("--include=python3,python3-pip,ca-certificates", SUITE, str(root), MIRROR),
        ],
        env={**os.environ, "DEBOOTSTRAP_DIR": str(tool / "usr/share/debootstrap")},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    for file in (*root.glob("usr/lib/python3*/EXTERNALLY-MANAGED"), *root.glob("var/cache/apt/archives/*.deb")):
        file.unlink()
    (root / "usr/local/bin/python").symlink_to("/usr/bin/python3")
    # What this machine trusts, so that packages are fetched by the same way as outside of a container.
    shutil.copy(_AUTHORITIES, root / "etc/ssl/certs/ca-certificates.crt")
    settings = f"ENV PIP_CERT={_AUTHORITIES} UV_SYSTEM_CERTS=1 UV_NATIVE_TLS=1"
    with subprocess.Popen(["tar", "-C", str(root), "-c", "."], stdout=subprocess.PIPE) as packed:
        engine.docker("import", "-c", 'CMD ["python3"]', "-c", settings, "-", engine.PYTHON_IMAGE, stdin=packed.stdout)


def _nats(place: Path) -> None:
    """The server alone, as in the official image: no shell beside it."""
    binary = find_binary()
    if binary is None:
        print(f"no nats-server here for {NATS_IMAGE}", file=sys.stderr)
        return
    _image(
        place / "nats",
        NATS_IMAGE,
        {"nats-server": binary},
        "FROM scratch\nCOPY nats-server /nats-server\n"
        'ENTRYPOINT ["/nats-server"]\nCMD ["--config", "nats-server.conf"]\n',
    )


def _nats_in_pods(debian: Debian, place: Path) -> None:
    """The server with the tools that probes and hooks of pods need: those of the official image are busybox's, too."""
    binary = find_binary()
    if binary is None:
        return
    busybox = debian.unpacked("busybox-static") / "usr/bin/busybox"
    _image(
        place / "nats-in-pods",
        engine.NATS_POD_IMAGE,
        {"nats-server": binary, "busybox": str(busybox)},
        f"FROM {engine.PYTHON_IMAGE} AS tools\nCOPY busybox /tools/busybox\n"
        "RUN cd /tools && for name in sh wget sleep; do ln -s /bin/busybox $name; done\n"
        "FROM scratch\nCOPY nats-server /usr/local/bin/nats-server\nCOPY --from=tools /tools/ /bin/\n"
        "ENV PATH=/usr/local/bin:/bin\n"
        'ENTRYPOINT ["nats-server"]\nCMD ["--config", "/etc/nats/nats-server.conf"]\n',
    )


def _prometheus(place: Path) -> None:
    """Debian's Prometheus, which is older than the one that the composition names."""
    binary = shutil.which("prometheus")
    if binary is None:
        print(f"no prometheus here for {PROMETHEUS_IMAGE}; its test is skipped", file=sys.stderr)
        return
    _image(
        place / "prometheus",
        PROMETHEUS_IMAGE,
        {"prometheus": binary},
        f'FROM {engine.PYTHON_IMAGE}\nCOPY prometheus /bin/prometheus\nENTRYPOINT ["/bin/prometheus"]\n'
        'CMD ["--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/prometheus"]\n',
    )


def _etcd(debian: Debian, place: Path) -> None:
    """Debian's etcd, of the minor release that the composition names."""
    binary = debian.unpacked("etcd-server") / "usr/bin/etcd"
    _image(
        place / "etcd",
        ETCD_IMAGE,
        {"etcd": str(binary)},
        f'FROM {engine.PYTHON_IMAGE}\nCOPY etcd /usr/local/bin/etcd\nCMD ["etcd"]\n',
    )


def _kube_apiserver(place: Path) -> None:
    """A server that is older than the one that the composition names; alone, as in the official image."""
    _image(
        place / "kube-apiserver-image",
        KUBE_APISERVER_IMAGE,
        {"kube-apiserver": str(kube_apiserver.built(place))},
        "FROM scratch\nCOPY kube-apiserver /usr/local/bin/kube-apiserver\nENV PATH=/usr/local/bin\n",
    )


def _image(context: Path, name: str, files: dict[str, str], dockerfile: str) -> None:
    context.mkdir()
    for target, source in files.items():
        shutil.copy(Path(source).resolve(), context / target)
        (context / target).chmod(0o755)
    (context / "Dockerfile").write_text(dockerfile)
    engine.build(name, context, context / "Dockerfile")
    print(f"{name}: made from {', '.join(files.values())}")


if __name__ == "__main__":
    sys.exit(main("--stock" in sys.argv[1:]))
