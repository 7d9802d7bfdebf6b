"""Node selectors over many rows at once: strings per distinct label value, integers per node.

The counterpart of `objects.node_selector`, which asks the same of one node.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from stowplan.framework.status import NodeMask, Rows
from stowplan.objects.labels import GT, IN, NOT_IN, Requirement
from stowplan.objects.node_selector import (
    METADATA_NAME,
    CompiledNodeSelector,
    NodeTerm,
    RequiredNodeAffinity,
)
from stowplan.plugins._shared.rows import row_count
from stowplan.state.label_column import ABSENT, LabelColumn
from stowplan.state.node_table import NodeTable

Ids = NDArray[np.intp]
"""Per row a number into the values of a label column, or ABSENT."""


def affinity_mask(nodes: NodeTable, affinity: RequiredNodeAffinity, rows: Rows | slice) -> NodeMask:
    """Where a pod's `nodeSelector` and its required node affinity both hold."""
    matched = _all_of(nodes, affinity.labels.requirements, rows)
    if affinity.affinity is not None:
        matched &= selector_mask(nodes, affinity.affinity, rows)
    return matched


def selector_mask(nodes: NodeTable, selector: CompiledNodeSelector, rows: Rows | slice) -> NodeMask:
    matched = np.zeros(row_count(nodes, rows), np.bool_)
    for term in selector.terms:
        matched |= term_mask(nodes, term, rows)
    return matched


def term_mask(nodes: NodeTable, term: NodeTerm, rows: Rows | slice) -> NodeMask:
    if term.never_matches:
        return np.zeros(row_count(nodes, rows), np.bool_)
    matched = _all_of(nodes, term.expressions, rows)
    for requirement in term.fields:
        matched &= _field_mask(nodes, requirement, rows)
    return matched


def _all_of(nodes: NodeTable, requirements: Iterable[Requirement], rows: Rows | slice) -> NodeMask:
    matched = np.ones(row_count(nodes, rows), np.bool_)
    for requirement in requirements:
        column = nodes.label(requirement.key)
        wanted = _numbers(column, requirement)
        if wanted is None:
            matched &= _label_mask(column, requirement, column.ids[rows])
        elif wanted:
            found = _has_one_of(column, wanted, column.ids[rows])
            matched &= found if requirement.operator == IN else ~found
        elif requirement.operator == IN:
            matched[:] = False
            break
    return matched


def _numbers(column: LabelColumn, requirement: Requirement) -> list[int] | None:
    """Of the values that the requirement names, those that nodes have; None: it names none."""
    if requirement.operator not in (IN, NOT_IN):
        return None
    return [number for v in requirement.values if (number := column.id_of(v)) != ABSENT]


def _has_one_of(column: LabelColumn, wanted: list[int], ids: Ids) -> NodeMask:
    if len(wanted) == 1:
        matched: NodeMask = ids == wanted[0]
        return matched
    accepted = np.zeros(len(column.values) + 1, np.bool_)
    accepted[wanted] = True
    return accepted[ids]


def _label_mask(column: LabelColumn, requirement: Requirement, ids: Ids) -> NodeMask:
    matched: NodeMask
    match requirement.operator:
        case "Exists":
            matched = ids != ABSENT
        case "DoesNotExist":
            matched = ids == ABSENT
        case _:
            matched = _compared(column, requirement)[ids]
    return matched


def _compared(column: LabelColumn, requirement: Requirement) -> NodeMask:
    """`Gt` and `Lt`, per value and for lack of one."""
    are_numbers, numbers = column.integers()
    if requirement.number is None:
        return np.zeros(len(numbers), np.bool_)
    limit = requirement.number
    beyond: NodeMask = numbers > limit if requirement.operator == GT else numbers < limit
    return are_numbers & beyond


def _field_mask(nodes: NodeTable, requirement: Requirement, rows: Rows | slice) -> NodeMask:
    if requirement.key != METADATA_NAME:
        # The only field there is; any other reads as empty.
        return np.full(row_count(nodes, rows), requirement.matches_value(""), np.bool_)
    named = np.zeros(nodes.size, np.bool_)
    named[[nodes.row_of[name] for name in requirement.values if name in nodes.row_of]] = True
    return named[rows] if requirement.operator == IN else ~named[rows]
