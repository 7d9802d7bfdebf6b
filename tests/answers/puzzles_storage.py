"""Puzzles about claims, volumes, classes and devices."""

from __future__ import annotations

from tests.answers.building import ZONE, Puzzle, claim, node, pod, storage_class, uses, volume

LOCAL = storage_class("local", provisioner="kubernetes.io/no-provisioner")


def tied(zone: str) -> dict:
    expression = {"key": ZONE, "operator": "In", "values": [zone]}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


TIE = "/spec/nodeAffinity/required/nodeSelectorTerms"


def reserved(name: str) -> dict:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": "default",
        "name": name,
    }


VOLUMES = [
    Puzzle(
        "a misspelt claim",
        [
            node("a"),
            storage_class("fast"),
            claim("database", storageClassName="fast"),
            pod(volumes=uses("databse")),
        ],
        [("Pod", "p", {"/spec/volumes/0/persistentVolumeClaim/claimName": "database"})],
        covers="VolumeBinding",
    ),
    Puzzle(
        "a claim that is not there",
        [node("a"), storage_class("fast"), pod(volumes=uses("data"))],
        create=["PersistentVolumeClaim"],
        covers="VolumeBinding",
    ),
    Puzzle(
        "a misspelt class",
        [
            node("a"),
            storage_class("fast"),
            claim(storageClassName="fsat"),
            pod(volumes=uses("data")),
        ],
        [("PersistentVolumeClaim", "data", {"/spec/storageClassName": "fast"})],
        covers="VolumeBinding",
    ),
    Puzzle(
        "a class that is waited for in vain",
        [node("a"), LOCAL, claim(storageClassName="local"), pod(volumes=uses("data"))],
        create=["PersistentVolume"],
        covers="VolumeBinding",
    ),
    Puzzle(
        "an unbound claim beside a volume that would do",
        [
            node("a"),
            storage_class("slow", wait=False, provisioner="kubernetes.io/no-provisioner"),
            claim(storageClassName="slow"),
            volume("pv-1", storageClassName="slow"),
            pod(volumes=uses("data")),
        ],
        [
            (
                "PersistentVolumeClaim",
                "data",
                {
                    "/metadata/annotations/pv.kubernetes.io~1bind-completed": "yes",
                    "/spec/volumeName": "pv-1",
                },
            )
        ],
        covers="VolumeBinding",
    ),
    Puzzle(
        "an unbound claim of a class that binds at once",
        [
            node("a"),
            storage_class("fast", wait=False),
            claim(storageClassName="fast"),
            pod(volumes=uses("data")),
        ],
        [
            (
                "PersistentVolumeClaim",
                "data",
                {
                    "/metadata/annotations/pv.kubernetes.io~1bind-completed": "yes",
                    "/spec/volumeName": "data-volume",
                },
            )
        ],
        create=["PersistentVolume"],
        covers="VolumeBinding",
    ),
    Puzzle(
        "a misspelt class of a claim that comes with the pod",
        [
            node("a"),
            storage_class("fast"),
            pod(
                volumes=[
                    {
                        "name": "v",
                        "ephemeral": {
                            "volumeClaimTemplate": {
                                "spec": {
                                    "accessModes": ["ReadWriteOnce"],
                                    "storageClassName": "fsat",
                                    "resources": {"requests": {"storage": "1Gi"}},
                                }
                            }
                        },
                    }
                ]
            ),
        ],
        [
            (
                "Pod",
                "p",
                {
                    "/spec/volumes/0/ephemeral/volumeClaimTemplate/spec/storageClassName": "fast",
                },
            )
        ],
        covers="VolumeBinding",
    ),
    Puzzle(
        "a claim larger than the volume",
        [
            node("a"),
            LOCAL,
            claim(size="10Gi", storageClassName="local"),
            volume("pv-1", "8Gi", storageClassName="local"),
            pod(volumes=uses("data")),
        ],
        [("PersistentVolumeClaim", "data", {"/spec/resources/requests/storage": "8Gi"})],
        covers="VolumeBinding",
    ),
    Puzzle(
        "a volume in a misspelt zone",
        [
            node("a", zone="eu-west-1a"),
            volume("pv-1", nodeAffinity=tied("eu-wets-1a"), claimRef=reserved("data")),
            claim(volumeName="pv-1", storageClassName=""),
            pod(volumes=uses("data")),
        ],
        [
            (
                "PersistentVolume",
                "pv-1",
                {
                    f"{TIE}/0/matchExpressions/0/values/0": "eu-west-1a",
                },
            )
        ],
        covers="VolumeBinding",
    ),
    Puzzle(
        "a claim bound to a misspelt volume",
        [
            node("a"),
            volume("pv-data", claimRef=reserved("data")),
            claim(volumeName="pv-dta", storageClassName=""),
            pod(volumes=uses("data")),
        ],
        [("PersistentVolumeClaim", "data", {"/spec/volumeName": "pv-data"})],
        covers="VolumeBinding",
    ),
    Puzzle(
        "a volume whose zone's node is full",
        [
            node("a", zone="za"),
            node("b", zone="zb"),
            pod("old", "3500m", on="a"),
            volume("pv-1", nodeAffinity=tied("za"), claimRef=reserved("data")),
            claim(volumeName="pv-1", storageClassName=""),
            pod(volumes=uses("data")),
        ],
        [("Pod", "p", {"/spec/containers/0/resources/requests/cpu": "500m"})],
        covers="VolumeBinding NodeResourcesFit",
    ),
    Puzzle(
        "a volume with a misspelt zone label",
        [
            node("a", zone="eu-west-1a"),
            volume("pv-1", labels={ZONE: "eu-west-1aa"}, claimRef=reserved("data")),
            claim(volumeName="pv-1", storageClassName=""),
            pod(volumes=uses("data")),
        ],
        [
            (
                "PersistentVolume",
                "pv-1",
                {"/metadata/labels/topology.kubernetes.io~1zone": "eu-west-1a"},
            )
        ],
        covers="VolumeZone",
    ),
    Puzzle(
        "a class that allows no zone that there is",
        [
            node("a", zone="zone-a"),
            storage_class(
                "fast",
                allowedTopologies=[
                    {"matchLabelExpressions": [{"key": ZONE, "values": ["zone-b"]}]}
                ],
            ),
            claim(storageClassName="fast"),
            pod(volumes=uses("data")),
        ],
        [
            (
                "StorageClass",
                "fast",
                {"/allowedTopologies/0/matchLabelExpressions/0/values/0": "zone-a"},
            )
        ],
        covers="VolumeBinding",
    ),
    Puzzle(
        "a claim that one pod at a time may use",
        [
            node("a"),
            volume("pv-1", claimRef=reserved("data")),
            claim(mode="ReadWriteOncePod", volumeName="pv-1", storageClassName=""),
            pod("holder", on="a", volumes=uses("data")),
            pod(volumes=uses("data")),
        ],
        delete=["holder"],
        covers="VolumeRestrictions",
    ),
    Puzzle(
        "a disk that is mounted already",
        [
            node("a"),
            pod(
                "old",
                on="a",
                volumes=[{"name": "v", "gcePersistentDisk": {"pdName": "d", "readOnly": True}}],
            ),
            pod(volumes=[{"name": "v", "gcePersistentDisk": {"pdName": "d"}}]),
        ],
        [("Pod", "p", {"/spec/volumes/0/gcePersistentDisk/readOnly": True})],
        covers="VolumeRestrictions",
    ),
    Puzzle(
        "more volumes than a node takes: another node",
        [
            node("a"),
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "CSINode",
                "metadata": {"name": "a"},
                "spec": {
                    "drivers": [
                        {"name": "disk.example", "nodeID": "a", "allocatable": {"count": 1}}
                    ]
                },
            },
            *(
                volume(
                    f"pv-{n}",
                    csi={"driver": "disk.example", "volumeHandle": f"h{n}"},
                    claimRef=reserved(f"data{n}"),
                )
                for n in (1, 2)
            ),
            *(claim(f"data{n}", volumeName=f"pv-{n}", storageClassName="") for n in (1, 2)),
            pod("old", on="a", volumes=uses("data1")),
            pod(volumes=uses("data2")),
        ],
        create=["Node", "CSINode"],
        covers="NodeVolumeLimits",
    ),
]


