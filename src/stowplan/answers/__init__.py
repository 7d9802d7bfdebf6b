"""Questions asked of forks: why a pod has no node, what would help, and what if.

`why` is the way in.  It looks at the pod and the nodes (`situation`), says what stands in the way
(`causes`), thinks of changes that may help (`generators`, a module per sort of cause), tries each
on a fork (`proving`) and ranks what worked (`changes`).  Nothing here knows a rule of scheduling:
what fits is what the scheduler in a fork says.  `what_if` makes changes that somebody names
(`deeds`) and compares before and after.  `plan` counts, buys and drains: `plan_capacity`,
`plan_nodes` and `plan_consolidate`, with bounds from `packing`.
`compare` runs two forks and says which decisions differ.
"""

from stowplan.answers.compare import Comparison, compare
from stowplan.answers.plan import plan
from stowplan.answers.plan_capacity import Capacity, plan_capacity
from stowplan.answers.plan_consolidate import Consolidation, plan_consolidate
from stowplan.answers.plan_nodes import NodePlan, plan_nodes
from stowplan.answers.what_if import WhatIf, what_if
from stowplan.answers.why import Why, why

__all__ = [
    "Capacity",
    "Comparison",
    "Consolidation",
    "NodePlan",
    "WhatIf",
    "Why",
    "compare",
    "plan",
    "plan_capacity",
    "plan_consolidate",
    "plan_nodes",
    "what_if",
    "why",
]
