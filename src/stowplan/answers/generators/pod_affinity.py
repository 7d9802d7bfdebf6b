"""InterPodAffinity: terms whose words look misspelt, that become wishes, or go; labels of the pod
that terms of running pods object to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any

from stowplan.answers.changes import Candidate, Data, Edit, Sort
from stowplan.answers.situation import Situation
from stowplan.answers.words import NEAR, likeness, nearest
from stowplan.objects.base import LabelSelector
from stowplan.objects.codec import convert
from stowplan.objects.labels import compile_selector

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
WISH_WEIGHT = 100
WORDS = {"podAffinity": "affinity", "podAntiAffinity": "anti-affinity"}


def inter_pod(s: Situation, rows: list[int]) -> Iterator[Candidate]:
    affinity = s.manifest["spec"].get("affinity") or {}
    for stanza in WORDS:
        terms = (affinity.get(stanza) or {}).get(REQUIRED) or []
        for place, term in enumerate(terms):
            if stanza == "podAffinity":
                yield from _corrections(s, term, place)
            yield from _key_corrections(s, rows, stanza, term, place)
            yield from _relaxed(stanza, term, place)
        if len(terms) > 1:
            edits = tuple(partial(_wish, stanza, 0) for _ in terms)
            title = f"make all {len(terms)} {WORDS[stanza]} terms wishes"
            yield Candidate(title, Sort.RELAX, 0.5 + len(terms), pod=edits)
    yield from _own_labels(s)


def term_text(term: Data) -> str:
    selector = term.get("labelSelector") or {}
    words = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for each in selector.get("matchExpressions") or ():
        values = ",".join(each.get("values") or ())
        words.append(f"{each.get('key')} {each.get('operator')} {values}".strip())
    return f"{' and '.join(words) or 'any pod'} by {term.get('topologyKey', '')}"


def _relaxed(stanza: str, term: Data, place: int) -> Iterator[Candidate]:
    word, text = WORDS[stanza], term_text(term)
    yield Candidate(
        f"make the {word} to {text} a wish",
        Sort.RELAX,
        0.5,
        pod=(partial(_wish, stanza, place),),
    )
    title = f"drop the {word} to {text}"
    yield Candidate(title, Sort.DROP, pod=(partial(_take, stanza, place),))


def _take(stanza: str, place: int, pod: Data) -> Any:
    """Take a term out, and with the last one whatever would be left empty."""
    affinity = pod["spec"]["affinity"]
    terms = affinity[stanza][REQUIRED]
    term = terms.pop(place)
    if not terms:
        del affinity[stanza][REQUIRED]
    if not affinity[stanza]:
        del affinity[stanza]
    if not affinity:
        del pod["spec"]["affinity"]
    return term


def _wish(stanza: str, place: int, pod: Data) -> None:
    term = _take(stanza, place, pod)
    terms = pod["spec"].setdefault("affinity", {}).setdefault(stanza, {})
    terms.setdefault(PREFERRED, []).append({"weight": WISH_WEIGHT, "podAffinityTerm": term})


# -- words ----------------------------------------------------------------------------------


Where = tuple[int, str]
"""Which affinity term, and which of its selectors."""
NAMES = {"labelSelector": "label", "namespaceSelector": "namespace label"}


def _corrections(s: Situation, term: Data, place: int) -> Iterator[Candidate]:
    """Words of the selectors that no running pod has, or no namespace."""
    spaces = set(term.get("namespaces") or [s.pod.namespace])
    anywhere = bool(term.get("namespaceSelector") is not None)
    labels = [pod.metadata.labels or {} for pod in s.running if anywhere or pod.namespace in spaces]
    yield from _of_selector(term, (place, "labelSelector"), labels)
    if anywhere:
        of_spaces = [space.metadata.labels or {} for space in s.objects("Namespace")]
        yield from _of_selector(term, (place, "namespaceSelector"), of_spaces)
    else:
        yield from _other_namespace(s, term, place)


def _of_selector(term: Data, where: Where, labels: list[dict[str, str]]) -> Iterator[Candidate]:
    selector = term.get(where[1]) or {}
    for key, value in (selector.get("matchLabels") or {}).items():
        yield from _other_label(labels, (key, value), where, partial(_in_labels, where))
    for number, each in enumerate(selector.get("matchExpressions") or ()):
        if each.get("operator") == "Exists":
            yield from _other_key(labels, each.get("key", ""), where, number)
        for position, value in enumerate(each.get("values") or ()):
            if each.get("operator") == "In":
                at = partial(_in_expression, where, number, position)
                yield from _other_label(labels, (each["key"], value), where, at)


def _other_key(
    labels: list[dict[str, str]], key: str, where: Where, number: int
) -> Iterator[Candidate]:
    right = nearest(key, set(chain.from_iterable(labels)))
    if right is None or any(key in each for each in labels):
        return

    def edit(pod: Data) -> None:
        _selector(pod, where)["matchExpressions"][number]["key"] = right

    title = f"correct the affinity's {NAMES[where[1]]}: {right} instead of {key}"
    yield Candidate(title, Sort.CORRECT, 1 - likeness(key, right), pod=(edit,))


def _other_label(
    labels: list[dict[str, str]], label: tuple[str, str], where: Where, at: Any
) -> Iterator[Candidate]:
    key, value = label
    what = NAMES[where[1]]
    values = {each[key] for each in labels if key in each}
    if value in values:
        return
    right = nearest(value, values)
    if right is not None:
        title = f"correct the affinity's {what}: {key}={right} instead of {key}={value}"
        edit: Edit = partial(at, key, key, right)
        yield Candidate(title, Sort.CORRECT, 1 - likeness(value, right), pod=(edit,))
    pairs = set(chain.from_iterable(each.items() for each in labels))
    keys = [other for other, text in pairs if text == value and likeness(other, key) >= NEAR]
    for other in sorted(keys, key=lambda other: -likeness(other, key))[:1]:
        title = f"correct the affinity's {what}: {other}={value} instead of {key}={value}"
        edit = partial(at, key, other, value)
        yield Candidate(title, Sort.CORRECT, 1 - likeness(key, other), pod=(edit,))
    if right is None and values:
        other = min(values)
        title = f"ask for the {what} {key}={other} instead of {key}={value} in the affinity"
        yield Candidate(title, Sort.OTHER, 1, pod=(partial(at, key, key, other),))


def _term(pod: Data, place: int) -> Data:
    found: Data = pod["spec"]["affinity"]["podAffinity"][REQUIRED][place]
    return found


def _selector(pod: Data, where: Where) -> Data:
    place, field = where
    found: Data = _term(pod, place)[field]
    return found


def _in_labels(where: Where, key: str, new_key: str, value: str, pod: Data) -> None:
    labels = _selector(pod, where)["matchLabels"]
    if new_key != key:
        del labels[key]
    labels[new_key] = value


def _in_expression(
    where: Where, number: int, at: int, key: str, new_key: str, value: str, pod: Data
) -> None:
    expression = _selector(pod, where)["matchExpressions"][number]
    if new_key != key:
        expression["key"] = new_key
    expression["values"][at] = value


def _other_namespace(s: Situation, term: Data, place: int) -> Iterator[Candidate]:
    """Pods that match are in a namespace that the term does not name."""
    named = list(term.get("namespaces") or [])
    matches = compiled(term.get("labelSelector"))
    spaces = sorted({pod.namespace for pod in s.running if matches(pod.metadata.labels or {})})
    for space in [each for each in spaces if each not in (named or [s.pod.namespace])][:2]:
        near = nearest(space, named)
        if near is not None:
            title = f"correct the affinity's namespace: {space} instead of {near}"
            edit = partial(_set_namespaces, place, [space if n == near else n for n in named])
            yield Candidate(title, Sort.CORRECT, 1 - likeness(space, near), pod=(edit,))
        else:
            title = f"let the affinity look in namespace {space} too"
            all_named = [*(named or [s.pod.namespace]), space]
            edit = partial(_set_namespaces, place, all_named)
            yield Candidate(title, Sort.RELAX, 0.2, pod=(edit,))


def compiled(selector: Data | None) -> Callable[[dict[str, str]], bool]:
    """Whether labels match a selector that a manifest has."""
    found = None if selector is None else convert(selector, LabelSelector)
    return compile_selector(found).matches


def _set_namespaces(place: int, names: list[str], pod: Data) -> None:
    _term(pod, place)["namespaces"] = names


def _key_corrections(
    s: Situation, rows: list[int], stanza: str, term: Data, place: int
) -> Iterator[Candidate]:
    key = term.get("topologyKey", "")
    keys = {label for row in rows[:200] for label in s.labels(row)}
    right = nearest(key, keys) if not s.has_label(key) else None
    if right is not None:

        def edit(pod: Data) -> None:
            pod["spec"]["affinity"][stanza][REQUIRED][place]["topologyKey"] = right

        title = f"correct the topology key: {right} instead of {key}"
        yield Candidate(title, Sort.CORRECT, 1 - likeness(key, right), pod=(edit,))


# -- terms of others ------------------------------------------------------------------------


def _own_labels(s: Situation) -> Iterator[Candidate]:
    """Labels that anti-affinity terms of running pods match, unless the owner needs them."""
    own = dict((s.manifest.get("metadata") or {}).get("labels") or {})
    needed = s.selector_labels()
    matched: set[str] = set()
    for _, term in s.opposing:
        matched |= set((term.label_selector and term.label_selector.match_labels) or {})
        for each in (term.label_selector and term.label_selector.match_expressions) or ():
            matched.add(each.key)
    for key in sorted((matched & set(own)) - needed):

        def edit(pod: Data, key: str = key) -> None:
            del pod["metadata"]["labels"][key]
            if not pod["metadata"]["labels"]:
                del pod["metadata"]["labels"]

        title = f"drop the pod's label {key}={own[key]}, which running pods keep away from"
        yield Candidate(title, Sort.RELABEL, pod=(edit,))