def device_class(name: str = "gpu") -> dict:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": 'device.driver == "gpu.example"'}}]},
    }


def resource_slice(count: int, on: str = "a") -> dict:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"slice-{on}"},
        "spec": {
            "driver": "gpu.example",
            "nodeName": on,
            "pool": {"name": on, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"gpu-{n}"} for n in range(count)],
        },
    }


def resource_claim(name: str = "gpus", count: int = 1, of: str = "gpu", **exactly: object) -> dict:
    request = {"deviceClassName": of, "allocationMode": "ExactCount", "count": count, **exactly}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": request}]}},
    }


def claiming(name: str = "gpus") -> dict:
    return pod(resourceClaims=[{"name": "devices", "resourceClaimName": name}])


REQUEST = "/spec/devices/requests/0/exactly"

DEVICES = [
    Puzzle(
        "more devices than there are",
        [node("a"), device_class(), resource_slice(2), resource_claim(count=3), claiming()],
        [("ResourceClaim", "gpus", {f"{REQUEST}/count": 2})],
        covers="DynamicResources",
    ),
    Puzzle(
        "a misspelt device class",
        [node("a"), device_class(), resource_slice(2), resource_claim(of="gpuu"), claiming()],
        [("ResourceClaim", "gpus", {f"{REQUEST}/deviceClassName": "gpu"})],
        covers="DynamicResources",
    ),
    Puzzle(
        "a misspelt device claim",
        [node("a"), device_class(), resource_slice(2), resource_claim("gpus"), claiming("gpsu")],
        [("Pod", "p", {"/spec/resourceClaims/0/resourceClaimName": "gpus"})],
        covers="DynamicResources",
    ),
    Puzzle(
        "a selector that no device meets",
        [
            node("a"),
            device_class(),
            resource_slice(2),
            resource_claim(selectors=[{"cel": {"expression": 'device.driver == "other"'}}]),
            claiming(),
        ],
        [("ResourceClaim", "gpus", {f"{REQUEST}/selectors": None})],
        covers="DynamicResources",
    ),
]

PUZZLES = [*VOLUMES, *DEVICES]
