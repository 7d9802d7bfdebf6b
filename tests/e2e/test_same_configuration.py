"""One configuration, two readers: a stock kube-scheduler and ours make the same of it.

Both are told to write it in full.  What is valid must come out the same, byte by byte; what is not
must be refused in the same words.
"""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import time
from pathlib import Path

import pytest
import yaml

from stowplan.config import parse_feature_gates, to_yaml
from stowplan.errors import ConfigError
from stowplan.runtime.certs import self_signed
from stowplan.runtime.run_options import RunOptions
from tests.config.builders import FULL, YAML_HEAD
from tests.e2e.build_control_plane import MissingControlPlane, find

KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: nowhere, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: nowhere, context: {cluster: nowhere}}]
current-context: nowhere
"""

TOP = """
{}
parallelism: 0
parallelism: 4
parallelism: null
parallelism: many
percentageOfNodesToScore: 101
percentageOfNodesToScore: -1
percentageOfNodesToScore: 40
podInitialBackoffSeconds: 0
{podInitialBackoffSeconds: 5, podMaxBackoffSeconds: 3}
{podInitialBackoffSeconds: 5, podMaxBackoffSeconds: 30}
enableProfiling: false
enableContentionProfiling: false
delayCacheUntilActive: true
foo: 1
profiles: {}
{parallelism: 0, percentageOfNodesToScore: 101, profiles: [{schedulerName: a}, {schedulerName: a}]}
leaderElection: null
leaderElection: {leaderElect: 3}
leaderElection: {leaseDuration: 3}
leaderElection: {leaseDuration: soon}
leaderElection: {leaseDuration: -1s}
leaderElection: {renewDeadline: -1s}
leaderElection: {retryPeriod: -1s}
leaderElection: {leaseDuration: 5s}
leaderElection: {leaseDuration: 90s, renewDeadline: 1m0.5s}
leaderElection: {resourceLock: endpoints}
leaderElection: {resourceName: second, resourceNamespace: platform}
leaderElection: {leaderElect: false, leaseDuration: -1s, resourceLock: endpoints}
"""

PROFILES = """
[]
[{schedulerName: a}, {}]
[{schedulerName: a}, {schedulerName: a}]
[{schedulerName: a}, {schedulerName: b, percentageOfNodesToScore: 7}]
[{percentageOfNodesToScore: 101}]
[{pluginConfig: [{name: NodeAffinity, args: {}}, {name: NodeAffinity, args: {}}]}]
[{pluginConfig: [{name: Mine, args: {x: 1}}]}]
[{pluginConfig: [{name: NodeAffinity}]}]
[{pluginConfig: [{name: EBSLimits, args: {}}]}]
[{schedulerName: a, plugins: {queueSort: {enabled: [{name: PrioritySort}]}}}, \
{schedulerName: b, plugins: {queueSort: {enabled: [{name: Foo}]}}}]
"""

PLUGINS = """
{scores: {}}
{filter: {enabled: [{name: EBSLimits}]}}
{filter: {disabled: [{name: EBSLimits}]}}
{multiPoint: {enabled: [{name: EBSLimits}]}}
{multiPoint: {enabled: [{name: Foo}]}}
{multiPoint: {enabled: [{name: NodeAffinity}, {name: NodeAffinity}]}}
{multiPoint: {disabled: [{name: "*"}], \
enabled: [{name: PrioritySort}, {name: DefaultBinder}, {name: NodeResourcesFit, weight: 4}]}}
{multiPoint: {enabled: [{name: NodeAffinity}, {name: TaintToleration, weight: 9}], \
disabled: [{name: ImageLocality}, {name: Nope}]}, score: {enabled: [{name: NodeResourcesFit, \
weight: 3}], disabled: [{name: NodeAffinity}]}, filter: {disabled: [{name: "*"}]}}
{queueSort: {enabled: [{name: PrioritySort}, {name: Foo}]}}
{queueSort: {enabled: [{name: PrioritySort}], disabled: [{name: "*"}]}}
{queueSort: {disabled: [{name: "*"}]}}
{bind: {disabled: [{name: "*"}]}}
{score: {enabled: [{name: Foo}]}}
{score: {enabled: [{name: NodeName}]}}
{score: {enabled: [{name: NodeAffinity}, {name: NodeAffinity}]}}
{score: {enabled: [{name: NodeAffinity, weight: 2147483647}]}}
{score: {enabled: [{name: NodeAffinity, weight: 2147483648}]}}
{score: {enabled: [{name: NodeAffinity, weight: -5}]}}
{score: {disabled: [{name: a}, {name: a}]}}
"""

ARGS = """
DefaultPreemption {minCandidateNodesPercentage: 101}
DefaultPreemption {minCandidateNodesAbsolute: -1}
DefaultPreemption {minCandidateNodesAbsolute: 0, minCandidateNodesPercentage: 0}
DefaultPreemption {minCandidateNodesAbsolute: 7, minCandidateNodesPercentage: 70}
DefaultPreemption {foo: 0}
InterPodAffinity {hardPodAffinityWeight: 101}
InterPodAffinity {hardPodAffinityWeight: -1}
InterPodAffinity {hardPodAffinityWeight: 5, ignorePreferredTermsOfExistingPods: true}
NodeAffinity []
NodeAffinity null
NodeAffinity {kind: VolumeBindingArgs}
NodeAffinity {addedAffinity: 3}
NodeAffinity {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: \
{nodeSelectorTerms: []}}}
NodeAffinity {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: \
{nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Foo}]}]}}}
NodeAffinity {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: \
{nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In}]}, \
{matchExpressions: [{key: a, operator: Gt, values: [x]}]}]}}}
NodeAffinity {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: \
{nodeSelectorTerms: [{matchFields: [{key: foo, operator: In, values: [a]}]}]}}}
NodeAffinity {addedAffinity: {preferredDuringSchedulingIgnoredDuringExecution: \
[{weight: 1, preference: {matchExpressions: [{key: "!", operator: In, values: [x]}]}}]}}
NodeAffinity {addedAffinity: {preferredDuringSchedulingIgnoredDuringExecution: \
[{weight: 0, preference: {}}, {weight: 101, preference: {matchExpressions: \
[{key: a, operator: Exists, values: [b]}]}}]}}
NodeAffinity {apiVersion: kubescheduler.config.k8s.io/v1, kind: NodeAffinityArgs, addedAffinity: \
{requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: \
[{key: pool, operator: In, values: [a, b]}], matchFields: [{key: metadata.name, operator: NotIn, \
values: [n1]}]}]}, preferredDuringSchedulingIgnoredDuringExecution: [{weight: 3, preference: \
{matchExpressions: [{key: pool, operator: Exists}]}}]}}
NodeResourcesFit {ignoredResources: ["-x"]}
NodeResourcesFit {ignoredResourceGroups: ["a/b"]}
NodeResourcesFit {ignoredResourceGroups: ["_a"]}
NodeResourcesFit {ignoredResources: [a.b/c], ignoredResourceGroups: [x.y], \
scoringStrategy: {type: MostAllocated}}
NodeResourcesFit {scoringStrategy: {type: Foo}}
NodeResourcesFit {scoringStrategy: {resources: []}}
NodeResourcesFit {scoringStrategy: {type: LeastAllocated, resources: [{name: cpu}]}}
NodeResourcesFit {scoringStrategy: {type: LeastAllocated, resources: [{name: cpu, weight: 101}]}}
NodeResourcesFit {scoringStrategy: {type: LeastAllocated, resources: [{name: cpu, weight: -1}]}}
NodeResourcesFit {scoringStrategy: {type: LeastAllocated, requestedToCapacityRatio: {shape: []}}}
NodeResourcesFit {scoringStrategy: {type: RequestedToCapacityRatio}}
NodeResourcesFit {scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: \
{shape: []}}}
NodeResourcesFit {scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: \
{shape: [{utilization: 10, score: 1}, {utilization: 5, score: 1}]}}}
NodeResourcesFit {scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: \
{shape: [{utilization: 101, score: 11}]}}}
NodeResourcesFit {scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: \
{shape: [{utilization: -1, score: -1}]}}}
NodeResourcesFit {scoringStrategy: {type: RequestedToCapacityRatio, resources: [{name: cpu, \
weight: 3}], requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}, {utilization: 100, \
score: 10}]}}}
NodeResourcesBalancedAllocation {resources: [{name: cpu}, {name: cpu}]}
NodeResourcesBalancedAllocation {resources: [{name: cpu, weight: 2}]}
PodTopologySpread {defaultingType: Foo}
PodTopologySpread {defaultingType: List}
PodTopologySpread {defaultConstraints: [{maxSkew: 1, topologyKey: a, \
whenUnsatisfiable: ScheduleAnyway}]}
PodTopologySpread {defaultingType: List, defaultConstraints: [{maxSkew: 0, topologyKey: a, \
whenUnsatisfiable: ScheduleAnyway}]}
PodTopologySpread {defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: "", \
whenUnsatisfiable: ""}]}
PodTopologySpread {defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: "a b", \
whenUnsatisfiable: Foo}]}
PodTopologySpread {defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: a, \
whenUnsatisfiable: ScheduleAnyway, labelSelector: {}}]}
PodTopologySpread {defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: a, \
whenUnsatisfiable: ScheduleAnyway}, {maxSkew: 2, topologyKey: a, \
whenUnsatisfiable: ScheduleAnyway}]}
PodTopologySpread {defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: zone, \
whenUnsatisfiable: DoNotSchedule, minDomains: 2, nodeAffinityPolicy: Honor, \
nodeTaintsPolicy: Ignore, matchLabelKeys: [app]}]}
VolumeBinding {bindTimeoutSeconds: -1}
VolumeBinding {bindTimeoutSeconds: 0}
VolumeBinding {shape: [{utilization: 0, score: 1}]}
DynamicResources {filterTimeout: -1s}
DynamicResources {bindingTimeout: 500ms}
DynamicResources {filterTimeout: 3s, bindingTimeout: 5m}
"""

EVERY_POINT = """
preEnqueue: {enabled: [{name: SchedulingGates}], disabled: [{name: DefaultPreemption}]}
queueSort: {enabled: [{name: PrioritySort}]}
preFilter: {enabled: [{name: NodeAffinity}]}
filter: {disabled: [{name: NodeName}]}
postFilter: {disabled: [{name: "*"}]}
preScore: {enabled: [{name: NodeAffinity}]}
score: {enabled: [{name: DynamicResources, weight: 5}], disabled: [{name: ImageLocality}]}
reserve: {enabled: [{name: DynamicResources}]}
permit: {disabled: [{name: "*"}]}
preBind: {enabled: [{name: DynamicResources}]}
bind: {enabled: [{name: DefaultBinder}]}
postBind: {disabled: [{name: "*"}]}
multiPoint: {enabled: [{name: NodePorts, weight: 2}], disabled: [{name: VolumeZone}]}
placementGenerate: {disabled: [{name: "*"}]}
placementScore: {enabled: [{name: NodeResourcesFit, weight: 9}]}
"""

EXTENDERS = """
{}
{urlPrefix: x, prioritizeVerb: p}
{urlPrefix: x, prioritizeVerb: p, weight: -1}
{urlPrefix: x, managedResources: [{name: cpu}]}
{urlPrefix: x, managedResources: [{name: "a b/c"}]}
{urlPrefix: x, managedResources: [{name: a.b/c}, {name: a.b/c}]}
{urlPrefix: x, httpTimeout: 3}
{urlPrefix: x, tlsConfig: {certData: "%%"}}
{urlPrefix: x, enableHTTPS: true, tlsConfig: {insecure: true, caData: Y2E=}}
{urlPrefix: "http://x/", filterVerb: f, weight: 2, httpTimeout: 100ms, ignorable: true, \
nodeCacheCapable: true, managedResources: [{name: a.b/c, ignoredByScheduler: true}]}
"""

GATES = """
Foo=true
SidecarContainers=false
GangScheduling=true
GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true
DRAPrioritizedList=false,KMSv1=true,JobManagedBy=true
APIServerIdentity=false
AllBeta=false
StorageCapacityScoring=true
DRASchedulerFilterTimeout=false,DRADeviceBindingConditions=false
SchedulerPopFromBackoffQ
SchedulerPopFromBackoffQ=perhaps
kube:SchedulerPopFromBackoffQ=false
foo:SchedulerPopFromBackoffQ=false
"""


def lines(text: str) -> list[str]:
    return text.strip().splitlines()


def cases() -> list[object]:
    found = [*lines(TOP)]
    found += [f"profiles: {profiles}" for profiles in lines(PROFILES)]
    found += [f"profiles: [{{plugins: {plugins}}}]" for plugins in lines(PLUGINS)]
    for line in lines(ARGS):
        plugin, _, args = line.partition(" ")
        found.append(f"profiles: [{{pluginConfig: [{{name: {plugin}, args: {args}}}]}}]")
    found += [f"extenders: [{extender}]" for extender in lines(EXTENDERS)]
    found.append("extenders: [{urlPrefix: x, bindVerb: b}, {urlPrefix: y, bindVerb: b}]")
    return [
        *(pytest.param(text, "", id=text[:90]) for text in found),
        *(pytest.param("", gates, id=gates) for gates in lines(GATES)),
    ]


@pytest.fixture(scope="module")
def program() -> Path:
    try:
        return find(os.environ, ["kube-scheduler"]) / "kube-scheduler"
    except MissingControlPlane as problem:
        pytest.skip(f"{problem}; `python -m tests.e2e.build_control_plane kube-scheduler`")


def of_stock(program: Path, file: Path, gates: str) -> tuple[str, str]:
    """What it wrote, and what it complained of."""
    written = file.with_suffix(".stock")
    # A cluster is named and never asked; the port is one of the system's choice.
    command = [program, "--config", file, "--write-config-to", written]
    command += ["--master", "http://127.0.0.1:1", "--secure-port", "0"]
    ran = subprocess.run(
        [*command, f"--feature-gates={gates}"], capture_output=True, text=True, check=False
    )
    if written.exists():
        return written.read_text(), ""
    quoted = re.search(r'"command failed" err="((?:[^"\\]|\\.)*)"', ran.stderr)
    if quoted is not None:
        return "", json.loads(f'"{quoted[1]}"')
    plain = re.search(r"^Error: (.*)$", ran.stderr, re.MULTILINE)
    assert plain is not None, ran.stderr
    return "", plain[1]


def of_ours(file: Path, gates: str) -> tuple[str, str]:
    try:
        options = RunOptions(config=str(file), gates=parse_feature_gates(gates))
        return to_yaml(options.load_all()[0]), ""
    except ConfigError as error:
        return "", error.problem


@pytest.mark.parametrize(("text", "gates"), cases())
def test_the_same_is_made_of_it(program: Path, tmp_path: Path, text: str, gates: str) -> None:
    file = tmp_path / "scheduler.yaml"
    fields = yaml.safe_load(text) or {}
    file.write_text(YAML_HEAD + (yaml.safe_dump(fields, sort_keys=False) if fields else ""))

    stock, ours = of_stock(program, file, gates), of_ours(file, gates)

    assert ours[0] == stock[0]
    # Of a flag it says first which one it was.
    assert stock[1].endswith(ours[1])
    assert bool(stock[1]) == bool(ours[1]) == (not ours[0])


def test_one_that_uses_every_field(program: Path, tmp_path: Path) -> None:
    """The same file as `tests/config` has, with plugins, keys and files that there are."""
    data = yaml.safe_load(FULL)
    del data["assumedPodTTLSeconds"]
    data["clientConnection"]["kubeconfig"] = str(tmp_path / "kubeconfig")
    first = data["profiles"][0]
    first["plugins"] = yaml.safe_load(EVERY_POINT)
    first["pluginConfig"] = [entry for entry in first["pluginConfig"] if entry["name"] != "P"]
    pair = self_signed(["extender"], time.time())
    data["extenders"][0]["tlsConfig"] = {
        "serverName": "extender",
        "caFile": "/nowhere/ca",
        "caData": base64.b64encode(pair.cert).decode(),
        "certData": base64.b64encode(pair.cert).decode(),
        "keyData": base64.b64encode(pair.key).decode(),
    }
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    file = tmp_path / "scheduler.yaml"
    file.write_text(yaml.safe_dump(data))

    stock, ours = of_stock(program, file, ""), of_ours(file, "")

    assert stock[1] == ours[1] == ""
    assert ours[0] == stock[0]
