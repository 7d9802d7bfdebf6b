"""The controllers of a cluster: they make the pods of workloads, and keep nodes and budgets true.

Clients of the port like any other: informers in, requests out, no loop of their own.  `bundle`
starts them all; `shared` and `calls` are what they have in common.
"""

from stowplan.apiserver.controllers.bundle import Controllers
from stowplan.apiserver.controllers.shared import Memory

__all__ = ["Controllers", "Memory"]
