"""NodeAffinity: a selector or a required term that no node meets.

A word that looks misspelt is corrected to the nearest that a node has; otherwise a requirement
takes another value, or goes; last, a node is given the label.  Whether a requirement holds on a
node is asked of the same functions that the plugin asks (`objects.selectors`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

from stowplan.answers.changes import Candidate, Data, Edit, ObjectEdit, Sort
from stowplan.answers.situation import Situation, is_fact
from stowplan.answers.words import NEAR, likeness
from stowplan.objects.selectors import SelectorError, make_requirement

ROWS_MAX = 2000
"""Nodes that are looked at for a better word."""

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
HOSTNAME = "kubernetes.io/hostname"


class Repair(NamedTuple):
    """One requirement made to hold on a node."""

    sort: Sort
    amount: float
    title: str
    edit: Edit


def node_affinity(s: Situation, rows: list[int]) -> Iterator[Candidate]:
    found: dict[tuple[str, ...], Candidate] = {}
    for row in rows[:ROWS_MAX]:
        for repairs in _ways(s, row):
            titles = tuple(repair.title for repair in repairs)
            if titles and titles not in found:
                found[titles] = Candidate(
                    ", and ".join(titles),
                    max(repair.sort for repair in repairs),
                    sum(repair.amount for repair in repairs) + len(repairs) - 1,
                    pod=tuple(repair.edit for repair in repairs),
                    sorts=tuple(repair.sort for repair in repairs),
                )
    yield from sorted(found.values(), key=Candidate.rank)[:12]
    yield from _without_empty_terms(s)
    if s.pod.spec.node_selector:
        yield from without_runtime_class(s)
    yield from _labelled(s, rows)


def _without_empty_terms(s: Situation) -> Iterator[Candidate]:
    """A demand whose terms all ask for nothing holds nowhere."""
    node_affinity = (s.manifest["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = node_affinity.get(REQUIRED)
    if required is not None and not any(required.get("nodeSelectorTerms") or ()):
        title = "drop the node affinity, whose terms ask for nothing"
        yield Candidate(title, Sort.DROP, pod=(_without_demand,))


def without_runtime_class(s: Situation) -> Iterator[Candidate]:
    """Whose node selector and overhead the pod was given."""
    name = s.manifest["spec"].get("runtimeClassName")
    if name:

        def edit(pod: Data) -> None:
            del pod["spec"]["runtimeClassName"]

        yield Candidate(f"do without the runtime class {name}", Sort.DROP, 1, pod=(edit,))


def _ways(s: Situation, row: int) -> Iterator[list[Repair]]:
    """Each way to make the pod acceptable to the node, a repair for each thing that is wrong."""
    labels, name = s.labels(row), s.names[row]
    spec = s.manifest["spec"]
    wrong = [
        list(_selector_repairs(key, str(value), labels))
        for key, value in (spec.get("nodeSelector") or {}).items()
        if labels.get(key) != value
    ]
    node_affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = (node_affinity.get(REQUIRED) or {}).get("nodeSelectorTerms") or []
    by_term = [_term_repairs(term, number, labels, name) for number, term in enumerate(terms)]
    if terms and all(by_term):
        fewest = min(len(repairs) for repairs in by_term)
        for repairs in by_term:
            if len(repairs) == fewest:
                yield from _chosen([*wrong, *repairs])
    else:
        yield from _chosen(wrong)


def _chosen(wrong: list[list[Repair]]) -> Iterator[list[Repair]]:
    """The best repair of each; and, where only one thing is wrong, every repair of it."""
    if len(wrong) == 1:
        yield from ([repair] for repair in wrong[0])
    elif all(wrong):
        yield [min(repairs, key=lambda repair: repair[:2]) for repairs in wrong]


# -- nodeSelector ---------------------------------------------------------------------------


def _selector_repairs(key: str, value: str, labels: dict[str, str]) -> Iterator[Repair]:
    own = labels.get(key)
    if own is not None:
        alike = likeness(value, own)
        sort = Sort.CORRECT if alike >= NEAR else Sort.OTHER
        title = f"change the node selector {key} from {value!r} to {own!r}"
        yield Repair(sort, 1 - alike, title, partial(_select, key, key, own))
    else:
        for other, text in labels.items():
            alike = likeness(key, other)
            if alike >= NEAR and text == value:
                title = f"correct the node selector's key: {other} instead of {key}"
                yield Repair(Sort.CORRECT, 1 - alike, title, partial(_select, key, other, text))
            elif alike >= NEAR and likeness(text, value) >= NEAR:
                title = f"correct the node selector: {other}={text} instead of {key}={value}"
                amount = 2 - alike - likeness(text, value)
                yield Repair(Sort.CORRECT, amount, title, partial(_select, key, other, text))
    title = f"drop the node selector {key}={value}"
    yield Repair(Sort.DROP, 0, title, partial(_select, key, "", ""))


def _select(key: str, new_key: str, value: str, pod: Data) -> None:
    selector = pod["spec"]["nodeSelector"]
    if new_key == key:
        selector[key] = value
        return
    del selector[key]
    if new_key:
        selector[new_key] = value
    if not selector:
        del pod["spec"]["nodeSelector"]


# -- required node affinity -----------------------------------------------------------------


def _term_repairs(term: Data, number: int, labels: dict[str, str], name: str) -> list[list[Repair]]:
    """Per requirement of the term that does not hold, the ways to make it."""
    wrong = []
    for where, values in (("matchExpressions", labels), ("matchFields", {"metadata.name": name})):
        for place, requirement in enumerate(term.get(where) or ()):
            if not _holds(requirement, values):
                wrong.append(list(_repairs(requirement, (number, where, place), values)))
    return wrong


def _holds(requirement: Data, labels: dict[str, str]) -> bool:
    try:
        made = make_requirement(
            requirement.get("key", ""),
            requirement.get("operator", ""),
            requirement.get("values") or (),
        )
    except SelectorError:
        return False
    return made.matches(labels)


Where = tuple[int, str, int]


def _repairs(requirement: Data, where: Where, labels: dict[str, str]) -> Iterator[Repair]:
    key, operator = requirement.get("key", ""), requirement.get("operator", "")
    values = [str(value) for value in requirement.get("values") or ()]
    own = labels.get(key)
    text = f"{key} {operator} {','.join(values)}".strip()
    if own is None and operator in ("In", "Exists", "Gt", "Lt"):
        yield from _other_keys(requirement, where, labels, text)
    elif own is not None and operator == "In":
        best = max(range(len(values)), key=lambda n: likeness(values[n], own))
        alike = likeness(values[best], own)
        if alike >= NEAR:
            title = f"change the node affinity {key} from {values[best]!r} to {own!r}"
            yield Repair(Sort.CORRECT, 1 - alike, title, partial(_set_value, where, best, own))
        title = f"let the node affinity {key} take {own!r} too"
        yield Repair(Sort.RELAX, 1 - alike, title, partial(_set_value, where, None, own))
    elif own is not None and operator == "NotIn" and len(values) > 1:
        title = f"let the node affinity {key} take {own!r}"
        yield Repair(Sort.RELAX, 0, title, partial(_without_value, where, own))
    elif own is not None and operator in ("Gt", "Lt") and _is_number(own):
        bound = int(own) - 1 if operator == "Gt" else int(own) + 1
        title = f"change the node affinity {text} to {key} {operator} {bound}"
        distance = abs(bound - int(values[0])) if values and _is_number(values[0]) else 1
        amount = distance / (distance + abs(int(own)) + 1)
        yield Repair(Sort.RELAX, amount, title, partial(_set_value, where, 0, str(bound)))
    yield Repair(Sort.DROP, 0, f"drop the node affinity {text}", partial(_drop, where))


def _other_keys(
    requirement: Data, where: Where, labels: dict[str, str], text: str
) -> Iterator[Repair]:
    key = requirement.get("key", "")
    for other in labels:
        alike = likeness(key, other)
        if alike >= NEAR and _holds({**requirement, "key": other}, labels):
            title = f"correct the key of the node affinity {text}: {other}"
            yield Repair(Sort.CORRECT, 1 - alike, title, partial(_set_key, where, other))


def _is_number(text: str) -> bool:
    return text.lstrip("-").isdecimal()


def _terms(pod: Data) -> list[Any]:
    terms: list[Any] = pod["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    return terms


def _at(where: Where, pod: Data) -> Data:
    number, field, place = where
    found: Data = _terms(pod)[number][field][place]
    return found


def _set_key(where: Where, key: str, pod: Data) -> None:
    _at(where, pod)["key"] = key


def _set_value(where: Where, place: int | None, value: str, pod: Data) -> None:
    values = _at(where, pod)["values"]
    if place is None:
        values.append(value)
    else:
        values[place] = value


def _without_value(where: Where, value: str, pod: Data) -> None:
    _at(where, pod)["values"].remove(value)


def _drop(where: Where, pod: Data) -> None:
    number, field, place = where
    terms = _terms(pod)
    del terms[number][field][place]
    if terms[number][field]:
        return
    del terms[number][field]
    if terms[number]:
        return
    # A term that asks for nothing matches nothing: without it the others decide, or nobody.
    if len(terms) > 1:
        del terms[number]
        return
    _without_demand(pod)


def _without_demand(pod: Data) -> None:
    node_affinity = pod["spec"]["affinity"]["nodeAffinity"]
    del node_affinity[REQUIRED]
    if not node_affinity:
        del pod["spec"]["affinity"]["nodeAffinity"]
    if not pod["spec"]["affinity"]:
        del pod["spec"]["affinity"]


# -- the node -------------------------------------------------------------------------------


def _labelled(s: Situation, rows: list[int]) -> Iterator[Candidate]:
    """The node is given what the selector and one-value terms ask for."""
    spec = s.manifest["spec"]
    # The pod's own, not the manifest's: a runtime class adds to it.
    wanted = dict(s.pod.spec.node_selector or {})
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED) or {}
    for term in (affinity.get("nodeSelectorTerms") or [])[:1]:
        for each in term.get("matchExpressions") or ():
            if each.get("operator") == "In" and each.get("values"):
                wanted[each["key"]] = str(each["values"][0])
    for row in rows[:3]:
        labels = s.labels(row)
        missing = {key: value for key, value in wanted.items() if labels.get(key) != value}
        if missing and HOSTNAME not in missing:
            texts = ", ".join(f"{key}={value}" for key, value in missing.items())
            edit = ObjectEdit("Node", s.names[row], partial(_label, missing))
            title = f"label {s.names[row]} with {texts}"
            yield Candidate(
                title,
                Sort.LABEL,
                len(missing) + row / 1e6,
                objects=(edit,),
                last_resort=any(is_fact(key) and key in labels for key in missing),
            )


def _label(labels: dict[str, str], node: Data) -> None:
    node["metadata"].setdefault("labels", {}).update(labels)
