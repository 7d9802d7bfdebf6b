"""Volumes that nobody has: what keeps a claim from one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from stowplan.answers.changes import Candidate, Data, ObjectEdit, Sort, both
from stowplan.answers.generators.claim_edits import bound, claim_edits, set_class, set_size
from stowplan.answers.generators.volume_places import reachable
from stowplan.answers.situation import Situation
from stowplan.answers.words import NEAR, likeness, quantity
from stowplan.objects.labels import compile_selector
from stowplan.objects.quantity import ceil_value, parse_quantity

FILESYSTEM = "Filesystem"
WAITS = "WaitForFirstConsumer"


def free_volumes(s: Situation, claim: Any, rows: list[int]) -> Iterator[Candidate]:
    """Volumes that nobody has: the claim is bound to one, or the one thing is changed that keeps
    it from it."""
    for volume in s.objects("PersistentVolume"):
        wrong = [make for is_right, make in _conditions(claim, volume) if not is_right]
        if volume.spec.claim_ref is not None:
            if not wrong and _is_left(s, volume):
                yield _let_go(s, claim, volume)
        elif wrong == [_other_class] and _is_misspelt(s, claim, volume):
            yield _class_of_volume(claim, volume)
        elif not wrong:
            title = f"bind the claim {claim.name} to the volume {volume.name}"
            yield Candidate(title, Sort.PROVIDE, objects=(bound(claim, volume.name),))
            yield from reachable(s, volume, rows)
        elif len(wrong) == 1:
            yield from wrong[0](s, claim, volume)
        elif len(wrong) == 2:
            first, second = (next(make(s, claim, volume)) for make in wrong)
            yield both(first, second)


def _conditions(claim: Any, volume: Any) -> Iterator[tuple[bool, Any]]:
    """What a claim asks of a volume, and whoever thinks of changes where it is not so."""
    own = claim.spec
    yield volume.spec.storage_class_name == (own.storage_class_name or ""), _other_class
    yield _volume_size(volume) >= claimed_size(claim), _smaller
    yield set(own.access_modes or ()) <= set(volume.spec.access_modes or ()), _other_modes
    yield (own.volume_mode or FILESYSTEM) == (volume.spec.volume_mode or FILESYSTEM), _other_mode
    labels = volume.metadata.labels or {}
    yield own.selector is None or compile_selector(own.selector).matches(labels), _other_selector


def _is_left(s: Situation, volume: Any) -> bool:
    """Whether the claim that it was bound to is gone."""
    reference = volume.spec.claim_ref
    key = f"{reference.namespace}/{reference.name}"
    there = next((each for each in s.objects("PersistentVolumeClaim") if each.key == key), None)
    return there is None or (bool(reference.uid) and reference.uid != there.uid)


def _let_go(s: Situation, claim: Any, volume: Any) -> Candidate:
    title = f"free the volume {volume.name} of the claim that it had, which is gone"
    edit = ObjectEdit("PersistentVolume", volume.name, _freed)
    taken = () if waits(s, volume.spec.storage_class_name) else (bound(claim, volume.name),)
    return Candidate(title, Sort.PROVIDE, objects=(edit, *taken))


def _freed(volume: Data) -> None:
    del volume["spec"]["claimRef"]
    volume.setdefault("status", {})["phase"] = "Available"


def _for_volume(
    s: Situation, claim: Any, volume: Any, title: str, sort: Sort, amount: float = 0.0, *, edit: Any
) -> Candidate:
    """A change to the claim after which the volume is right for it.  Where the scheduler will not
    bind them, which it does for classes that wait for a pod, the claim is bound."""
    edits = claim_edits(s, claim, edit)
    if not waits(s, volume.spec.storage_class_name):
        edits = (*edits, bound(claim, volume.name))
    return Candidate(title, sort, amount, objects=edits)


def waits(s: Situation, name: str | None) -> bool:
    """Whether volumes of the class are bound when a pod uses them."""
    return any(
        each.name == name and each.volume_binding_mode == WAITS
        for each in s.objects("StorageClass")
    )


def _is_misspelt(s: Situation, claim: Any, volume: Any) -> bool:
    """Whether the volume's class does not exist, and looks like the claim's, which does."""
    own, other = volume.spec.storage_class_name, claim.spec.storage_class_name or ""
    known = {each.name for each in s.objects("StorageClass")}
    return own not in known and other in known and likeness(own, other) >= NEAR


def _class_of_volume(claim: Any, volume: Any) -> Candidate:
    own, other = volume.spec.storage_class_name, claim.spec.storage_class_name
    title = f"correct the class of the volume {volume.name}: {other!r} instead of {own!r}"
    edit = ObjectEdit("PersistentVolume", volume.name, partial(set_class, other))
    return Candidate(title, Sort.CORRECT, 1 - likeness(own, other), objects=(edit,))


def _other_class(s: Situation, claim: Any, volume: Any) -> Iterator[Candidate]:
    own, other = claim.spec.storage_class_name or "", volume.spec.storage_class_name
    alike = likeness(own, other)
    sort = Sort.CORRECT if alike >= NEAR else Sort.OTHER
    title = f"change the class of claim {claim.name} from {own!r} to {other!r}"
    edit = partial(set_class, other)
    yield _for_volume(s, claim, volume, title, sort, 1 - alike, edit=edit)


def _smaller(s: Situation, claim: Any, volume: Any) -> Iterator[Candidate]:
    has = _volume_size(volume)
    text = quantity("storage", has)
    title = f"let the claim {claim.name} ask for {text}, as the volume {volume.name} has"
    amount = 1 - has / max(claimed_size(claim), 1)
    edit = partial(set_size, text)
    yield _for_volume(s, claim, volume, title, Sort.LESS, amount, edit=edit)


def _other_modes(s: Situation, claim: Any, volume: Any) -> Iterator[Candidate]:
    new = list(volume.spec.access_modes or ())
    title = f"let the claim {claim.name} ask for {', '.join(new)}, as {volume.name} has"
    edit = partial(_set_spec, "accessModes", new)
    yield _for_volume(s, claim, volume, title, Sort.OTHER, 0.5, edit=edit)


def _other_mode(s: Situation, claim: Any, volume: Any) -> Iterator[Candidate]:
    new = volume.spec.volume_mode or FILESYSTEM
    title = f"let the claim {claim.name} have volume mode {new}, as {volume.name} has"
    edit = partial(_set_spec, "volumeMode", new)
    yield _for_volume(s, claim, volume, title, Sort.OTHER, 0.5, edit=edit)


def _other_selector(s: Situation, claim: Any, volume: Any) -> Iterator[Candidate]:
    """The one label of the selector that the volume does not have."""
    labels = volume.metadata.labels or {}
    wanted = claim.spec.selector.match_labels or {}
    wrong = [key for key, value in wanted.items() if labels.get(key) != value]
    if len(wrong) == 1 and wrong[0] in labels:
        (key,) = wrong
        alike = likeness(wanted[key], labels[key])
        sort = Sort.CORRECT if alike >= NEAR else Sort.OTHER
        title = f"let the claim {claim.name} select {key}={labels[key]} instead of {wanted[key]}"
        edit = partial(_set_selected, key, labels[key])
        yield _for_volume(s, claim, volume, title, sort, 1 - alike, edit=edit)
    title = f"drop the selector of the claim {claim.name}"
    yield _for_volume(s, claim, volume, title, Sort.DROP, edit=_without_selector)


def claimed_size(claim: Any) -> int:
    return _storage(claim.spec.resources and claim.spec.resources.requests)


def _volume_size(volume: Any) -> int:
    return _storage(volume.spec.capacity)


def _storage(amounts: Any) -> int:
    text = (amounts or {}).get("storage")
    return 0 if text is None else ceil_value(parse_quantity(text))


def _set_spec(field: str, value: Any, claim: Data) -> None:
    claim["spec"][field] = value


def _set_selected(key: str, value: str, claim: Data) -> None:
    claim["spec"]["selector"]["matchLabels"][key] = value


def _without_selector(claim: Data) -> None:
    del claim["spec"]["selector"]
