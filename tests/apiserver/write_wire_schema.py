"""Write `wire_schema.txt`: names, numbers and types of the fields of the Kubernetes API.

`python -m tests.apiserver.write_wire_schema API_DIR MACHINERY_DIR > FILE`, where the two folders
hold the Go modules k8s.io/api and k8s.io/apimachinery of the version that is to be spoken.  Only
interface facts are taken: the number, name and type of each field.  Needed once per version.

Each line is a message and its fields: `core.Volume !name=1s ^volumeSource=2:core.VolumeSource`.
The type is s (text), i and j (whole number of 64 and 32 bits), b (yes or no), d (number), y
(bytes) or :message; before the name stands ^ when the fields are inlined, `*` for a list, % for a
map, ? for a pointer; ! before all of it when JSON has the field even if it is empty.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

PACKAGES = {
    "core": "core/v1",
    "apps": "apps/v1",
    "batch": "batch/v1",
    "storage": "storage/v1",
    "policy": "policy/v1",
    "scheduling": "scheduling/v1",
    "schedulingalpha2": "scheduling/v1alpha2",
    "node": "node/v1",
    "coordination": "coordination/v1",
    "events": "events/v1",
    "discovery": "discovery/v1",
    "rbac": "rbac/v1",
    "resource": "resource/v1",
    "resourcebeta1": "resource/v1beta1",
    "resourcebeta2": "resource/v1beta2",
    "authentication": "authentication/v1",
    "authorization": "authorization/v1",
    "autoscaling": "autoscaling/v1",
    "autoscaling2": "autoscaling/v2",
    "networking": "networking/v1",
}
META = "pkg/apis/meta/v1"
ROOTS = [
    "core.Pod",
    "core.Node",
    "core.Namespace",
    "core.Service",
    "core.ReplicationController",
    "core.PersistentVolume",
    "core.PersistentVolumeClaim",
    "core.ConfigMap",
    "core.Secret",
    "core.ServiceAccount",
    "core.Endpoints",
    "core.Event",
    "core.Binding",
    "apps.ReplicaSet",
    "apps.StatefulSet",
    "apps.Deployment",
    "apps.DaemonSet",
    "apps.ControllerRevision",
    "batch.Job",
    "batch.CronJob",
    "networking.Ingress",
    "networking.IngressClass",
    "networking.NetworkPolicy",
    "core.ResourceQuota",
    "autoscaling2.HorizontalPodAutoscaler",
    "authentication.TokenRequest",
    "storage.StorageClass",
    "storage.CSINode",
    "storage.CSIDriver",
    "storage.CSIStorageCapacity",
    "storage.VolumeAttachment",
    "policy.PodDisruptionBudget",
    "policy.Eviction",
    "scheduling.PriorityClass",
    "schedulingalpha2.PodGroup",
    "schedulingalpha2.Workload",
    "node.RuntimeClass",
    "coordination.Lease",
    "events.Event",
    "discovery.EndpointSlice",
    "rbac.Role",
    "rbac.ClusterRole",
    "rbac.RoleBinding",
    "rbac.ClusterRoleBinding",
    "resource.ResourceClaim",
    "resource.ResourceClaimTemplate",
    "resource.ResourceSlice",
    "resource.DeviceClass",
    *(
        f"resourcebeta{version}.{kind}"
        for version in (1, 2)
        for kind in ("ResourceClaim", "ResourceClaimTemplate", "ResourceSlice", "DeviceClass")
    ),
    "authentication.TokenReview",
    "authentication.SelfSubjectReview",
    "authorization.SubjectAccessReview",
    "authorization.LocalSubjectAccessReview",
    "authorization.SelfSubjectAccessReview",
    "authorization.SelfSubjectRulesReview",
    "autoscaling.Scale",
    "meta.DeleteOptions",
]
SCALARS = {"string": "s", "bool": "b", "bytes": "y"}
SCALARS |= dict.fromkeys(("int64", "uint32", "uint64"), "i")
SCALARS["int32"] = "j"

_MESSAGE = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^\s*(optional|repeated|map<string, ?([\w.]+)>) ?([\w.]*) (\w+) = (\d+);")
_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_GO_FIELD = re.compile(r'^\t(?:\w+\s+)?(\*?)[\w.\[\]\*]+\s+`json:"([^"]*)".*? protobuf:"([^"]*)"')


def main(api: Path, machinery: Path) -> None:
    messages: dict[str, list[str]] = {}
    uses: dict[str, list[str]] = {}
    folders = {name: api / folder for name, folder in PACKAGES.items()}
    for package, folder in {**folders, "meta": machinery / META}.items():
        go = _go_fields(folder)
        for name, body in _MESSAGE.findall((folder / "generated.proto").read_text()):
            key = f"{package}.{name}"
            messages[key], uses[key] = _fields(package, body, go.get(name, {}))
    for older in ("resourcebeta1", "resourcebeta2"):
        _leave_out_same(messages, uses, older, "resource")
    wanted, seen = list(ROOTS), set()
    while wanted:
        key = wanted.pop()
        if key not in seen and key in messages:
            seen.add(key)
            wanted += uses[key]
    for key in sorted(seen):
        print(key, *messages[key])


def _leave_out_same(
    messages: dict[str, list[str]], uses: dict[str, list[str]], older: str, newest: str
) -> None:
    """Of an older version, keep the messages that differ, or that hold one that does."""

    def as_newest(fields: list[str]) -> list[str]:
        return [it.replace(f":{older}.", f":{newest}.") for it in fields]

    names = {key.partition(".")[2] for key in messages if key.startswith(f"{older}.")}
    differing = {
        name
        for name in names
        if as_newest(messages[f"{older}.{name}"]) != messages.get(f"{newest}.{name}")
    }
    while more := {
        name
        for name in names - differing
        if {it.partition(".")[2] for it in uses[f"{older}.{name}"]} & differing
    }:
        differing |= more
    for name in names:
        key = f"{older}.{name}"
        if name not in differing:
            del messages[key], uses[key]
            continue
        same = {f"{older}.{it}": f"{newest}.{it}" for it in names - differing}
        uses[key] = [same.get(it, it) for it in uses[key]]
        messages[key] = [_renamed(it, same) for it in messages[key]]


def _renamed(field: str, names: dict[str, str]) -> str:
    head, colon, type_ = field.partition(":")
    return f"{head}{colon}{names.get(type_, type_)}"


def _go_fields(folder: Path) -> dict[str, dict[int, tuple[bool, str]]]:
    """struct -> field number -> (is a pointer, JSON name and options; "" when inlined)"""
    found: dict[str, dict[int, tuple[bool, str]]] = {}
    for path in sorted(folder.glob("*types.go")):
        for name, body in _STRUCT.findall(path.read_text()):
            for line in body.splitlines():
                match = _GO_FIELD.match(line)
                if match:
                    pointer, tag, wire = match.groups()
                    number = int(wire.split(",")[1])
                    entry = (bool(pointer), tag)
                    found.setdefault(name, {})[number] = entry
    return found


def _fields(
    package: str, body: str, go: dict[int, tuple[bool, str]]
) -> tuple[list[str], list[str]]:
    fields, uses = [], []
    for line in body.splitlines():
        match = _FIELD.match(line)
        if not match:
            continue
        label, map_value, plain, name, number = match.groups()
        type_ = map_value or plain
        pointer, tag = go.get(int(number), (False, name))
        json_name, *options = tag.split(",")
        code = SCALARS.get(type_)
        if code is None:
            message = _message_name(package, type_)
            uses.append(message)
            code = f":{message}"
        flag = "*" if label == "repeated" else "%" if label.startswith("map") else ""
        if not flag and pointer:
            flag = "?"
        if not json_name:
            flag, json_name = "^", name
        # Go knows no empty struct: it is left out only where `omitzero` says so.
        is_struct = not flag and len(code) > 1 and "omitzero" not in options
        if flag != "^" and (is_struct or not {"omitempty", "omitzero"} & {*options}):
            flag = f"!{flag}"
        fields.append(f"{flag}{json_name}={number}{code}")
    return fields, uses


def _message_name(package: str, type_: str) -> str:
    if not type_.startswith("."):
        return f"{package}.{type_}"
    *path, name = type_.strip(".").split(".")
    if path[:2] == ["k8s", "io"] and path[2] == "api":
        return f"{path[3]}.{name}"
    return {"resource": "quantity", "intstr": "intstr", "runtime": "runtime"}.get(
        path[-1], "meta"
    ) + f".{name}"


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
