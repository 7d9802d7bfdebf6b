"""What a fork of the machine takes over beside its cache, table and objects.

Frameworks are built anew from the same configuration: what they keep is worked out anew, and a
plugin's own state begins where its constructor begins.  Generators cannot be copied, so pods on
their way to a node (at Permit, in PreBind) begin their attempt anew, as they would after a restart
of the scheduler.  Called by `Machine.fork`, between two decisions.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stowplan.core.machine import Machine


def go_on_from(fork: Machine, origin: Machine) -> None:
    fork.stepper.now_s = origin.stepper.now_s
    fork.stopping = origin.stopping
    fork.algorithm.start_index = origin.algorithm.start_index
    fork.pods.update(origin.pods)
    for name, framework in fork.frameworks.items():
        framework.tallies.update(origin.frameworks[name].tallies)
    fork.queue.take_over(origin.queue, copy)
    for uid in fork.cache.assumed_uids():
        assumed = fork.cache.pod(uid)
        assert assumed is not None, uid
        fork.cache.forget_pod(assumed)
        known = fork.pods.get(assumed.key)
        if known is not None and known.uid == uid and not known.node_name:
            fork.queue.add(known)
