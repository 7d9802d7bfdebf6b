"""CSV tables with a mapping: what each becomes, and every row that makes no sense is counted."""

from __future__ import annotations

import gzip
import math
import re
from pathlib import Path

import msgspec
import pytest

from stowplan.errors import InputError
from stowplan.sim.files import read_trace
from stowplan.sim.mapping import (
    Events,
    Filter,
    Join,
    Mapping,
    Nodes,
    Number,
    Outcomes,
    Pods,
    Values,
)
from stowplan.sim.trace import Outcome, Remark, Trace

OPENB = Path(__file__).parents[1] / "examples" / "openb"

MAPPING = """
version: csv-mapping/v1
name: small
nodes:
  files: nodes.csv
  name: "{node}"
  capacity: {cpu: cores, pods: 10}
pods:
  files: pods.csv
  name: "{name}"
  namespace: "{team}"
  arrival: {column: came, unit: min}
  end: {column: gone, unit: min}
  node: "{node}"
  requests:
    cpu: {column: cpu, unit: m}
    memory: {column: mem, unit: Mi}
  labels: {team: "{team}"}
  where:
    team: {not: [system]}
  manifest:
    spec: {schedulerName: mine}
"""


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / name.replace("_csv", ".csv").replace("_yaml", ".yaml")).write_text(text)
    return folder


def requests(trace: Trace, pod: int) -> dict[str, str]:
    found: dict[str, str] = trace.pod(pod)["spec"]["containers"][0]["resources"]["requests"]
    return found


def small(folder: Path, pods: str, mapping: str = MAPPING) -> Trace:
    header = "name,team,came,gone,node,cpu,mem\n"
    write(folder, m_yaml=mapping, nodes_csv="node,cores\nn1,4\nn1,4\n", pods_csv=header + pods)
    return read_trace(folder, folder / "m.yaml")


def test_rows_that_make_no_sense_are_counted_exactly_with_their_lines(tmp_path: Path) -> None:
    trace = small(
        tmp_path,
        "good,a,0,10,n1,1500,64\n"
        "good,a,1,,gone,1500,64\n"
        "backwards,a,5,1,n1,1500,64\n"
        "later,a,nan,1,n1,1500,64\n"
        "negative,a,1,2,n1,-5,64\n"
        "negative2,a,1,2,n1,-5,64\n"
        "words,a,1,2,n1,many,64\n"
        "short,a,1\n"
        "ours,system,1,2,n1,1,1\n"
        "nowhen,a,,2,n1,1,1\n",
    )

    assert trace.pod_names == ("good", "good-2")
    assert {remark.text: (remark.count, remark.examples) for remark in trace.remarks} == {
        "names that other nodes have: left out": (1, ("nodes.csv:3: n1",)),
        "names that other pods have: a number was added": (1, ("pods.csv:3: good",)),
        "pods that end before they arrive: left out": (1, ("pods.csv:4",)),
        "rows whose came is no number: left out": (1, ("pods.csv:5: 'nan'",)),
        "rows whose cpu is negative or absurd: left out": (
            2,
            ("pods.csv:6: '-5'", "pods.csv:7: '-5'"),
        ),
        "rows whose cpu is no number: left out": (1, ("pods.csv:8: 'many'",)),
        "rows with too few or too many cells: left out": (1, ("pods.csv:9: 3, not 7",)),
        "rows that the mapping does not ask for: left out": (1, ("pods.csv:10",)),
        "pods without an arrival: left out": (1, ("pods.csv:11",)),
        "pods on nodes that the trace does not have: placement left out": (1, ("good-2 on gone",)),
    }
    assert sum(r.count for r in trace.remarks if "pods.csv" in str(r.examples)) == 9


