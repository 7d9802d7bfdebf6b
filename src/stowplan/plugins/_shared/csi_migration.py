"""In-tree volumes as the CSI drivers see them that took their place.

Old volumes name a cloud's disk directly.  Where a node runs the CSI driver instead, the disk
counts against the driver's limit under the driver's name for it, and the volume's zone becomes
the driver's own topology label.  Mirrors the `csi-translation-lib` staging repository, as far as
scheduling reads what it produces.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec

from stowplan.objects.pod import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Volume,
)
from stowplan.objects.storage import CSINode, PersistentVolume, PersistentVolumeSpec

ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"

MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"

_ZONE_DELIMITER = "__"
_UNSPECIFIED = "UNSPECIFIED"
_EBS_VOLUME = re.compile(r"vol-[^/]*")


class TranslationError(ValueError):
    """The in-tree volume is written in a way that has no CSI counterpart."""


@dataclass(frozen=True, slots=True)
class InTreePlugin:
    """An in-tree volume plugin and the CSI driver it became."""

    source: str
    """The attribute of a volume (or of a persistent volume's spec) that holds it."""
    name: str
    driver: str
    topology_key: str = ""
    """The driver's zone label; empty when its volumes keep the Kubernetes ones."""
    is_on: bool = True
    """Whether the scheduler translates it; the others are only known to be migratable."""


PLUGINS = (
    InTreePlugin(
        "gce_persistent_disk",
        "kubernetes.io/gce-pd",
        "pd.csi.storage.gke.io",
        "topology.gke.io/zone",
    ),
    InTreePlugin(
        "aws_elastic_block_store",
        "kubernetes.io/aws-ebs",
        "ebs.csi.aws.com",
        "topology.ebs.csi.aws.com/zone",
    ),
    InTreePlugin(
        "cinder",
        "kubernetes.io/cinder",
        "cinder.csi.openstack.org",
        "topology.cinder.csi.openstack.org/zone",
    ),
    InTreePlugin("azure_disk", "kubernetes.io/azure-disk", "disk.csi.azure.com"),
    InTreePlugin("azure_file", "kubernetes.io/azure-file", "file.csi.azure.com", is_on=False),
    InTreePlugin(
        "vsphere_volume", "kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com", is_on=False
    ),
    InTreePlugin("portworx_volume", "kubernetes.io/portworx-volume", "pxd.portworx.com"),
)
_BY_NAME = {plugin.name: plugin for plugin in PLUGINS}


def plugin_named(name: str) -> InTreePlugin | None:
    return _BY_NAME.get(name)


def plugin_of(source: Volume | PersistentVolumeSpec) -> InTreePlugin | None:
    """The plugin whose volume this is, if it can be migrated at all."""
    for plugin in PLUGINS:
        if getattr(source, plugin.source) is not None:
            return plugin
    return None


def is_migrated_on(node: CSINode | None, plugin: InTreePlugin) -> bool:
    """Whether the node says that it runs the driver in the plugin's place."""
    annotations = (node.metadata.annotations or {}) if node is not None else {}
    return plugin.name in annotations.get(MIGRATED_PLUGINS, "").split(",")


def inline_handle(plugin: InTreePlugin, volume: Volume) -> str:
    """What the driver calls the disk of a volume written into the pod."""
    return _handle(plugin, volume, zones=[])


def volume_handle(plugin: InTreePlugin, volume: PersistentVolume) -> str:
    labels = volume.metadata.labels or {}
    zones = labels.get(BETA_ZONE) or labels.get(ZONE) or ""
    return _handle(plugin, volume.spec, zones.split(_ZONE_DELIMITER) if zones else [])


def _handle(plugin: InTreePlugin, source: Volume | PersistentVolumeSpec, zones: list[str]) -> str:
    if source.gce_persistent_disk is not None:
        place = f"zones/{zones[0] if zones else _UNSPECIFIED}"
        if len(zones) > 1:
            place = f"regions/{_gce_region(zones)}"
        return f"projects/{_UNSPECIFIED}/{place}/disks/{source.gce_persistent_disk.pd_name}"
    if source.aws_elastic_block_store is not None:
        return _ebs_handle(source.aws_elastic_block_store.volume_id)
    if source.azure_disk is not None:
        return source.azure_disk.disk_uri
    by_id = getattr(source, plugin.source)
    return str(by_id.volume_id)


def _ebs_handle(volume_id: str) -> str:
    """`aws://zone/vol-1` and `aws:///vol-1` are `vol-1`; anything else is taken as it is."""
    if not volume_id.startswith("aws://"):
        return volume_id
    handle = volume_id.removeprefix("aws://").partition("/")[2].strip("/")
    if _EBS_VOLUME.fullmatch(handle) is None:
        raise TranslationError(
            "failed to translate Kubernetes ID to EBS Volume ID "
            f"Invalid format for AWS volume ({volume_id})"
        )
    return handle


def _gce_region(zones: list[str]) -> str:
    regions = set()
    for zone in zones:
        parts = zone.split("-")
        if len(parts) != 3:
            raise TranslationError(
                "failed to get region from zones: zone in unexpected format, "
                f"expected: {{locale}}-{{region}}-{{zone}}, got: {zone}"
            )
        regions.add("-".join(parts[:2]))
    if len(regions) != 1:
        raise TranslationError(
            "failed to get region from zones: multiple or no regions gotten from zones, "
            f"got: {sorted(regions)}"
        )
    return regions.pop()


def translated_affinity(plugin: InTreePlugin, volume: PersistentVolume) -> NodeSelector | None:
    """The node affinity the volume has once its driver looks after it.

    The zone key becomes the driver's; a volume that has its zone only as a label gets a
    requirement of that kind; a region under the beta key moves to the key of today.
    """
    volume_handle(plugin, volume)  # A volume that cannot be translated has no affinity either.
    affinity = volume.spec.node_affinity
    required = affinity.required if affinity is not None else None
    if not plugin.topology_key:
        return required
    labels = volume.metadata.labels or {}
    zone_key, region_key = _topology_keys(required, labels)
    renamed = {}
    if region_key == BETA_REGION and _has_values(required, region_key):
        renamed[region_key] = REGION
    if _has_values(required, zone_key):
        renamed[zone_key] = plugin.topology_key
    elif zone_key in labels:
        zones = {zone.strip() for zone in labels[zone_key].split(_ZONE_DELIMITER)} - {""}
        if zones:
            required = _with_zones(required, plugin.topology_key, sorted(zones))
    return _renamed(required, renamed)


def _topology_keys(required: NodeSelector | None, labels: dict[str, str]) -> tuple[str, str]:
    """Which generation of labels the volume uses; its affinity is asked before its labels."""
    keys = {requirement.key for requirement in _requirements(required)}
    if ZONE not in keys and (BETA_ZONE in keys or (ZONE not in labels and BETA_ZONE in labels)):
        return BETA_ZONE, BETA_REGION
    return ZONE, REGION


def _requirements(required: NodeSelector | None) -> list[NodeSelectorRequirement]:
    terms = (required.node_selector_terms or ()) if required is not None else ()
    return [requirement for term in terms for requirement in term.match_expressions or ()]


def _has_values(required: NodeSelector | None, key: str) -> bool:
    return any(r.key == key and r.values for r in _requirements(required))


def _with_zones(required: NodeSelector | None, key: str, zones: list[str]) -> NodeSelector:
    zone = NodeSelectorRequirement(key=key, operator="In", values=zones)
    terms = (required.node_selector_terms if required is not None else None) or [NodeSelectorTerm()]
    return NodeSelector(
        node_selector_terms=[
            msgspec.structs.replace(term, match_expressions=[*(term.match_expressions or ()), zone])
            for term in terms
        ]
    )


def _renamed(required: NodeSelector | None, names: dict[str, str]) -> NodeSelector | None:
    if required is None or not names:
        return required
    return NodeSelector(
        node_selector_terms=[
            NodeSelectorTerm(
                match_expressions=[
                    msgspec.structs.replace(r, key=names.get(r.key, r.key))
                    for r in term.match_expressions or ()
                ],
                match_fields=term.match_fields,
            )
            for term in required.node_selector_terms or ()
        ]
    )
