"""VolumeBinding, VolumeZone, VolumeRestrictions, NodeVolumeLimits: claims, volumes and classes.

A claim that is misspelt, missing or unbound, a class or a volume that does not exist, a volume
whose zone has no node, a request larger than what is there.  What keeps a claim from volumes that
nobody has is in `free_volumes`; pods that are in the way are the business of `room`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from stowplan.answers.changes import Candidate, Data, ObjectEdit, Sort
from stowplan.answers.generators.claim_edits import (
    BIND_COMPLETED,
    bound,
    claim_edits,
    set_class,
    set_size,
)
from stowplan.answers.generators.free_volumes import (
    WAITS,
    claimed_size,
    free_volumes,
    waits,
)
from stowplan.answers.generators.volume_places import are_apart, reachable, volume_names
from stowplan.answers.situation import Situation
from stowplan.answers.words import likeness, nearest, quantity
from stowplan.objects.quantity import ceil_value, parse_quantity

NO_PROVISIONER = "kubernetes.io/no-provisioner"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
NEW_SIZE = "1Gi"


def volumes(s: Situation, rows: list[int]) -> Iterator[Candidate]:
    claims = {claim.name: claim for claim in s.objects("PersistentVolumeClaim")
              if claim.namespace == s.pod.namespace}  # fmt: skip
    for place, volume in enumerate(s.manifest["spec"].get("volumes") or ()):
        source = volume.get("persistentVolumeClaim")
        if "ephemeral" in volume:
            yield from _template_class(s, place, volume, claims)
            continue
        if source is None:
            yield from _read_only(place, volume)
            continue
        name = source.get("claimName", "")
        claim = claims.get(name)
        if claim is None:
            yield from _missing_claim(s, place, name, list(claims))
        elif not claim.spec.volume_name:
            yield from _unbound(s, claim, rows)
        else:
            yield from _bound(s, claim, rows)


def _read_only(place: int, volume: Data) -> Iterator[Candidate]:
    for source in ("gcePersistentDisk", "rbd", "iscsi"):
        if source in volume and not volume[source].get("readOnly"):

            def edit(pod: Data, source: str = source) -> None:
                pod["spec"]["volumes"][place][source]["readOnly"] = True

            title = f"mount the volume {volume.get('name', '')} read-only"
            yield Candidate(title, Sort.RELAX, pod=(edit,))


def _template_class(
    s: Situation, place: int, volume: Data, claims: dict[str, Any]
) -> Iterator[Candidate]:
    """A claim that is made with the pod: its class is the pod's business."""
    name = f"{s.pod.name}-{volume.get('name', '')}"
    template = (volume["ephemeral"] or {}).get("volumeClaimTemplate") or {}
    wanted = (template.get("spec") or {}).get("storageClassName") or ""
    useful = _useful_classes(s)
    right = nearest(wanted, useful)
    if name not in claims or wanted in useful:
        return
    for other in [right] if right is not None else useful[:2]:

        def edit(pod: Data, other: str = other) -> None:
            made = pod["spec"]["volumes"][place]["ephemeral"]["volumeClaimTemplate"]
            made["spec"]["storageClassName"] = other

        sort = Sort.CORRECT if right is not None else Sort.OTHER
        title = f"change the class of the volume {volume.get('name', '')} from {wanted} to {other}"
        made = ObjectEdit("PersistentVolumeClaim", claims[name].key, partial(set_class, other))
        amount = 1 - likeness(wanted, other)
        yield Candidate(title, sort, amount, pod=(edit,), objects=(made,))


# -- claims ---------------------------------------------------------------------------------


