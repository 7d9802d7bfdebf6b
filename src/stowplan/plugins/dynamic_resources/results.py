"""What is written into a claim: the devices it got, their configuration, and on which nodes.

Made of the choices of a search, for the node that the pod goes to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stowplan.objects.devices import (
    AllocatedDevice,
    Allocation,
    Configuration,
    DeviceAllocation,
    ResourceClaim,
)
from stowplan.objects.node_selector import METADATA_NAME
from stowplan.objects.pod import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from stowplan.plugins.dynamic_resources.allocator import Choice
from stowplan.plugins.dynamic_resources.requests import Ask


def allocation_of(
    claim: ResourceClaim, choices: Sequence[Choice], node: str, getrandbits: Callable[[int], int]
) -> Allocation:
    """`getrandbits` is for the names that parts of shared devices get."""
    asks = {id(choice.ask): choice.ask for choice in choices}
    return Allocation(
        devices=DeviceAllocation(
            results=[_result(choice, getrandbits) for choice in choices] or None,
            config=_configuration(claim, list(asks.values())) or None,
        ),
        node_selector=_node_selector(choices, node),
    )


def _result(choice: Choice, getrandbits: Callable[[int], int]) -> AllocatedDevice:
    ask, entry, amounts, _ = choice
    driver, pool, name = entry.id
    return AllocatedDevice(
        request=ask.name,
        driver=driver,
        pool=pool,
        device=name,
        admin_access=True if ask.is_admin else None,
        tolerations=ask.tolerations or None,
        binding_conditions=entry.device.binding_conditions or None,
        binding_failure_conditions=entry.device.binding_failure_conditions or None,
        share_id=None if amounts is None else share_id(getrandbits(128)),
        consumed_capacity=None
        if not amounts
        else {capacity: amount.text for capacity, amount in amounts.items()},
    )


def share_id(bits: int) -> str:
    """A random uuid of version 4 made of 128 random bits.

    >>> share_id(0), share_id(2**128 - 1)
    ('00000000-0000-4000-8000-000000000000', 'ffffffff-ffff-4fff-bfff-ffffffffffff')
    """
    digits = f"{bits:032x}"
    variant = "89ab"[int(digits[16], 16) % 4]
    parts = (digits[:8], digits[8:12], f"4{digits[13:16]}", variant + digits[17:20], digits[20:])
    return "-".join(parts)


def _configuration(claim: ResourceClaim, asks: Sequence[Ask]) -> list[Configuration]:
    """That of the classes, once per class, in the order of the requests; then the claim's own."""
    chosen = {ask.request: ask for ask in asks}
    found: list[dict[str, Any]] = []
    of_class: dict[str, list[dict[str, Any]]] = {}
    for request in claim.spec.devices.requests or ():
        ask = chosen.get(request.name)
        if ask is None:
            continue
        name = ask.device_class.metadata.name
        if name in of_class:
            for known in of_class[name]:
                known["requests"].append(ask.name)
        else:
            of_class[name] = [
                {**_without_requests(it), "source": "FromClass", "requests": [ask.name]}
                for it in ask.device_class.spec.config or ()
            ]
            found += of_class[name]
    for it in claim.spec.devices.config or ():
        names = it.get("requests")
        # As often as it names requests, which upstream does not look at.
        times = sum(ask.request in names or ask.name in names for ask in asks) if names else 1
        found += [{**it, "source": "FromClaim"}] * times
    return found


def _without_requests(configuration: Configuration) -> Configuration:
    return {name: value for name, value in configuration.items() if name != "requests"}


def _node_selector(choices: Sequence[Choice], node: str) -> NodeSelector | None:
    """Where the pods of the claim may run; None: anywhere."""
    fields: list[NodeSelectorRequirement] = []
    expressions: list[NodeSelectorRequirement] = []
    for _, entry, *_ in choices:
        places = entry.places or entry.slice.places
        assert places is not None, "a slice or its devices say where they can be had"
        if places.node_name or entry.device.binds_to_node:
            only = NodeSelectorRequirement(key=METADATA_NAME, operator="In", values=[node])
            return NodeSelector(node_selector_terms=[NodeSelectorTerm(match_fields=[only])])
        for term in (places.written.node_selector_terms or ()) if places.written else ():
            _union(fields, term.match_fields)
            _union(expressions, term.match_expressions)
    if not fields and not expressions:
        return None
    union = NodeSelectorTerm(match_fields=fields or None, match_expressions=expressions or None)
    return NodeSelector(node_selector_terms=[union])


def _union(
    into: list[NodeSelectorRequirement], more: Sequence[NodeSelectorRequirement] | None
) -> None:
    for requirement in more or ():
        if not any(_is_same(requirement, known) for known in into):
            into.append(requirement)


def _is_same(one: NodeSelectorRequirement, other: NodeSelectorRequirement) -> bool:
    return (one.key, one.operator) == (other.key, other.operator) and set(one.values or ()) == set(
        other.values or ()
    )
