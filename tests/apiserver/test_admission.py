"""What a kube-apiserver fills in, and what it refuses because of other objects."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from stowplan.apiserver.defaults import default_spec, qos_class
from stowplan.apiserver.retention import EVENT_LIFE_S
from stowplan.apiserver.store import Store
from stowplan.clock import VirtualClock
from stowplan.errors import Forbidden, Invalid
from stowplan.objects.base import Condition, LabelSelector, LabelSelectorRequirement, ObjectMeta
from stowplan.objects.kinds import (
    CSI_DRIVER,
    DAEMON_SET,
    DEPLOYMENT,
    EVENT,
    NAMESPACE,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_DISRUPTION_BUDGET,
    PRIORITY_CLASS,
    REPLICA_SET,
    RUNTIME_CLASS,
    SERVICE,
    STATEFUL_SET,
    STORAGE_CLASS,
    Kind,
)
from stowplan.objects.pod import (
    Affinity,
    Container,
    ContainerPort,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    ResourceRequirements,
    Toleration,
    TopologySpreadConstraint,
)
from tests.apiserver.things import (
    create,
    create_pod,
    data,
    delete,
    gate,
    get_pod,
    make_pod,
    names,
    new_store,
    pod_data,
    pod_spec,
)


def with_resources(**resources: Any) -> PodSpec:
    container = Container(name="c", image="i", resources=ResourceRequirements(**resources))
    return PodSpec(containers=[container])


def test_a_pod_gets_its_defaults() -> None:
    spec = create_pod(new_store()).spec

    assert spec.scheduler_name == "default-scheduler"
    assert spec.restart_policy == "Always"
    assert spec.termination_grace_period_seconds == 30
    assert spec.priority == 0
    assert spec.preemption_policy == "PreemptLowerPriority"
    assert [
        (t.key, t.operator, t.effect, t.toleration_seconds) for t in spec.tolerations or ()
    ] == [
        ("node.kubernetes.io/not-ready", "Exists", "NoExecute", 300),
        ("node.kubernetes.io/unreachable", "Exists", "NoExecute", 300),
    ]


def test_and_over_the_api_also_those_that_only_clients_see() -> None:
    store = new_store()
    create_pod(store)

    spec = data(store, POD, "p")["spec"]

    assert spec["dnsPolicy"] == "ClusterFirst"
    assert spec["enableServiceLinks"] is True
    assert spec["securityContext"] == {}
    assert spec["containers"] == [
        {
            "name": "c",
            "image": "app:1",
            "imagePullPolicy": "IfNotPresent",
            "resources": {},
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
        }
    ]


def test_a_spec_with_all_its_defaults_comes_back_as_it_is() -> None:
    once = default_spec(pod_spec())

    assert default_spec(once) is once


@pytest.mark.parametrize(
    ("toleration", "added"),
    [
        (Toleration(key="a", operator="Exists"), 2),
        (Toleration(operator="Exists"), 0),
        (Toleration(operator="Exists", effect="NoSchedule"), 2),
        (Toleration(key="node.kubernetes.io/not-ready", operator="Exists", effect="NoExecute"), 1),
    ],
)
def test_a_pod_that_says_how_long_it_stays_is_taken_at_its_word(
    toleration: Toleration, added: int
) -> None:
    spec = create_pod(new_store(), tolerations=[toleration]).spec

    assert len(spec.tolerations or ()) == 1 + added


def test_requests_default_to_limits() -> None:
    spec = default_spec(with_resources(limits={"cpu": "2", "memory": "1Gi"}, requests={"cpu": "1"}))

    (container,) = spec.containers or []
    assert container.resources is not None
    assert container.resources.requests == {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("container", "requests"),
    [({"cpu": "300m"}, {"cpu": "300m", "memory": "1Gi"}), ({}, {"cpu": "2", "memory": "1Gi"})],
)
def test_a_pod_with_limits_as_a_whole_requests_what_its_containers_do(
    container: Any, requests: Any
) -> None:
    limits = ResourceRequirements(limits={"cpu": "2", "memory": "1Gi"})

    spec = default_spec(replace(with_resources(requests=container), resources=limits))

    assert spec.resources is not None
    assert spec.resources.requests == requests


def test_on_the_network_of_the_host_a_port_is_a_port_of_the_host() -> None:
    container = Container(name="c", image="i", ports=[ContainerPort(container_port=80)])

    near = default_spec(PodSpec(containers=[container]))
    host = default_spec(PodSpec(containers=[container], host_network=True))

    assert near.containers is not None
    assert near.containers[0].ports == [ContainerPort(container_port=80, protocol="TCP")]
    assert host.containers is not None
    assert host.containers[0].ports == [
        ContainerPort(container_port=80, host_port=80, protocol="TCP")
    ]


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, "BestEffort"),
        ({"requests": {"nvidia.com/gpu": "1"}}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}, "Burstable"),
    ],
)
def test_quality_of_service(resources: Any, expected: str) -> None:
    assert qos_class(default_spec(with_resources(**resources))) == expected


SIZES: list[dict[str, Any]] = [
    {"requests": {"cpu": "2", "memory": "3Gi"}},
    {"limits": {"cpu": "2"}, "requests": {"memory": "3Gi"}},
    {"limits": {"nvidia.com/gpu": "2"}},
    {"requests": {"cpu": "-1"}},
    {"requests": {"cpu": "-1", "memory": "lots"}},
    {"limits": {"cpu": "1"}, "requests": {"cpu": "1100m"}},
    {"limits": {"nvidia.com/gpu": "2"}, "requests": {"nvidia.com/gpu": "1"}},
    {"limits": {"nvidia.com/gpu": "1500m"}},
    {"requests": {"hugepages-2Mi": "4Mi"}},
    {"requests": {"bananas": "1"}},
]


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("init", [False, True])
@pytest.mark.parametrize("pod_level", [False, True])
def test_a_spec_of_a_known_form_is_filled_in_and_refused_as_the_first_one(
    size: dict[str, Any], init: bool, pod_level: bool
) -> None:
    """What containers ask for is looked at in each spec, whatever was admitted before it."""

    def spec(**resources: Any) -> PodSpec:
        port = ContainerPort(container_port=80)
        asked = ResourceRequirements(**resources)
        sized = Container(name="c", image="i", ports=[port], resources=asked)
        plain = Container(name="d", image="i")
        whole = ResourceRequirements(limits={"cpu": "100"}) if pod_level else None
        if init:
            return PodSpec(containers=[plain], init_containers=[sized], resources=whole)
        return PodSpec(containers=[sized, plain], resources=whole)

    def outcome(store: Store) -> PodSpec | str:
        try:
            pod = Pod(metadata=ObjectMeta(name="p"), spec=spec(**size))
            made: Pod = create(store, POD, pod)
            return made.spec
        except Invalid as error:
            return error.message

    store = new_store()
    create(store, POD, Pod(metadata=ObjectMeta(name="a"), spec=spec(requests={"cpu": "1"})))

    assert outcome(store) == outcome(new_store())


def test_amounts_that_admission_reads_are_refused_like_all_others() -> None:
    store = new_store()
    overhead = {"podFixed": {"cpu": "1"}}
    kata = {"metadata": {"name": "kata"}, "handler": "kata", "overhead": overhead}
    create(store, RUNTIME_CLASS, kata)

    with pytest.raises(Invalid, match=r"spec.overhead\[cpu\]: Invalid value: \"lots\""):
        create_pod(store, runtime_class_name="kata", overhead={"cpu": "lots"})


def test_a_class_that_changes_counts_for_known_forms_too() -> None:
    def priority(name: str, cpu: str) -> int | None:
        spec = with_resources(requests={"cpu": cpu})
        made: Pod = create(store, POD, Pod(metadata=ObjectMeta(name=name), spec=spec))
        return made.spec.priority

    store = new_store()
    before = priority("a", "1")
    create(store, PRIORITY_CLASS, {"metadata": {"name": "std"}, "value": 7, "globalDefault": True})

    assert (before, priority("b", "2")) == (0, 7)


def test_a_priority_class_becomes_a_number() -> None:
    store = new_store()
    body = {"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"}
    create(store, PRIORITY_CLASS, body)

    high = create_pod(store, "high", priority_class_name="high").spec
    critical = create_pod(store, "node", priority_class_name="system-node-critical").spec

    assert (high.priority, high.preemption_policy) == (1000, "Never")
    assert critical.priority == 2_000_001_000


def test_the_default_class_applies_to_pods_that_name_none_from_then_on() -> None:
    store = new_store()
    before = create_pod(store, "a").spec
    create(store, PRIORITY_CLASS, {"metadata": {"name": "std"}, "value": 7, "globalDefault": True})
    after = create_pod(store, "b").spec
    delete(store, PRIORITY_CLASS, "std")
    later = create_pod(store, "c").spec

    assert (before.priority, after.priority, later.priority) == (0, 7, 0)
    assert after.priority_class_name == "std"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param(
            {"priority_class_name": "nope"},
            'pods "p" is forbidden: no PriorityClass with name nope was found',
            id="unknown-class",
        ),
        pytest.param(
            {"priority": 5},
            "the integer value of priority (5) must not be provided in pod spec; priority "
            "admission controller computed 0 from the given PriorityClass name",
            id="number",
        ),
        pytest.param(
            {"preemption_policy": "Never"},
            "the string value of PreemptionPolicy (Never) must not be provided",
            id="policy",
        ),
        pytest.param(
            {"runtime_class_name": "nope"},
            'pod rejected: RuntimeClass "nope" not found',
            id="unknown-runtime",
        ),
        pytest.param(
            {"overhead": {"cpu": "1"}},
            "Pod Overhead set without corresponding RuntimeClass defined Overhead",
            id="overhead-of-nobody",
        ),
        pytest.param(
            {"runtime_class_name": "kata", "overhead": {"cpu": "1"}},
            "Pod's Overhead doesn't match RuntimeClass's defined Overhead",
            id="other-overhead",
        ),
        pytest.param(
            {"runtime_class_name": "kata", "node_selector": {"kata": "no"}},
            "conflict: runtimeClass.scheduling.nodeSelector[kata] = yes; "
            "pod.spec.nodeSelector[kata] = no",
            id="other-selector",
        ),
    ],
)
def test_a_pod_may_not_decide_what_a_class_decides(spec: Any, message: str) -> None:
    store = new_store()
    create(store, RUNTIME_CLASS, KATA)

    with pytest.raises(Forbidden) as raised:
        create_pod(store, **spec)

    assert message in raised.value.message


KATA = {
    "metadata": {"name": "kata"},
    "handler": "kata",
    "overhead": {"podFixed": {"cpu": "250m"}},
    "scheduling": {
        "nodeSelector": {"kata": "yes"},
        "tolerations": [{"key": "kata", "operator": "Exists"}],
    },
}


def test_a_runtime_class_brings_its_overhead_and_its_nodes() -> None:
    store = new_store()
    create(store, RUNTIME_CLASS, KATA)

    spec = create_pod(store, runtime_class_name="kata", node_selector={"a": "b"}).spec

    assert spec.overhead == {"cpu": "250m"}
    assert spec.node_selector == {"a": "b", "kata": "yes"}
    assert Toleration(key="kata", operator="Exists") in (spec.tolerations or ())


def test_a_gated_pod_says_why_it_waits() -> None:
    pod = create_pod(new_store(), scheduling_gates=[gate("example.com/quota")])

    assert pod.status.conditions == [
        Condition(
            type="PodScheduled",
            status="False",
            reason="SchedulingGated",
            message="Scheduling is blocked due to non-empty scheduling gates",
        )
    ]


def test_label_keys_are_folded_into_selectors() -> None:
    selector = LabelSelector(match_labels={"app": "web"})
    term = PodAffinityTerm(
        label_selector=selector,
        topology_key="zone",
        match_label_keys=["hash", "missing"],
        mismatch_label_keys=["tenant"],
    )
    spread = TopologySpreadConstraint(
        max_skew=1,
        topology_key="zone",
        when_unsatisfiable="DoNotSchedule",
        label_selector=selector,
        match_label_keys=["hash"],
    )
    store = new_store()

    def spec_of(name: str, **labels: str) -> PodSpec:
        return create_pod(
            store,
            name,
            labels=labels,
            affinity=Affinity(pod_anti_affinity=PodAffinity(required=[term])),
            topology_spread_constraints=[spread],
        ).spec

    spec, other = spec_of("p", hash="1", tenant="t"), spec_of("q", hash="2")

    def expression(key: str, operator: str, value: str) -> LabelSelectorRequirement:
        return LabelSelectorRequirement(key=key, operator=operator, values=[value])

    folded = spec.affinity.pod_anti_affinity.required[0]  # type: ignore[union-attr, index]
    assert folded.label_selector == LabelSelector(
        match_labels={"app": "web"},
        match_expressions=[expression("hash", "In", "1"), expression("tenant", "NotIn", "t")],
    )
    for found, value in ((spec, "1"), (other, "2")):
        assert found.topology_spread_constraints is not None
        assert found.topology_spread_constraints[0].label_selector == LabelSelector(
            match_labels={"app": "web"}, match_expressions=[expression("hash", "In", value)]
        )


def test_a_constraint_with_label_keys_needs_a_selector() -> None:
    spread = TopologySpreadConstraint(
        max_skew=1,
        topology_key="zone",
        when_unsatisfiable="DoNotSchedule",
        match_label_keys=["hash"],
    )

    with pytest.raises(Invalid, match="must not be specified when labelSelector is not set"):
        create_pod(new_store(), labels={"hash": "1"}, topology_spread_constraints=[spread])


def test_a_claim_gets_the_default_storage_class() -> None:
    store = new_store()
    key = "storageclass.kubernetes.io/is-default-class"
    marked = {"metadata": {"name": "fast", "annotations": {key: "true"}}, "provisioner": "x"}
    create(store, STORAGE_CLASS, marked)
    create(store, STORAGE_CLASS, {"metadata": {"name": "slow"}, "provisioner": "x"})

    claims = {
        name: create(store, PERSISTENT_VOLUME_CLAIM, claim(name, **spec))
        for name, spec in {
            "unsaid": {},
            "named": {"storageClassName": "slow"},
            "none": {"storageClassName": ""},
        }.items()
    }

    found = {name: made.spec.storage_class_name for name, made in claims.items()}
    assert found == {"unsaid": "fast", "named": "slow", "none": ""}
    assert claims["unsaid"].status.phase == "Pending"


def claim(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            **spec,
        },
    }


WORKLOAD = {
    "selector": {"matchLabels": {"a": "b"}},
    "template": {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    },
}


VOLUME = {
    "capacity": {"storage": "1Gi"},
    "accessModes": ["ReadWriteOnce"],
    "hostPath": {"path": "/x"},
}


@pytest.mark.parametrize(
    ("kind", "body", "path", "value"),
    [
        (DEPLOYMENT, {"spec": WORKLOAD}, "spec.replicas", 1),
        (DEPLOYMENT, {"spec": WORKLOAD}, "spec.strategy.rollingUpdate.maxSurge", "25%"),
        (DEPLOYMENT, {"spec": WORKLOAD}, "spec.template.spec.restartPolicy", "Always"),
        (REPLICA_SET, {"spec": WORKLOAD}, "spec.replicas", 1),
        (STATEFUL_SET, {"spec": WORKLOAD}, "spec.podManagementPolicy", "OrderedReady"),
        (DAEMON_SET, {"spec": WORKLOAD}, "spec.updateStrategy.rollingUpdate.maxUnavailable", 1),
        (SERVICE, {"spec": {"ports": [{"port": 80}]}}, "spec.type", "ClusterIP"),
        (PERSISTENT_VOLUME, {"spec": VOLUME}, "spec.persistentVolumeReclaimPolicy", "Retain"),
        (PERSISTENT_VOLUME, {"spec": VOLUME}, "spec.volumeMode", "Filesystem"),
        (PERSISTENT_VOLUME, {"spec": VOLUME}, "status.phase", "Pending"),
        (STORAGE_CLASS, {"provisioner": "x"}, "volumeBindingMode", "Immediate"),
        (STORAGE_CLASS, {"provisioner": "x"}, "reclaimPolicy", "Delete"),
        (PRIORITY_CLASS, {}, "preemptionPolicy", "PreemptLowerPriority"),
        (PRIORITY_CLASS, {}, "value", 0),
        (CSI_DRIVER, {"spec": {}}, "spec.attachRequired", True),
        (NAMESPACE, {}, "status.phase", "Active"),
    ],
)
def test_other_kinds_have_defaults_too(kind: Kind, body: Any, path: str, value: Any) -> None:
    store = new_store()

    create(store, kind, {"metadata": {"name": "x"}, **body})

    found: Any = data(store, kind, "x")
    for part in path.split("."):
        found = found[part]
    assert found == value


NODE_TERM = (
    "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
)


@pytest.mark.parametrize(
    ("spec", "field", "text"),
    [
        ({"containers": []}, "spec.containers", "Required value"),
        ({"containers": [{"name": "c"}]}, "spec.containers[0].image", "Required value"),
        ({"containers": [{"image": "i"}]}, "spec.containers[0].name", "Required value"),
        (
            {"initContainers": [{"name": "c", "image": "i"}]},
            "spec.initContainers[0].name",
            'Duplicate value: "c"',
        ),
        ({"restartPolicy": "Maybe"}, "spec.restartPolicy", 'Unsupported value: "Maybe"'),
        (
            {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "-1"}}}]},
            "spec.containers[0].resources.requests[cpu]",
            "must be greater than or equal to 0",
        ),
        (
            {
                "containers": [
                    {
                        "name": "c",
                        "image": "i",
                        "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}},
                    }
                ]
            },
            "spec.containers[0].resources.requests",
            "must be less than or equal to cpu limit of 1",
        ),
        (
            {
                "containers": [
                    {"name": "c", "image": "i", "resources": {"requests": {"a.b/gpu": "1"}}}
                ]
            },
            "spec.containers[0].resources.limits",
            "Limit must be set for non overcommitable resources",
        ),
        (
            {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 0}]}]},
            "spec.containers[0].ports[0].containerPort",
            "must be between 1 and 65535",
        ),
        ({"nodeSelector": {"a b": "c"}}, "spec.nodeSelector", "Invalid value"),
        ({"tolerations": [{"value": "x"}]}, "spec.tolerations[0].operator", "must be Exists when"),
        (
            {"tolerations": [{"key": "a", "operator": "Like"}]},
            "spec.tolerations[0].operator",
            'Unsupported value: "Like": supported values: "Equal", "Exists"',
        ),
        (
            {"tolerations": [{"key": "a", "operator": "Exists", "value": "v"}]},
            "spec.tolerations[0].operator",
            "value must be empty when `operator` is 'Exists'",
        ),
        (
            {"tolerations": [{"key": "a", "operator": "Exists", "tolerationSeconds": 5}]},
            "spec.tolerations[0].effect",
            "effect must be 'NoExecute' when `tolerationSeconds` is set",
        ),
        (
            {"nodeName": "n", "schedulingGates": [{"name": "g"}]},
            "spec.nodeName",
            "cannot be set until all schedulingGates have been cleared",
        ),
        (
            {"schedulingGates": [{"name": "g"}, {"name": "g"}]},
            "spec.schedulingGates[1]",
            "Duplicate value",
        ),
        (
            {"topologySpreadConstraints": [{"topologyKey": "z", "whenUnsatisfiable": "x"}]},
            "spec.topologySpreadConstraints[0].maxSkew",
            "must be greater than zero",
        ),
        (
            {
                "affinity": {
                    "podAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": ""}]
                    }
                }
            },
            "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey",
            "can not be empty",
        ),
        (
            {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "a", "operator": "Gt"}]}
                            ]
                        }
                    }
                }
            },
            f"{NODE_TERM}.matchExpressions[0].values",
            "must be specified single value when `operator` is 'Lt' or 'Gt'",
        ),
        ({"volumes": [{"name": "v"}, {"name": "v"}]}, "spec.volumes[1].name", "Duplicate value"),
    ],
)
def test_an_invalid_pod_is_refused_with_its_causes(spec: Any, field: str, text: str) -> None:
    with pytest.raises(Invalid) as raised:
        create(new_store(), POD, pod_data(**spec))

    assert raised.value.code == 422
    assert raised.value.message.startswith('Pod "p" is invalid: ')
    causes = raised.value.causes  # type: ignore[attr-defined]
    assert any(cause.field == field and text in cause.detail for cause in causes), causes


@pytest.mark.parametrize(
    ("kind", "body", "text"),
    [
        (NODE, {"spec": {"taints": [{"key": "a", "effect": "x"}]}}, 'Unsupported value: "x"'),
        (
            NODE,
            {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}] * 2}},
            "Duplicate value",
        ),
        (NODE, {"status": {"capacity": {"cpu": "-1"}}}, "status.capacity.cpu"),
        (PERSISTENT_VOLUME_CLAIM, {"spec": {}}, "at least 1 access mode is required"),
        (
            POD_DISRUPTION_BUDGET,
            {"spec": {"minAvailable": 1, "maxUnavailable": 1}},
            "minAvailable and maxUnavailable cannot be both set",
        ),
        (PRIORITY_CLASS, {"value": 2_000_000_000}, "maximum allowed value"),
        (DEPLOYMENT, {"spec": {"template": WORKLOAD["template"]}}, "spec.selector: Required value"),
        (DAEMON_SET, {"spec": {"template": WORKLOAD["template"]}}, "spec.selector: Required value"),
        (
            DEPLOYMENT,
            {"spec": {**WORKLOAD, "selector": {"matchLabels": {"a": "other"}}}},
            "`selector` does not match template `labels`",
        ),
    ],
)
def test_other_kinds_are_checked_too(kind: Kind, body: Any, text: str) -> None:
    with pytest.raises(Invalid) as raised:
        create(new_store(), kind, {"metadata": {"name": "x"}, **body})

    assert text in raised.value.message


def test_only_one_priority_class_is_the_default() -> None:
    store = new_store()
    create(store, PRIORITY_CLASS, {"metadata": {"name": "a"}, "value": 1, "globalDefault": True})

    with pytest.raises(Forbidden, match="Only one default can exist"):
        create(
            store, PRIORITY_CLASS, {"metadata": {"name": "b"}, "value": 2, "globalDefault": True}
        )


def test_an_object_may_be_stored_as_it_is() -> None:
    store = new_store()
    pod = make_pod("p", priority=42, overhead={"cpu": "1"}, node_name="n")
    pod = replace(pod, status=replace(pod.status, phase="Running"))

    store.put(pod)
    store.put(replace(pod, status=replace(pod.status, phase="Failed")))

    stored = get_pod(store)
    assert (stored.spec.priority, stored.status.phase) == (42, "Failed")
    assert stored.uid


def test_old_events_make_room_for_new_ones() -> None:
    clock = VirtualClock(0.0)
    store = Store(clock)
    create(store, EVENT, {"metadata": {"name": "old"}})
    clock.advance(EVENT_LIFE_S)
    create(store, EVENT, {"metadata": {"name": "new"}})

    assert names(store, EVENT) == ["new"]
