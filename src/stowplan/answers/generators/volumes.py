"""VolumeBinding, VolumeZone, VolumeRestrictions, NodeVolumeLimits: claims, volumes and classes.

A claim that is misspelt, missing or unbound, a class or a volume that does not exist, a volume
whose zone has no node, a request larger than what is there.  Pods that are in the way are the
business of `generators.room`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from stowplan.answers.changes import Candidate, Data, ObjectEdit, Sort
from stowplan.answers.situation import Situation
from stowplan.answers.words import likeness, nearest, quantity
from stowplan.objects.quantity import ceil_value, parse_quantity

NO_PROVISIONER = "kubernetes.io/no-provisioner"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
ZONES = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone",
         "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")  # fmt: skip
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
NEW_SIZE = "1Gi"
WAITS = "WaitForFirstConsumer"


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
            yield from _unbound(s, claim)
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
    if name not in claims or wanted in useful or right is None:
        return

    def edit(pod: Data) -> None:
        made = pod["spec"]["volumes"][place]["ephemeral"]["volumeClaimTemplate"]
        made["spec"]["storageClassName"] = right

    title = f"correct the class of the volume {volume.get('name', '')}: {right} instead of {wanted}"
    made = ObjectEdit("PersistentVolumeClaim", claims[name].key, partial(_set_class, right))
    amount = 1 - likeness(wanted, right)
    yield Candidate(title, Sort.CORRECT, amount, pod=(edit,), objects=(made,))


# -- claims ---------------------------------------------------------------------------------


def _missing_claim(s: Situation, place: int, name: str, known: list[str]) -> Iterator[Candidate]:
    right = nearest(name, known)
    if right is not None:

        def edit(pod: Data) -> None:
            pod["spec"]["volumes"][place]["persistentVolumeClaim"]["claimName"] = right

        title = f"correct the claim's name: {right} instead of {name}"
        yield Candidate(title, Sort.CORRECT, 1 - likeness(name, right), pod=(edit,))
    for class_name in _useful_classes(s)[:3]:
        body: Data = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": s.pod.namespace},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": NEW_SIZE}},
                "storageClassName": class_name,
            },
        }
        title = f"create the claim {name} of class {class_name!r}"
        yield Candidate(title, Sort.PROVIDE, create=(body,))


def _useful_classes(s: Situation) -> list[str]:
    """The default first, then those that make volumes, then those that have some.

    Only those that wait for a consumer: whether another makes a volume is not for the scheduler.
    """
    classes = [each for each in s.objects("StorageClass") if each.volume_binding_mode == WAITS]

    def order(each: Any) -> tuple[bool, bool, str]:
        is_default = (each.metadata.annotations or {}).get(DEFAULT_CLASS) == "true"
        return not is_default, each.provisioner == NO_PROVISIONER, each.name

    return [each.name for each in sorted(classes, key=order)]


def _unbound(s: Situation, claim: Any) -> Iterator[Candidate]:
    classes = {each.name: each for each in s.objects("StorageClass")}
    wanted = claim.spec.storage_class_name or ""
    if wanted and wanted not in classes:
        useful = _useful_classes(s)
        right = nearest(wanted, useful)
        others = [right] if right else useful[:2]
        for name in others:
            sort = Sort.CORRECT if name == right else Sort.OTHER
            title = f"change the class of claim {claim.name} from {wanted!r} to {name!r}"
            edit = ObjectEdit("PersistentVolumeClaim", claim.key, partial(_set_class, name))
            yield Candidate(title, sort, 1 - likeness(wanted, name), objects=(edit,))
    yield from _available(s, claim)
    made = classes.get(wanted)
    if made is not None:
        yield from _topologies(s, made)
    yield from _capacities(s, claim)
    for name in _useful_classes(s)[:3] if not wanted else ():
        title = f"give the claim {claim.name} the class {name!r}"
        edit = ObjectEdit("PersistentVolumeClaim", claim.key, partial(_set_class, name))
        yield Candidate(title, Sort.OTHER, 1, objects=(edit,))
    yield _new_volume(s, claim, f"{claim.name}-volume")


def _set_class(name: str, claim: Data) -> None:
    claim["spec"]["storageClassName"] = name


def _available(s: Situation, claim: Any) -> Iterator[Candidate]:
    """Volumes that nobody has, and what keeps the claim from them."""
    size = _storage(claim.spec.resources and claim.spec.resources.requests)
    modes = set(claim.spec.access_modes or ())
    for volume in s.objects("PersistentVolume"):
        if volume.spec.claim_ref is not None:
            continue
        has = _storage(volume.spec.capacity)
        class_fits = volume.spec.storage_class_name == (claim.spec.storage_class_name or "")
        modes_fit = modes <= set(volume.spec.access_modes or ())
        bound = ObjectEdit("PersistentVolumeClaim", claim.key, partial(_bind, volume.name))
        if class_fits and has >= size and modes_fit:
            title = f"bind the claim {claim.name} to the volume {volume.name}"
            yield Candidate(title, Sort.PROVIDE, 0, objects=(bound,))
        elif class_fits and modes_fit:
            text = quantity("storage", has)
            title = f"let the claim {claim.name} ask for {text}, as the volume {volume.name} has"
            edit = ObjectEdit("PersistentVolumeClaim", claim.key, partial(_set_size, text))
            yield Candidate(title, Sort.LESS, 1 - has / max(size, 1), objects=(edit,))
        elif class_fits and has >= size:
            new = list(volume.spec.access_modes or ())
            title = f"let the claim {claim.name} ask for {', '.join(new)}, as {volume.name} has"
            edit = ObjectEdit("PersistentVolumeClaim", claim.key, partial(_set_modes, new))
            yield Candidate(title, Sort.OTHER, 0.5, objects=(edit,))
        elif has >= size and modes_fit:
            own, other = claim.spec.storage_class_name or "", volume.spec.storage_class_name
            title = f"change the class of claim {claim.name} from {own!r} to {other!r}"
            edit = ObjectEdit("PersistentVolumeClaim", claim.key, partial(_set_class, other))
            alike = likeness(own, other)
            sort = Sort.CORRECT if alike >= 0.6 else Sort.OTHER
            yield Candidate(title, sort, 1 - alike, objects=(edit,))


def _storage(amounts: Any) -> int:
    text = (amounts or {}).get("storage")
    return 0 if text is None else ceil_value(parse_quantity(text))


def _set_size(text: str, claim: Data) -> None:
    claim["spec"]["resources"]["requests"]["storage"] = text


def _set_modes(modes: list[str], claim: Data) -> None:
    claim["spec"]["accessModes"] = modes


def _bind(volume: str, claim: Data) -> None:
    claim["metadata"].setdefault("annotations", {})[BIND_COMPLETED] = "yes"
    claim["spec"]["volumeName"] = volume


def _new_volume(s: Situation, claim: Any, name: str) -> Candidate:
    """Bound to the claim, unless the scheduler will bind it."""
    size = quantity("storage", _storage(claim.spec.resources and claim.spec.resources.requests))
    body: Data = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": list(claim.spec.access_modes or ["ReadWriteOnce"]),
            "storageClassName": claim.spec.storage_class_name or "",
            "hostPath": {"path": f"/mnt/{name}"},
        },
        "status": {"phase": "Available"},
    }
    if claim.spec.volume_mode:
        body["spec"]["volumeMode"] = claim.spec.volume_mode
    title = f"create the volume {name} for the claim {claim.name}"
    if claim.spec.volume_name or _waits(s, claim):
        return Candidate(title, Sort.PROVIDE, 1, create=(body,))
    bound = ObjectEdit("PersistentVolumeClaim", claim.key, partial(_bind, name))
    return Candidate(title, Sort.PROVIDE, 1, create=(body,), objects=(bound,))


def _waits(s: Situation, claim: Any) -> bool:
    named = claim.spec.storage_class_name
    return any(
        each.name == named and each.volume_binding_mode == WAITS
        for each in s.objects("StorageClass")
    )


def _topologies(s: Situation, made: Any) -> Iterator[Candidate]:
    """Zones that the class allows, and no node is in."""
    for number, term in enumerate(made.allowed_topologies or ()):
        for place, each in enumerate(term.match_label_expressions or ()):
            values = {labels[each.key] for labels in map(s.labels, range(len(s.names)))
                      if each.key in labels}  # fmt: skip
            for at, value in enumerate(each.values or ()):
                right = nearest(value, values, 0.0) if value not in values else None
                if right is not None:
                    change = partial(_set_topology, number, place, at, right)
                    edit = ObjectEdit("StorageClass", made.name, change)
                    alike = likeness(value, right)
                    sort = Sort.CORRECT if alike >= 0.6 else Sort.OTHER
                    title = f"let the class {made.name} allow {each.key}={right} instead of {value}"
                    yield Candidate(title, sort, 1 - alike, objects=(edit,))


def _set_topology(number: int, place: int, at: int, value: str, made: Data) -> None:
    made["allowedTopologies"][number]["matchLabelExpressions"][place]["values"][at] = value


def _capacities(s: Situation, claim: Any) -> Iterator[Candidate]:
    """The largest that a driver has room for."""
    size = _storage(claim.spec.resources and claim.spec.resources.requests)
    rooms = {
        ceil_value(parse_quantity(each.maximum_volume_size or each.capacity))
        for each in s.objects("CSIStorageCapacity")
        if each.storage_class_name == claim.spec.storage_class_name
        and (each.maximum_volume_size or each.capacity)
    }
    for room in sorted((room for room in rooms if 0 < room < size), reverse=True)[:2]:
        text = quantity("storage", room)
        title = f"let the claim {claim.name} ask for {text}, which is what there is room for"
        edit = ObjectEdit("PersistentVolumeClaim", claim.key, partial(_set_size, text))
        yield Candidate(title, Sort.LESS, 1 - room / size, objects=(edit,))


# -- bound claims ---------------------------------------------------------------------------


def _bound(s: Situation, claim: Any, rows: list[int]) -> Iterator[Candidate]:
    known = {volume.name: volume for volume in s.objects("PersistentVolume")}
    name = claim.spec.volume_name
    volume = known.get(name)
    if volume is not None:
        yield from _reachable(s, volume, rows)
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


def _reachable(s: Situation, volume: Any, rows: list[int]) -> Iterator[Candidate]:
    """Values of labels that tie the volume to nodes that there are not."""
    for key, value, change in _ties(volume):
        values = {labels[key] for labels in map(s.labels, range(len(s.names))) if key in labels}
        if value not in values:
            right = nearest(value, values)
            if right is not None:
                title = f"correct the {key} of the volume {volume.name}: {right} instead of {value}"
                edit = ObjectEdit("PersistentVolume", volume.name, partial(change, right))
                yield Candidate(title, Sort.CORRECT, 1 - likeness(value, right), objects=(edit,))
        for row in rows[:2]:
            name = s.names[row]
            if s.labels(row).get(key) != value:
                edit = ObjectEdit("Node", name, partial(_label, key, value))
                title = f"label {name} with {key}={value}"
                yield Candidate(title, Sort.LABEL, row / 1e6, objects=(edit,))


def ties(volume: Any) -> list[tuple[str, str]]:
    """Labels that a node must have for the volume."""
    return [(key, value) for key, value, _ in _ties(volume)]


def _ties(volume: Any) -> Iterator[tuple[str, str, Any]]:
    labels = volume.metadata.labels or {}
    for key in ZONES:
        if key in labels and "__" not in labels[key]:
            yield key, labels[key], partial(_set_label, key)
    required = volume.spec.node_affinity and volume.spec.node_affinity.required
    for number, term in enumerate((required and required.node_selector_terms) or ()):
        for place, each in enumerate(term.match_expressions or ()):
            if each.operator == "In" and len(each.values or ()) == 1:
                yield each.key, each.values[0], partial(_set_tie, number, place)


def _set_label(key: str, value: str, volume: Data) -> None:
    volume["metadata"]["labels"][key] = value


def _set_tie(number: int, place: int, value: str, volume: Data) -> None:
    terms = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    terms[number]["matchExpressions"][place]["values"] = [value]


def _label(key: str, value: str, node: Data) -> None:
    node["metadata"].setdefault("labels", {})[key] = value