def _missing_claim(s: Situation, place: int, name: str, known: list[str]) -> Iterator[Candidate]:
    right = nearest(name, known)
    if right is not None:

        def edit(pod: Data) -> None:
            pod["spec"]["volumes"][place]["persistentVolumeClaim"]["claimName"] = right

        title = f"correct the claim's name: {right} instead of {name}"
        yield Candidate(title, Sort.CORRECT, 1 - likeness(name, right), pod=(edit,))
    useful = _useful_classes(s)
    for class_name in useful[:3]:
        body = _claim(s, name, class_name)
        title = f"create the claim {name} of class {class_name!r}"
        yield Candidate(title, Sort.PROVIDE, create=(body,))
    if not useful:
        volume = f"{name}-volume"
        body = _claim(s, name, "", volumeName=volume)
        body["metadata"]["annotations"] = {BIND_COMPLETED: "yes"}
        title = f"create the claim {name} and the volume {volume} for it"
        yield Candidate(title, Sort.PROVIDE, 1, create=(body, _volume(volume, body["spec"])))


def _claim(s: Situation, name: str, class_name: str, **spec: str) -> Data:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": s.pod.namespace},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": NEW_SIZE}},
            "storageClassName": class_name,
            **spec,
        },
    }


def _volume(name: str, spec: Data) -> Data:
    """One that is right for such a claim."""
    mode = {"volumeMode": spec["volumeMode"]} if spec.get("volumeMode") else {}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "accessModes": spec.get("accessModes") or ["ReadWriteOnce"],
            "storageClassName": spec.get("storageClassName") or "",
            "hostPath": {"path": f"/mnt/{name}"},
            **mode,
        },
        "status": {"phase": "Available"},
    }


def _useful_classes(s: Situation) -> list[str]:
    """The default first, then those that make volumes, then those that have some.

    Only those that wait for a consumer: whether another makes a volume is not for the scheduler.
    """
    classes = [each for each in s.objects("StorageClass") if each.volume_binding_mode == WAITS]

    def order(each: Any) -> tuple[bool, bool, str]:
        is_default = (each.metadata.annotations or {}).get(DEFAULT_CLASS) == "true"
        return not is_default, each.provisioner == NO_PROVISIONER, each.name

    return [each.name for each in sorted(classes, key=order)]


def _unbound(s: Situation, claim: Any, rows: list[int]) -> Iterator[Candidate]:
    classes = {each.name: each for each in s.objects("StorageClass")}
    wanted = claim.spec.storage_class_name or ""
    if wanted and wanted not in classes:
        useful = _useful_classes(s)
        right = nearest(wanted, useful)
        others = [right] if right else useful[:2]
        for name in others:
            sort = Sort.CORRECT if name == right else Sort.OTHER
            title = f"change the class of claim {claim.name} from {wanted!r} to {name!r}"
            edits = claim_edits(s, claim, partial(set_class, name))
            yield Candidate(title, sort, 1 - likeness(wanted, name), objects=edits)
        if right is None:
            yield from _new_class(s, wanted)
    yield from free_volumes(s, claim, rows)
    made = classes.get(wanted)
    if made is not None:
        yield from _topologies(s, made)
    yield from _capacities(s, claim)
    for name in _useful_classes(s)[:3] if not wanted else ():
        title = f"give the claim {claim.name} the class {name!r}"
        edits = claim_edits(s, claim, partial(set_class, name))
        yield Candidate(title, Sort.OTHER, 1, objects=edits)
    yield _new_volume(s, claim, f"{claim.name}-volume")


def _new_class(s: Situation, name: str) -> Iterator[Candidate]:
    """The class that is asked for, of whoever makes volumes here."""
    drivers = {driver.name for each in s.objects("CSINode") for driver in each.spec.drivers or ()}
    drivers |= {each.provisioner for each in s.objects("StorageClass")} - {NO_PROVISIONER}
    for driver in sorted(drivers)[:1]:
        made = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name},
            "provisioner": driver,
            "volumeBindingMode": WAITS,
        }
        title = f"create the class {name}, whose volumes {driver} makes"
        yield Candidate(title, Sort.PROVIDE, create=(made,))


def _new_volume(s: Situation, claim: Any, name: str) -> Candidate:
    """Bound to the claim, unless the scheduler will bind it."""
    body = _volume(name, s.cluster.get("PersistentVolumeClaim", claim.key)["spec"])
    title = f"create the volume {name} for the claim {claim.name}"
    # Where somebody makes volumes, one made by hand is hardly what anybody means.
    is_made = any(
        each.name == claim.spec.storage_class_name and each.provisioner != NO_PROVISIONER
        for each in s.objects("StorageClass")
    )
    if claim.spec.volume_name or waits(s, claim.spec.storage_class_name):
        return Candidate(title, Sort.PROVIDE, 1, create=(body,), last_resort=is_made)
    taken = bound(claim, name)
    return Candidate(title, Sort.PROVIDE, 1, create=(body,), objects=(taken,), last_resort=is_made)


