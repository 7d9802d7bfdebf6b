"""The plugins that come with the scheduler, a module or folder each, named as upstream names them.

`IN_TREE` is the registry: `core` makes a profile's plugins from it by name.  Plugins know the
framework and nothing of each other; what several need is in `_shared`.
"""

from __future__ import annotations

from stowplan.plugins.default_binder import DefaultBinder
from stowplan.plugins.default_preemption import DefaultPreemption
from stowplan.plugins.default_preemption.victims import Candidate, protects, start_time_s
from stowplan.plugins.dynamic_resources import DynamicResources
from stowplan.plugins.gang_scheduling import GangScheduling
from stowplan.plugins.image_locality import ImageLocality
from stowplan.plugins.inter_pod_affinity import InterPodAffinity
from stowplan.plugins.node_affinity import NodeAffinity
from stowplan.plugins.node_declared_features import NodeDeclaredFeatures
from stowplan.plugins.node_name import NodeName
from stowplan.plugins.node_ports import NodePorts
from stowplan.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from stowplan.plugins.node_resources_fit import NodeResourcesFit
from stowplan.plugins.node_unschedulable import NodeUnschedulable
from stowplan.plugins.node_volume_limits import NodeVolumeLimits
from stowplan.plugins.pod_group_pods_count import PodGroupPodsCount
from stowplan.plugins.pod_topology_spread import PodTopologySpread
from stowplan.plugins.priority_sort import PrioritySort
from stowplan.plugins.qos_sort import QOSSort
from stowplan.plugins.scheduling_gates import SchedulingGates
from stowplan.plugins.taint_toleration import TaintToleration
from stowplan.plugins.topology_placement_generator import TopologyPlacementGenerator
from stowplan.plugins.volume_binding import VolumeBinding
from stowplan.plugins.volume_restrictions import VolumeRestrictions
from stowplan.plugins.volume_zone import VolumeZone

IN_TREE: dict[str, type] = {
    plugin.name: plugin
    for plugin in (
        SchedulingGates,
        PrioritySort,
        QOSSort,
        NodeUnschedulable,
        NodeName,
        TaintToleration,
        NodeAffinity,
        NodePorts,
        NodeResourcesFit,
        VolumeRestrictions,
        NodeVolumeLimits,
        VolumeBinding,
        VolumeZone,
        NodeResourcesBalancedAllocation,
        ImageLocality,
        PodTopologySpread,
        InterPodAffinity,
        DynamicResources,
        DefaultPreemption,
        DefaultBinder,
        NodeDeclaredFeatures,
        GangScheduling,
        TopologyPlacementGenerator,
        PodGroupPodsCount,
    )
}

__all__ = ["IN_TREE", "Candidate", "protects", "start_time_s"]
