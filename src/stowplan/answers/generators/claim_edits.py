"""Changes to a claim, wherever it is written: of a StatefulSet's claims also in its template."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from stowplan.answers.changes import Data, Edit, ObjectEdit
from stowplan.answers.situation import Situation

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"


def claim_edits(s: Situation, claim: Any, edit: Edit) -> tuple[ObjectEdit, ...]:
    """The change to the claim, and to the template that it was made of."""
    return (ObjectEdit("PersistentVolumeClaim", claim.key, edit), *_in_template(s, claim, edit))


def _in_template(s: Situation, claim: Any, edit: Edit) -> Iterator[ObjectEdit]:
    if s.owner is None or s.owner[0] != "StatefulSet":
        return
    templates = s.cluster.get(*s.owner)["spec"].get("volumeClaimTemplates") or ()
    for place, template in enumerate(templates):
        if claim.name == f"{template['metadata']['name']}-{s.pod.name}":
            yield ObjectEdit(*s.owner, partial(_edit_template, place, edit))


def _edit_template(place: int, edit: Edit, owner: Data) -> None:
    edit(owner["spec"]["volumeClaimTemplates"][place])


def set_size(text: str, claim: Data) -> None:
    claim["spec"]["resources"]["requests"]["storage"] = text


def set_class(name: str, claim_or_volume: Data) -> None:
    claim_or_volume["spec"]["storageClassName"] = name


def bind(volume: str, claim: Data) -> None:
    claim["metadata"].setdefault("annotations", {})[BIND_COMPLETED] = "yes"
    claim["spec"]["volumeName"] = volume


def bound(claim: Any, volume: str) -> ObjectEdit:
    return ObjectEdit("PersistentVolumeClaim", claim.key, partial(bind, volume))
