"""What is thrown at the doors."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hypothesis import strategies as st

TEXT_MAX = 20_000

MANIFEST = b"""\
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web, tier: "1"}}
spec:
  priority: 10
  nodeSelector: {disk: ssd}
  tolerations: [{key: gpu, operator: Exists, effect: NoSchedule}]
  containers:
  - name: main
    image: web:1
    ports: [{containerPort: 80, hostPort: 8080}]
    resources: {requests: {cpu: 100m, memory: 1.5Gi}, limits: {memory: 2e9}}
  topologySpreadConstraints:
  - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: a}, status: {allocatable: {cpu: "4"}}}
"""

CONFIG = b"""\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
percentageOfNodesToScore: 50
podInitialBackoffSeconds: 1
leaderElection: {leaderElect: true, leaseDuration: 15s, renewDeadline: 10s, retryPeriod: 2s}
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint: {enabled: [{name: NodeAffinity, weight: 5}], disabled: [{name: ImageLocality}]}
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
extenders:
- {urlPrefix: "http://127.0.0.1/", filterVerb: filter, httpTimeout: 5s, nodeCacheCapable: true}
"""

KUBECONFIG = b"""\
apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: one, user: me}}]
clusters:
- name: one
  cluster: {server: "https://127.0.0.1:6443", certificate-authority-data: YQ==}
users:
- name: me
  user:
    token: abc
    exec: {apiVersion: client.authentication.k8s.io/v1, command: get, env: [{name: A, value: b}]}
"""

_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(2**63 - 2, 2**65)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12)
    | st.sampled_from(
        ["", "1", "100m", "1Gi", "-1", "1e400", "In", "Exists", "default", "\x00", "NaN"]
    )
)

json_values = st.recursive(
    _LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(max_size=8)
            | st.sampled_from(
                ["kind", "apiVersion", "metadata", "spec", "status", "items", "name"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=24,
)

json_bytes = json_values.map(lambda value: json.dumps(value).encode())

noise = st.binary(max_size=400) | st.text(max_size=200).map(str.encode) | json_bytes

BOMBS: dict[str, bytes] = {
    "brackets": b"[" * 100_000,
    "objects": b'{"a":' * 100_000,
    "closed brackets": b"[" * 50_000 + b"]" * 50_000,
    "yaml sequences": b"- " * 20_000 + b"x",
    "yaml maps": b"".join(b" " * n + b"a:\n" for n in range(1_000)),
    "laughs": b"a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    + b"".join(
        b"a%d: &a%d [%s]\n" % (n, n, b", ".join([b"*a%d" % (n - 1)] * 10)) for n in range(1, 12)
    ),
    "itself": b"a: &a [*a, *a]\n",
    "long number": b"9" * 100_000,
    "large exponent": b"cpu: 1e999999999\n",
    "zeros": b"\x00" * 10_000,
    "one long line": b"a" * 1_000_000,
    "half a character": b"\xff\xfe\x00\xd8" * 1_000,
    "many documents": b"---\n" * 20_000,
    "merge keys": b"a: &a {b: 1}\nc: {<<: [" + b", ".join([b"*a"] * 2_000) + b"]}\n",
}
"""Small inputs that a careless reader chokes on."""


@st.composite
def broken(draw: st.DrawFn, document: bytes) -> bytes:
    """A good document after some accidents: parts cut out, doubled, swapped or scribbled over."""
    data = bytearray(document)
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 30)))
        piece = bytes(data[start:end])
        data[start:end] = draw(
            st.sampled_from([b"", piece * 2, piece[::-1], b"null", b"[]", b"{}", b"-1", b'"'])
            | st.binary(max_size=6)
        )
    return bytes(data)


def peak_bytes(action: Callable[[], Any]) -> int:
    """How much memory an action takes at most."""
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@contextmanager
def refused(*errors: type[Exception]) -> Iterator[None]:
    """The door may refuse, if it says why, and briefly."""
    try:
        yield
    except errors as error:
        text = str(error)
    else:
        return
    assert 0 < len(text) < TEXT_MAX
