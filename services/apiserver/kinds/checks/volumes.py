"""Checks of volumes of a pod and of the sources shared with persistent volumes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from schemas.manifest import Manifest
from services._rules.kubernetes import quantity
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import (
    Errors,
    ErrorType,
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from services._rules.kubernetes.validation.field_rules import (
    Check,
    ListCheck,
    Rules,
    apply,
    choice,
    each,
    inside,
    needed,
    number,
    one_of,
    only_if,
    text,
    valid,
)
from services.apiserver.kinds.checks.claim_specs import claim_template
from services.apiserver.kinds.checks.container_variables import FILE_PATHS, field_reference, resource_reference
from services.apiserver.kinds.checks.mounts import descending, no_dots

_HOST_PATH_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
SEVERAL = "may not specify more than 1 volume type"
"""What is said of a source beside another one."""
_MISSING = "must specify a volume type"


def _mode(name: str) -> Check:
    return number(name, 0, 0o777, "must be a number between 0 and 0777 (octal), both inclusive")


def _relative(path: str, field: str) -> Errors:
    yield from descending(path, field)
    if path.startswith("..") and not path.startswith("../"):
        yield invalid(field, path, "must not start with '..'")


_PATH = (needed("path"), inside("path", _relative))
_FIELD = inside("fieldRef", field_reference(FILE_PATHS))


def _content(item: Manifest, field: str) -> Errors:
    if "fieldRef" in item:
        yield from _FIELD(item, field)
        if "resourceFieldRef" in item:
            yield invalid(field, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
    elif "resourceFieldRef" in item:
        yield from resource_reference(item["resourceFieldRef"], f"{field}.resourceFieldRef", of_file=True)
    else:
        yield required(field, "one of fieldRef and resourceFieldRef is required")


_FILE = (*_PATH, _content, _mode("mode"))


def _files(value: Manifest, field: str) -> list[FieldError]:
    # The errors name the volume, not the file.
    return [error for item in value.get("items") or () for error in apply(_FILE, item, field)]


_KEYS = each("items", needed("key"), *_PATH, _mode("mode"))


def _token(value: Manifest, field: str) -> Errors:
    seconds, path = value.get("expirationSeconds", 0), value.get("path", "")
    if seconds < 600:
        yield invalid(f"{field}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
    if seconds > 1 << 32:
        yield invalid(f"{field}.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")
    volume = f"{field.rpartition('.sources[')[0]}.path"
    if not path:
        yield required(volume)
    yield from _relative(path, volume)


_PARTS: dict[str, Rules] = {
    "secret": (needed("name"), _KEYS),
    "configMap": (needed("name"), _KEYS),
    "downwardAPI": (_files,),
    "serviceAccountToken": (_token,),
}


def _projected(value: Manifest, field: str) -> Errors:
    paths: set[str] = set()
    for index, part in enumerate(value.get("sources") or ()):
        place = f"{field}.sources[{index}]"
        given = [name for name in _PARTS if name in part]
        for name in given:
            yield from apply(_PARTS[name], part[name], f"{place}.{name}")
            for item in part[name].get("items") or ():
                if (path := item.get("path", "")) and path in paths:
                    shown = path if name == "downwardAPI" else part[name].get("name", "")
                    yield invalid(field, shown, "conflicting duplicate paths")
                paths.add(path)
        if len(given) > 1:
            yield forbidden(place, SEVERAL)


_INITIATORS = {
    "iqn": re.compile(r"iqn\.\d{4}-\d{2}\.([A-Za-z0-9-.]+)(:[^,;*&$|\s]+)$"),
    "eui": re.compile("^eui.[A-Za-z0-9]{16}$"),
    "naa": re.compile("^naa.[A-Za-z0-9]{32}$"),
}


def _initiator(value: str) -> list[str]:
    pattern = _INITIATORS.get(value[:3])
    if pattern is None:
        return ["must be valid format starting with iqn, eui, or naa"]
    return [] if pattern.search(value) else ["must be valid format"]


def _initiator_name(value: Manifest, field: str) -> list[FieldError]:
    if (name := value.get("initiatorName")) is None:
        return []
    return [invalid(f"{field}.initiatorname", name, message) for message in _initiator(name)]


_LUN = number("lun", 0, 255)
_SECRET_NAMED = inside("secretRef", needed("name"))
_PARTITION = number("partition", 0, 255, "must be between 1 and 255, inclusive")


def _channel(value: Manifest, field: str) -> Errors:
    targets, ids, lun = value.get("targetWWNs"), value.get("wwids"), value.get("lun")
    place = f"{field}.targetWWNs"
    if not targets and not ids:
        yield required(place, "must specify either targetWWNs or wwids, but not both")
    if targets and ids:
        yield invalid(place, targets, "targetWWNs and wwids can not be specified simultaneously")
    if targets and lun is None:
        yield required(f"{field}.lun", "lun is required if targetWWNs is specified")
    elif targets:
        yield from _LUN(value, field)


def _dataset(value: Manifest, field: str) -> Errors:
    name, uid = value.get("datasetName", ""), value.get("datasetUUID", "")
    if not name and not uid:
        yield required(field, "one of datasetName and datasetUUID is required")
    if name and uid:
        yield invalid(field, "resource", "datasetName and datasetUUID can not be specified simultaneously")
    if "/" in name:
        yield invalid(f"{field}.datasetName", name, "must not contain '/'")


def _registry(value: Manifest, field: str) -> Errors:
    registry, text = value.get("registry", ""), "must be a host:port pair or multiple pairs separated by commas"
    if not registry:
        yield required(f"{field}.registry", text)
    elif len(value.get("tenant", "")) >= 65:
        yield required(f"{field}.tenant", "must be a UUID and may not exceed a length of 64 characters")
    else:
        pairs = [pair for pair in registry.split(",") if pair.count(":") != 1]
        yield from [invalid(f"{field}.registry", registry, text) for _ in pairs]


def _options(value: Manifest, field: str) -> Errors:
    for key in value.get("options") or ():
        if f".{key.partition('/')[0].lower()}".endswith((".kubernetes.io", ".k8s.io")):
            text = "kubernetes.io and k8s.io namespaces are reserved"
            yield invalid(f"{field}.options[{key}]", key, text)


_DISK_URIS = {
    True: "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}",
    False: "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd",
}


def _disk(value: Manifest, field: str) -> Errors:
    if (kind := value.get("kind")) is None:
        return
    uri, managed = value.get("diskURI", ""), kind == "Managed"
    if not uri.startswith("/subscriptions/" if managed else "https://"):
        yield not_supported(f"{field}.diskURI", uri, (_DISK_URIS[managed],))


def driver(value: str, field: str) -> Errors:
    """Yield what is wrong with the name of a CSI driver."""
    if not value:
        yield required(field)
        return
    if len(value) > 63:
        yield too_long(field, value, 63)
    yield from [invalid(field, value, text) for text in names.subdomain(value.lower())]


_ABSOLUTE = valid(lambda path: path[:1] == "/", "must be an absolute path")
_SIZE = inside(
    "sizeLimit",
    lambda value, field: (
        []
        if quantity.parse(value).nano >= 0
        else [forbidden(field, "SizeLimit field must be a valid resource quantity")]
    ),
)
_HAS_PATH: Callable[[Manifest], object] = lambda value: value.get("path")  # noqa: E731
SOURCES: dict[str, Rules] = {
    "emptyDir": (_SIZE,),
    "hostPath": (
        needed("path"),
        only_if(_HAS_PATH, inside("path", no_dots), choice("type", _HOST_PATH_TYPES)),
    ),
    "gitRepo": (needed("repository"), inside("directory", descending)),
    "gcePersistentDisk": (needed("pdName"), _PARTITION),
    "awsElasticBlockStore": (needed("volumeID"), _PARTITION),
    "secret": (needed("secretName"), _mode("defaultMode"), _KEYS),
    "nfs": (needed("server", "path"), inside("path", _ABSOLUTE, absent="")),
    "iscsi": (
        needed("targetPortal"),
        text("iqn", _initiator, need=""),
        _LUN,
        needed("secretRef", when=lambda value: value.get("chapAuthDiscovery") or value.get("chapAuthSession")),
        _initiator_name,
    ),
    "glusterfs": (needed("endpoints", "path"),),
    "flocker": (_dataset,),
    "persistentVolumeClaim": (needed("claimName"),),
    "rbd": (needed("monitors", "image"),),
    "cinder": (needed("volumeID"), _SECRET_NAMED),
    "cephfs": (needed("monitors"),),
    "quobyte": (_registry, needed("volume")),
    "downwardAPI": (_mode("defaultMode"), _files),
    "fc": (_channel,),
    "flexVolume": (needed("driver"), _options),
    "configMap": (needed("name"), _mode("defaultMode"), _KEYS),
    "azureFile": (needed("secretName", "shareName"),),
    "vsphereVolume": (needed("volumePath"),),
    "photonPersistentDisk": (needed("pdID"),),
    "portworxVolume": (needed("volumeID"),),
    "azureDisk": (
        needed("diskName", "diskURI"),
        choice("cachingMode", ("None", "ReadOnly", "ReadWrite")),
        choice("kind", ("Dedicated", "Managed", "Shared")),
        _disk,
    ),
    "storageos": (text("volumeName", names.label, need=""), text("volumeNamespace", names.label), _SECRET_NAMED),
    "projected": (_mode("defaultMode"), _projected),
    "scaleIO": (needed("gateway", "system", "volumeName"),),
    "csi": (inside("driver", driver, absent=""), inside("nodePublishSecretRef", needed("name"))),
    "local": (needed("path"), only_if(_HAS_PATH, inside("path", no_dots))),
    "ephemeral": (needed("volumeClaimTemplate"), inside("volumeClaimTemplate", claim_template)),
    "image": (choice("pullPolicy", ("Always", "IfNotPresent", "Never")),),
}
_NAME = text("name", names.label, need="")
_PORTAL = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters"


def one_source(sources: Mapping[str, Rules]) -> ListCheck:
    """Rules of a volume: it has one of these sources."""
    rules = one_of(sources, _MISSING, SEVERAL)

    def check(volume: Manifest, field: str) -> list[FieldError]:
        found = rules(volume, field)
        found = [_misspelt(error, field) for error in found]
        if "gcePersistentDisk" in volume:
            found = [_renamed(error, f"{field}.gcePersistentDisk", f"{field}.persistentDisk") for error in found]
        return found

    return check


_SOURCE = one_source(SOURCES)


def _volume(volume: Manifest, field: str) -> list[FieldError]:
    found = _SOURCE(volume, field)
    if (disk := volume.get("iscsi")) and "initiatorName" in disk:
        name = volume.get("name", "")
        if len(f"{name}:{disk.get('targetPortal', '')}") > 64:
            found.append(invalid(f"{field}.name", name, f"{_PORTAL} if iscsi.initiatorName is specified."))
    return found + _NAME(volume, field)


def _misspelt(error: FieldError, field: str) -> FieldError:
    """An error as answers have it, one of whose names has been misspelt ever since."""
    if error.type is not ErrorType.FORBIDDEN or error.field != f"{field}.downwardAPI":
        return error
    return forbidden(f"{field}.downwarAPI", error.detail)


def _renamed(error: FieldError, prefix: str, shown: str) -> FieldError:
    if not error.field.startswith(f"{prefix}."):
        return error
    return FieldError(error.type, shown + error.field.removeprefix(prefix), error.detail, error.bad_value)


def volumes(spec: Manifest, field: str) -> tuple[dict[str, Manifest], list[FieldError]]:
    """Return the volumes of a pod spec that can be mounted, and what is wrong with the others."""
    good: dict[str, Manifest] = {}
    found: list[FieldError] = []
    for index, volume in enumerate(spec.get("volumes") or ()):
        place, name = f"{field}.volumes[{index}]", volume.get("name", "")
        errors = _volume(volume, place)
        if name in good:
            errors.append(duplicate(f"{place}.name", name))
        if errors:
            found += errors
        else:
            good[name] = volume
    return good, found


def tokens_without_account(spec: Manifest, field: str) -> Errors:
    """Yield an error for each token of a service account that a pod wants without naming the account."""
    if spec.get("serviceAccountName"):
        return
    for index, volume in enumerate(spec.get("volumes") or ()):
        for position, part in enumerate((volume.get("projected") or {}).get("sources") or ()):
            if "serviceAccountToken" in part:
                place = f"{field}.volumes[{index}].projected.sources[{position}].serviceAccountToken"
                yield forbidden(place, "must not be specified when serviceAccountName is not set")


def writable_disks(spec: Manifest, field: str) -> Errors:
    """Yield an error for each disk of Google's that several pods would have to write to."""
    for index, volume in enumerate(spec.get("volumes") or ()):
        disk = volume.get("gcePersistentDisk")
        if disk is not None and not disk.get("readOnly"):
            text = (
                "must be true for replicated pods > 1; "
                "GCE PD can only be mounted on multiple machines if it is read-only"
            )
            yield invalid(f"{field}.volumes[{index}].gcePersistentDisk.readOnly", False, text)
