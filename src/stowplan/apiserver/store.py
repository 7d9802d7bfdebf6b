"""The embedded cluster: what a kube-apiserver does with a request, in memory and at once.

`Store` implements the port of `cluster.port`; everything is synchronous and answers before `call`
returns (inside `batch`: when the batch ends).  Time comes from the clock it is given, uids and
generated names from the version counter, so a run repeats exactly.

Pods that are created from structs, bound, deleted, or get a condition never pass through JSON
data: that is the fast path of the scheduler and of benchmarks.  PUT and PATCH go through JSON data
so that no field is lost (`updates`, `patch`).  `ledger` keeps the objects and the order of changes,
`admission` and `defaults` fill in what a kube-apiserver fills in, `garbage` cleans up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

import msgspec
from msgspec.structs import replace

from stowplan.apiserver import answers
from stowplan.apiserver.admission import Admission
from stowplan.apiserver.bootstrap import IMMORTAL_NAMESPACES, first_objects
from stowplan.apiserver.defaults import default_object, default_spec, qos_class
from stowplan.apiserver.deletion import may_go, plan_deletion
from stowplan.apiserver.garbage import FOREGROUND, Garbage
from stowplan.apiserver.identity import Identity
from stowplan.apiserver.ledger import Journal, Ledger, Table
from stowplan.apiserver.owners import Ref
from stowplan.apiserver.patch import apply_patch
from stowplan.apiserver.pod_update import validate_pod_update
from stowplan.apiserver.pod_validation import validate_spec
from stowplan.apiserver.pod_writes import BoundStatus, check_binding, patch_status
from stowplan.apiserver.retention import EventRetention
from stowplan.apiserver.selectors import predicate, selected_name
from stowplan.apiserver.served import with_defaults
from stowplan.apiserver.updates import WITHOUT_STATUS, merge_update
from stowplan.apiserver.validation import (
    validate_finalizers,
    validate_meta,
    validate_object,
    validate_object_update,
)
from stowplan.apiserver.watches import HISTORY_MAX, Rest, Seen, Watcher
from stowplan.clock import Clock
from stowplan.cluster.port import (
    Answer,
    Done,
    ListOptions,
    ListResult,
    Watch,
    WatchHandlers,
)
from stowplan.errors import ApiError, BadRequest
from stowplan.objects.api import Bind, Create, Delete, Get, Patch, Request, Update
from stowplan.objects.base import KubeObject, ObjectMeta
from stowplan.objects.codec import join, split
from stowplan.objects.kinds import (
    CSI_DRIVER,
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
    EVENT,
    KIND_BY_STRUCT,
    LEASE,
    NAMESPACE,
    NODE,
    POD,
    POD_DISRUPTION_BUDGET,
    PRIORITY_CLASS,
    RUNTIME_CLASS,
    SERVICE,
    STORAGE_CLASS,
    VOLUME_ATTACHMENT,
    Kind,
)
from stowplan.objects.pod import Pod
from stowplan.objects.workloads import Namespace, PriorityClass, RuntimeClass