def test_cells_become_fields(tmp_path: Path) -> None:
    trace = small(tmp_path, "good,a,2,10,n1,1500,64\nother,a,3,,,2000,64\n")

    assert trace.pod(0)["metadata"] == {"namespace": "a", "labels": {"team": "a"}, "name": "good"}
    assert trace.pod(0)["spec"]["schedulerName"] == "mine"
    assert requests(trace, 0) == {"cpu": "1500m", "memory": "64Mi"}
    assert requests(trace, 1) == {"cpu": "2", "memory": "64Mi"}
    assert trace.pod_arrival_s.tolist() == [120.0, 180.0]
    assert trace.pod_run_s.tolist() == [480.0, math.inf]
    assert trace.pod_node is not None
    assert trace.pod_node.tolist() == [0, -1]
    assert trace.node(0)["status"]["allocatable"] == {"cpu": "4", "pods": "10"}


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("arrival:", "arival:", "pods: object contains unknown field `arival`"),
        ("unit: min}\n  end", "unit: fortnight}\n  end", "pods.arrival: no unit 'fortnight'"),
        ("capacity: {cpu: cores", "capacity: {cpu: {unit: m}", "nodes.capacity.cpu: give one of"),
        ("csv-mapping/v1", "csv-mapping/v9", "version: invalid enum value"),
        ('"{team}"\n', '"{crew}"\n', "there is no column 'crew'"),
        ("  arrival: {column: came, unit: min}\n", "", "give arrival or events"),
    ],
)
def test_a_wrong_mapping_is_refused_with_its_place(
    tmp_path: Path, old: str, new: str, problem: str
) -> None:
    assert old in MAPPING

    with pytest.raises(InputError, match=problem):
        small(tmp_path, "good,a,2,10,n1,1500,64\n", MAPPING.replace(old, new))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"name,name\n", "two columns share a name"),
        (b"\xff\xfe\n", "no CSV"),
        (gzip.compress(b"name,team,came,gone,node,cpu,mem\n" * 99)[:-20], "no CSV"),
        (b"x" * (1 << 21), "a line of more than"),
        (b"", "there is no column"),
    ],
    ids=["header", "encoding", "cut-off", "endless-line", "empty"],
)
def test_what_is_no_table_is_one_line(tmp_path: Path, content: bytes, problem: str) -> None:
    small(tmp_path, "")
    (tmp_path / "pods.csv").write_bytes(content)

    with pytest.raises(InputError, match=problem):
        read_trace(tmp_path, tmp_path / "m.yaml")


def test_openb() -> None:
    trace = read_trace(OPENB, "openb")

    assert (trace.pod_count, trace.node_count) == (8152, 1213)
    assert trace.remarks == ()
    assert trace.pod_name(1) == "openb-pod-0001"
    assert requests(trace, 1) == {"cpu": "6", "memory": "12288Mi", "example.com/gpu-milli": "460"}
    assert trace.node(0)["metadata"]["labels"]["example.com/gpu-model"] == "P100"
    assert trace.node(0)["status"]["capacity"]["example.com/gpu-milli"] == "2000"


def test_openb_wants_the_models_that_a_pod_names(tmp_path: Path) -> None:
    header = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,"
    header += "creation_time,deletion_time,scheduled_time\n"
    row = "p,1000,1024,2,1000,V100M32|G2,LS,Failed,5,9,6\n"
    write(tmp_path, pods_csv=header + row)

    trace = read_trace(tmp_path / "pods.csv", "openb", {"nodes": OPENB / "nodes_gpu_node.csv.gz"})

    affinity = trace.pod(0)["spec"]["affinity"]["nodeAffinity"]
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert terms[0]["matchExpressions"] == [
        {"key": "example.com/gpu-model", "operator": "In", "values": ["G2", "V100M32"]}
    ]
    assert requests(trace, 0)["example.com/gpu-milli"] == "2000"
    assert (trace.pod_run_s[0], trace.pod_outcome[0]) == (3.0, Outcome.FAILED)


def test_borg_events_become_pods_and_machines(tmp_path: Path) -> None:
    end = 2**63 - 1
    machines = "time,machine_id,type,switch_id,capacity_cpus,capacity_memory,platform_id\n"
    machines += "0,7,1,sw,0.5,0.25,p\n60000000,8,1,sw,1,1,p\n90000000,8,2,sw,1,1,p\n"
    events = "time,type,collection_id,scheduling_class,collection_type,priority,"
    events += "alloc_collection_id,instance_index,machine_id,resource_request_cpus,"
    events += "resource_request_memory\n"
    rows = [
        (5_000_000, 0, 1, 0, 0), (9_000_000, 3, 1, 0, 7), (19_000_000, 4, 1, 0, 7),
        (20_000_000, 0, 1, 0, 0), (21_000_000, 3, 1, 0, 7), (31_000_000, 6, 1, 0, 7),
        (6_000_000, 0, 2, 0, 0), (7_000_000, 3, 3, 0, 7), (8_000_000, 6, 4, 0, 7),
        (end, 7, 2, 0, 0), (9_000_000, 77, 2, 0, 0), (9_000_000, 0, 5, 99, 0),
    ]  # fmt: skip
    for time, kind, collection, alloc, machine in rows:
        events += f"{time},{kind},{collection},2,0,200,{alloc},0,{machine},0.0625,0.03125\n"
    write(tmp_path, machine_events_csv=machines, instance_events_csv=events)

    trace = read_trace(tmp_path, "borg-2019")

    assert trace.pod_names == ("instance-1-0", "instance-2-0", "instance-3-0", "instance-1-0-2")
    assert trace.pod_arrival_s.tolist() == [5.0, 6.0, 7.0, 20.0]
    assert trace.pod_run_s.tolist() == [10.0, math.inf, math.inf, 10.0]
    assert trace.pod_outcome.tolist()[::3] == [Outcome.DELETED, Outcome.SUCCEEDED]
    assert trace.pod_node is not None
    assert trace.pod_node.tolist() == [0, -1, 0, 0]
    assert requests(trace, 0) == {"cpu": "4", "memory": "8192Mi"}
    assert trace.pod(0)["spec"]["priority"] == 200
    assert (trace.node_joins_s[1], trace.node_leaves_s[1]) == (60.0, 90.0)
    assert trace.node(0)["status"]["capacity"]["cpu"] == "32"
    assert {remark.text: remark.count for remark in trace.remarks} == {
        "rows that the mapping does not ask for: left out": 1,
        "events after the trace or without a time: left out": 1,
        "events that start what has not begun: it begins there": 1,
        "events that end what has not begun: left out": 1,
        "events of a type that the mapping does not name: left out": 1,
    }