def _topologies(s: Situation, made: Any) -> Iterator[Candidate]:
    """Zones that the class allows, and no node is in."""
    for number, term in enumerate(made.allowed_topologies or ()):
        for place, each in enumerate(term.match_label_expressions or ()):
            values = {labels[each.key] for labels in map(s.labels, range(len(s.names)))
                      if each.key in labels}  # fmt: skip
            if not values:
                yield from _topology_key(s, made, (number, place), each.key)
            for at, value in enumerate(each.values or ()):
                right = nearest(value, values, 0.0) if value not in values else None
                if right is not None:
                    change = partial(_set_topology, number, place, at, right)
                    edit = ObjectEdit("StorageClass", made.name, change)
                    alike = likeness(value, right)
                    sort = Sort.CORRECT if alike >= 0.6 else Sort.OTHER
                    title = f"let the class {made.name} allow {each.key}={right} instead of {value}"
                    yield Candidate(title, sort, 1 - alike, objects=(edit,))


def _topology_key(s: Situation, made: Any, at: tuple[int, int], key: str) -> Iterator[Candidate]:
    right = nearest(key, {label for row in range(len(s.names)) for label in s.labels(row)})
    if right is not None:
        edit = ObjectEdit("StorageClass", made.name, partial(_set_topology_key, *at, right))
        title = f"correct the topology key of the class {made.name}: {right} instead of {key}"
        yield Candidate(title, Sort.CORRECT, 1 - likeness(key, right), objects=(edit,))


def _set_topology_key(number: int, place: int, key: str, made: Data) -> None:
    made["allowedTopologies"][number]["matchLabelExpressions"][place]["key"] = key


def _set_topology(number: int, place: int, at: int, value: str, made: Data) -> None:
    made["allowedTopologies"][number]["matchLabelExpressions"][place]["values"][at] = value


def _capacities(s: Situation, claim: Any) -> Iterator[Candidate]:
    """The largest that a driver has room for."""
    size = claimed_size(claim)
    rooms = {
        ceil_value(parse_quantity(each.maximum_volume_size or each.capacity))
        for each in s.objects("CSIStorageCapacity")
        if each.storage_class_name == claim.spec.storage_class_name
        and (each.maximum_volume_size or each.capacity)
    }
    for room in sorted((room for room in rooms if 0 < room < size), reverse=True)[:2]:
        text = quantity("storage", room)
        title = f"let the claim {claim.name} ask for {text}, which is what there is room for"
        edits = claim_edits(s, claim, partial(set_size, text))
        yield Candidate(title, Sort.LESS, 1 - room / size, objects=edits)


# -- bound claims ---------------------------------------------------------------------------


def _bound(s: Situation, claim: Any, rows: list[int]) -> Iterator[Candidate]:
    known = {volume.name: volume for volume in s.objects("PersistentVolume")}
    name = claim.spec.volume_name
    volume = known.get(name)
    if volume is not None:
        own = [known[each] for each in volume_names(s) if each in known]
        yield from reachable(s, volume, rows, apart=are_apart(s, own))
        return
    free = [n for n, each in known.items()
            if each.spec.claim_ref is None or each.spec.claim_ref.name == claim.name]  # fmt: skip
    right = nearest(name, free)
    if right is not None:
        title = f"correct the volume's name in the claim {claim.name}: {right} instead of {name}"
        edit = ObjectEdit("PersistentVolumeClaim", claim.key, partial(_set_volume, right))
        yield Candidate(title, Sort.CORRECT, 1 - likeness(name, right), objects=(edit,))
    yield _new_volume(s, claim, name)


def _set_volume(name: str, claim: Data) -> None:
    claim["spec"]["volumeName"] = name
