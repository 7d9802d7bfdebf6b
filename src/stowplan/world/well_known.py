"""Words that everybody has, so that they give nothing away: keys, resources, drivers, namespaces.

Scheduling reads many of them by name; `anonymise` leaves all of them as they are.
"""

from __future__ import annotations

_TAINTS = (
    "not-ready", "unreachable", "unschedulable", "memory-pressure", "disk-pressure",
    "pid-pressure", "network-unavailable", "out-of-service",
)  # fmt: skip

TEXTS = frozenset(
    {
        "default", "kube-system", "kube-public", "kube-node-lease", "default-scheduler",
        "system-cluster-critical", "system-node-critical", "metadata.name",
        "cpu", "memory", "ephemeral-storage", "storage", "pods", "true", "false",
        "linux", "windows", "amd64", "arm64",
        "topology.kubernetes.io/zone", "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region",
        "kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch",
        "beta.kubernetes.io/os", "beta.kubernetes.io/arch",
        "node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type",
        "node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master",
        "kubernetes.io/metadata.name", "kubernetes.io/config.mirror",
        "pod-template-hash", "controller-revision-hash", "statefulset.kubernetes.io/pod-name",
        "apps.kubernetes.io/pod-index", "batch.kubernetes.io/job-completion-index",
        "storage.alpha.kubernetes.io/migrated-plugins", "volume.kubernetes.io/selected-node",
        "volume.beta.kubernetes.io/storage-class", "volume.kubernetes.io/storage-provisioner",
        "pv.kubernetes.io/bound-by-controller", "pv.kubernetes.io/bind-completed",
        "resource.kubernetes.io/extended-resource-claim",
        "resource.kubernetes.io/delete-protection", "resource.kubernetes.io/pod-claim-name",
        "resource.kubernetes.io/admin-access", "resource.kubernetes.io",
        "resource.kubernetes.io/pcieRoot",
        "resource.kubernetes.io/pciBusID", "kubernetes.io/no-provisioner",
        "kubernetes.io/aws-ebs", "kubernetes.io/gce-pd", "kubernetes.io/cinder",
        "kubernetes.io/azure-disk", "kubernetes.io/azure-file", "kubernetes.io/vsphere-volume",
        "kubernetes.io/portworx-volume", "kubernetes.io/rbd",
        "ebs.csi.aws.com", "pd.csi.storage.gke.io", "cinder.csi.openstack.org",
        "disk.csi.azure.com", "file.csi.azure.com", "csi.vsphere.vmware.com", "pxd.portworx.com",
        "topology.gke.io/zone", "topology.ebs.csi.aws.com/zone",
        "topology.cinder.csi.openstack.org/zone", "topology.disk.csi.azure.com/zone",
        "attachable-volumes-aws-ebs", "attachable-volumes-gce-pd",
        "attachable-volumes-azure-disk", "attachable-volumes-cinder",
        *(f"node.kubernetes.io/{name}" for name in _TAINTS),
    }
)  # fmt: skip

WORDS = frozenset({"latest", "sha256", "docker", "io", "com", "org", "library"})
"""Parts of names: of images, whose `latest` may be left out, and of domains."""

PREFIXES = (
    "attachable-volumes-csi-",
    "deviceclass.resource.kubernetes.io/",
    "node-role.kubernetes.io/",
    "node.kubernetes.io/",
    "topology.kubernetes.io/",
    "resource.kubernetes.io/",
    "kubernetes.io/",
)
"""What such a name begins with stays, the rest does not."""

TEXT_PREFIXES = ("hugepages-",)
"""Such a name is known whatever comes then: it is a size."""

ANNOTATIONS = frozenset(
    {
        "storage.alpha.kubernetes.io/migrated-plugins",
        "volume.kubernetes.io/selected-node",
        "volume.beta.kubernetes.io/storage-class",
        "volume.kubernetes.io/storage-provisioner",
        "pv.kubernetes.io/bound-by-controller",
        "pv.kubernetes.io/bind-completed",
        "resource.kubernetes.io/extended-resource-claim",
        "resource.kubernetes.io/pod-claim-name",
        "kubernetes.io/config.mirror",
    }
)
"""Those whose values speak of other objects."""

CONDITIONS = frozenset(
    {
        "Ready", "PodScheduled", "Initialized", "ContainersReady", "DisruptionTarget",
        "PodReadyToStartContainers", "MemoryPressure", "DiskPressure", "PIDPressure",
        "NetworkUnavailable", "Available", "Progressing", "Complete", "Failed",
    }
)  # fmt: skip