def test_azure_packing(tmp_path: Path) -> None:
    vms = "vmId,tenantId,vmTypeId,priority,starttime,endtime\n"
    vms += "0,1,10,1,-0.5,0.25\n1,1,11,0,0.5,\n2,1,99,0,0.5,NULL\n3,1,10,0,1,NULL\n"
    types = "id,vmTypeId,machineId,core,memory,hdd,ssd,nic\n"
    types += "0,10,0,0.0625,0.03125,,0.5,0.25\n1,10,1,0.5,0.5,,0.5,0.5\n2,11,0,0.5,0.5,,,0.001\n"
    (tmp_path / "vmType.csv").write_text(types)
    write(tmp_path, vm_csv=vms)

    trace = read_trace(tmp_path, "azure-2020")

    assert trace.pod_names == ("vm-0", "vm-1", "vm-3")
    assert trace.pod_arrival_s.tolist() == [0.0, 43200.0, 86400.0]
    assert trace.pod_run_s.tolist() == [21600.0, math.inf, math.inf]
    assert requests(trace, 0) == {
        "cpu": "4",
        "memory": "8192Mi",
        "example.com/ssd-parts": "500",
        "example.com/network-parts": "250",
    }
    assert trace.remarks == (
        Remark("rows without a match in vmType.csv*: left out", 1, ("vm.csv:4: 99",)),
        Remark("pods older than the trace: they arrive at its start", 1, ("vm-0",)),
    )


@pytest.mark.parametrize("tagged", [True, False])
def test_alibaba_gpu_2020(tmp_path: Path, tagged: bool) -> None:
    write(
        tmp_path,
        pai_machine_spec_csv="m1,T4,96,512,2\nm2,CPU,96,512,0\n",
        pai_task_table_csv="j,worker,2.0,Terminated,100.0,200.0,600.0,29.296875,50.0,T4\n",
        pai_instance_table_csv="j,worker,i,w1,id1,Terminated,110.0,190.0,m1\n"
        "j,worker,i,w2,id2,Failed,120.0,,m1\n"
        "j,ps,i,w3,id3,Terminated,120.0,130.0,m1\n",
    )
    if tagged:
        write(tmp_path, pai_group_tag_table_csv="id1,u,T4,g,\nid2,u,,g,bert\n")

    trace = read_trace(tmp_path, "alibaba-gpu-2020")

    assert trace.pod_names == ("w1", "w2")
    assert trace.pod_arrival_s.tolist() == [0.0, 10.0]
    assert trace.pod_run_s.tolist() == [80.0, math.inf]
    assert trace.pod_outcome.tolist() == [Outcome.SUCCEEDED, Outcome.FAILED]
    assert requests(trace, 0) == {
        "cpu": "6",
        "memory": "30000Mi",
        "example.com/gpu-milli": "500",
    }
    assert ["affinity" in trace.pod(n)["spec"] for n in range(2)] == [tagged, False]
    assert trace.node(0)["status"]["capacity"]["example.com/gpu"] == "2"
    assert [remark.count for remark in trace.remarks] == [1]


def test_a_table_without_a_mapping_says_how() -> None:
    with pytest.raises(InputError, match="a CSV table needs a mapping") as caught:
        read_trace(OPENB / "pods_default.csv.gz")
    assert "openb" in caught.value.hint


def test_every_field_of_a_mapping_is_documented() -> None:
    structs = (Number, Values, Filter, Outcomes, Join, Events, Nodes, Pods, Mapping)
    wanted = {f.encode_name for struct in structs for f in msgspec.structs.fields(struct)}
    text = (Path(__file__).parents[2] / "docs" / "traces.md").read_text()

    section = text.partition("## CSV and mappings")[2].partition("\n## ")[0]

    assert wanted - set(re.findall(r"\w+", section)) == set()
