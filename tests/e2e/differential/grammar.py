"""Sequences of requests from a seed: every kind, verb, subresource and option there is.

A request names what only a server knows by a mark: `@uid:PATH@` and `@version:PATH@` stand for
what that server said last of the object at PATH, `@continue@` for the token of its last list.
What comes next does not depend on answers, so both servers are asked the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random
from typing import Any

from stowplan.apiserver.http.resources import RESOURCES, Resource
from stowplan.apiserver.wire_schema import Message, message, message_of
from stowplan.objects.device_versions import GROUP, as_version
from tests.e2e.differential.devices import CLAIM_STATUSES, PLURALS
from tests.e2e.differential.vocabulary import PLAIN, TRIED, Data, Path

JSON = "application/json"
PATCHES = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
NAMES_PER_KIND = 3
WATCHES_AT_ONCE = 12
CALLS_BETWEEN_WATCHES = 90

_SCHEDULING = (
    "pods", "nodes", "persistentvolumes", "persistentvolumeclaims", "storageclasses", "csinodes",
    "priorityclasses", "runtimeclasses", "poddisruptionbudgets", "deployments", "replicasets",
)  # fmt: skip
_RESHAPED = ("ResourceClaim", "ResourceClaimTemplate", "ResourceSlice", "DeviceClass")
_ALWAYS_THERE = ("events", "namespaces")


@dataclass(frozen=True)
class Call:
    sort: str
    """The class of request that agreement is counted for."""
    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: str | None = None
    content_type: str = JSON
    subject: str = ""
    """The path of the object that it may change."""
    plural: str = ""


class Grammar:
    def __init__(self, seed: int, namespace: str, *, devices: bool = False) -> None:
        """`devices`: about nothing but resource.k8s.io, in all its versions."""
        self.random = Random(seed)
        self.namespace = namespace
        self._resources = [
            resource
            for resource in RESOURCES
            if resource.kind.plural in (PLURALS if devices else PLAIN)
            and (resource.group or not _has_group(resource))
            and (devices or not _is_older(resource))
        ]
        self._weights = [self._weight(resource) for resource in self._resources]
        productions: tuple[tuple[int, Callable[[Resource], Call]], ...] = (
            (30, self._create),
            (12, self._put),
            (24, self._patch),
            (10, self._delete),
            (8, self._get),
            (8, self._list),
            (7, self._status),
            (6, self._scale),
            (5, self._binding),
            (5, self._eviction),
            (4, self._wrong_path),
            (2, self._wrong_method),
            (3, self._malformed),
            (2, self._delete_collection),
        )
        of_others = (self._scale, self._binding, self._eviction)
        self._productions = [
            (weight * 4 if devices and make == self._status else weight, make)
            for weight, make in productions
            if not devices or make not in of_others
        ]

    def _weight(self, resource: Resource) -> int:
        if resource.group == GROUP:
            return 2 if _is_older(resource) else 6
        return 6 if resource.kind.plural in _SCHEDULING else 1

    def calls(self, count: int) -> Iterator[list[Call]]:
        """Lists of one call, or of watches that may run side by side."""
        made = 0
        for resource in self._resources:
            yield [self._create(resource, plain=True)]
        weights = [weight for weight, _ in self._productions]
        while made < count:
            for _ in range(min(CALLS_BETWEEN_WATCHES, count - made)):
                ((_, production),) = self.random.choices(self._productions, weights)
                yield [production(self._resource())]
                made += 1
            yield [self._watch(self._resource()) for _ in range(WATCHES_AT_ONCE)]
            made += WATCHES_AT_ONCE

    def cluster_wide(self) -> list[str]:
        """The collections whose objects are in no namespace."""
        plain = (it for it in self._resources if not it.kind.namespaced)
        return [self._collection(it) for it in plain if it.kind.plural != "namespaces"]

    def every_value(self) -> Iterator[tuple[str, list[Call]]]:
        """Each value that is tried, once: what creating and updating with it would come to."""
        dry = (("dryRun", "All"),)
        for resource in self._resources:
            if _is_older(resource):
                continue
            name = f"{self.namespace}-whole{self._ending(resource)}"
            plain, path = self._plain(resource, name), self._collection(resource)
            where = f"{path}/{name}"
            common = {"plural": resource.kind.plural}
            calls = [Call("create", "POST", path, (), _compact(plain), **common)]
            for field, values in TRIED[resource.kind.plural].items():
                if _is_tried_elsewhere(resource, field):
                    continue
                for value in values:
                    body = deepcopy(plain)
                    _set(body, field, value)
                    # Another object is created than the one that is there and updated.
                    new = _compact(body).replace(f"{self.namespace}-whole", f"{self.namespace}-new")
                    calls += [
                        Call("create", "POST", path, dry, new, **common),
                        Call("update", "PUT", where, dry, _compact(body), **common),
                    ]
            for status in STATUSES.get(resource.kind.plural, ()):
                text = _compact({"status": status})
                merge = PATCHES["merge"]
                calls.append(
                    Call("patch status", "PATCH", f"{where}/status", dry, text, merge, **common)
                )
            yield f"{resource.group or 'core'}-{resource.version}-{resource.kind.plural}", calls

    # -- what a request is about ------------------------------------------------------------

    def _resource(self) -> Resource:
        (found,) = self.random.choices(self._resources, self._weights)
        return found

    def _named(self, plural: str) -> Resource:
        return next(it for it in self._resources if it.kind.plural == plural)

    def _collection(self, resource: Resource, *, everywhere: bool = False) -> str:
        root = f"/apis/{resource.group}" if resource.group else "/api"
        scoped = resource.kind.namespaced and not everywhere
        scope = f"/namespaces/{self.namespace}" if scoped else ""
        return f"{root}/{resource.version}{scope}/{resource.kind.plural}"

    def _name(self, resource: Resource) -> str:
        number = self.random.randrange(NAMES_PER_KIND)
        return f"{self.namespace}-{number}{self._ending(resource)}"

    def _ending(self, resource: Resource) -> str:
        return ".example.com" if resource.kind.plural == "csidrivers" else ""

    def _object(self, resource: Resource) -> str:
        return f"{self._collection(resource)}/{self._name(resource)}"

    def _maybe(self, chance: float) -> bool:
        return self.random.random() < chance

    # -- bodies -----------------------------------------------------------------------------

    def _plain(self, resource: Resource, name: str) -> Data:
        plain = deepcopy(PLAIN[resource.kind.plural])
        text = json.dumps(plain).replace("@namespace@", self.namespace)
        body: Data = json.loads(text)
        body["apiVersion"], body["kind"] = resource.api_version, resource.kind.name
        metadata = body.setdefault("metadata", {})
        metadata["name"] = name
        labels = {**metadata.get("labels", {}), "run": self.namespace}
        metadata["labels"] = labels
        return body

    def _tried(self, resource: Resource) -> tuple[Path, Any]:
        tried = TRIED[resource.kind.plural]
        paths = [*tried]
        # Metadata is the same for all kinds: the kinds that have fields of their own show those.
        own = [path for path in paths if path[0] != "metadata"]
        path = self.random.choice(own if own and self._maybe(0.75) else paths)
        return path, self.random.choice(tried[path])

    def _spiced(self, resource: Resource, body: Data, spices: int) -> Data:
        for _ in range(spices):
            path, value = self._tried(resource)
            _set(body, path, value)
        return body

    def _text(self, resource: Resource, body: Any) -> str:
        """The body as JSON; now and then with a flaw that no struct would have."""
        if _is_older(resource) and isinstance(body, dict) and body.get("kind") in _RESHAPED:
            body = as_version(body, body["apiVersion"])
        if not isinstance(body, dict) or not self._maybe(0.22):
            return _compact(body)
        flaw = self.random.choice((self._unknown, self._mistyped, self._null, self._unknown))
        if self._maybe(0.2):
            return _with_duplicate(_compact(body), self.random)
        flaw(resource, body)
        return _compact(body)

    def _place(self, resource: Resource, body: Data) -> tuple[Data, Message]:
        """A mapping in the body whose fields are known."""
        found = message_of(resource.api_version, resource.kind.name)
        assert found is not None
        places = [*_places(body, found)]
        return self.random.choice(places)

    def _unknown(self, resource: Resource, body: Data) -> None:
        place, _ = self._place(resource, body)
        place[self.random.choice(("unheardOf", "Spec", "replica", "nodename"))] = (
            self.random.choice(("x", 1, {"a": "b"}, None))
        )

    def _mistyped(self, resource: Resource, body: Data) -> None:
        place, known = self._place(resource, body)
        field = self.random.choice([*known.by_name.values()])
        wrong: list[Any] = ["text", 7, True, [], {}, [1], {"a": "b"}]
        place[field.name] = self.random.choice(wrong)

    def _null(self, resource: Resource, body: Data) -> None:
        place, known = self._place(resource, body)
        place[self.random.choice([*known.by_name])] = None

    # -- options ----------------------------------------------------------------------------

    def _write_options(self) -> tuple[tuple[str, str], ...]:
        query: list[tuple[str, str]] = []
        if self._maybe(0.12):
            query.append(("dryRun", self.random.choice(("All", "All", "All", "Some", ""))))
        if self._maybe(0.35):
            levels = ("Strict", "Strict", "Warn", "Ignore", "Wrong")
            query.append(("fieldValidation", self.random.choice(levels)))
        if self._maybe(0.05):
            query.append(("fieldManager", self.random.choice(("me", "x" * 129))))
        return tuple(query)

    def _preconditions(self, path: str) -> Data:
        uid = self.random.choice((f"@uid:{path}@", "another", None))
        version = self.random.choice((f"@version:{path}@", "1", None))
        both = {"uid": uid, "resourceVersion": version}
        return {key: value for key, value in both.items() if value is not None}

    def _delete_options(self, path: str) -> Data:
        options: Data = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if self._maybe(0.5):
            options["gracePeriodSeconds"] = self.random.choice((0, 0, 1, 30, -1, "5"))
        if self._maybe(0.3):
            options["preconditions"] = self._preconditions(path)
        if self._maybe(0.15):
            options["dryRun"] = self.random.choice((["All"], ["Some"], []))
        if self._maybe(0.2):
            policies = ("Background", "Foreground", "Orphan", "Wrong")
            options["propagationPolicy"] = self.random.choice(policies)
        if self._maybe(0.05):
            options["orphanDependents"] = self.random.choice((True, False))
        if self._maybe(0.05):
            options["unheardOf"] = 1
        return options

    # -- productions ------------------------------------------------------------------------

    def _create(self, resource: Resource, *, plain: bool = False) -> Call:
        name = self._name(resource)
        body = self._plain(resource, name)
        if not plain:
            self._spiced(resource, body, self.random.choice((0, 1, 1, 1, 2, 3)))
        if self._maybe(0.02):
            body["apiVersion"] = self.random.choice(("v2", "apps/v1beta1", "", "v1"))
        if self._maybe(0.02):
            body["kind"] = self.random.choice(("Pod", "Wrong", ""))
        # What a generated name comes to be differs.
        if not _dig(body, ("metadata", "name")) and self._maybe(0.5):
            body["metadata"]["name"] = name
        path = self._collection(resource)
        text = _compact(body) if plain else self._text(resource, body)
        return Call(
            "create", "POST", path, () if plain else self._write_options(), text,
            subject=f"{path}/{name}", plural=resource.kind.plural,
        )  # fmt: skip

    def _put(self, resource: Resource) -> Call:
        path = self._object(resource)
        body = self._plain(resource, path.rpartition("/")[2])
        self._spiced(resource, body, self.random.choice((0, 1, 1, 2)))
        body["metadata"] |= self._preconditions(path) if self._maybe(0.6) else {}
        return Call(
            "update", "PUT", path, self._write_options(), self._text(resource, body),
            subject=path, plural=resource.kind.plural,
        )  # fmt: skip

    def _patch(self, resource: Resource) -> Call:
        if resource.kind.plural in _ALWAYS_THERE:
            resource = self._named("pods")
        path = self._object(resource)
        kind = self.random.choice([*PATCHES])
        query = self._write_options()
        if kind == "apply":
            body = self._plain(resource, path.rpartition("/")[2])
            self._spiced(resource, body, self.random.choice((0, 1, 1)))
            text = self._text(resource, body)
            managers = ("fieldManager", self.random.choice(("me", "you", "me", "")))
            query = (*(it for it in query if it[0] != "fieldManager"), managers)
            if self._maybe(0.6):
                query = (*query, ("force", self.random.choice(("true", "false", "true", "maybe"))))
        elif kind == "json":
            text = _compact([self._operation(resource) for _ in range(self._few())])
        else:
            body = self._spiced(resource, {}, self._few())
            if self._maybe(0.2):
                body.setdefault("metadata", {})
                if isinstance(body["metadata"], dict):
                    body["metadata"] |= self._preconditions(path)
            text = self._text(resource, body)
        return Call(
            f"patch {kind}", "PATCH", path, query, text, PATCHES[kind],
            subject=path, plural=resource.kind.plural,
        )  # fmt: skip

    def _few(self) -> int:
        return self.random.choice((1, 1, 1, 2, 3))

    def _operation(self, resource: Resource) -> Data:
        path, value = self._tried(resource)
        pointer = "/" + "/".join(str(part).replace("/", "~1") for part in path)
        op = self.random.choice(("add", "add", "replace", "remove", "test", "copy", "move", "swap"))
        operation: Data = {"op": op, "path": pointer}
        if op in ("copy", "move"):
            operation["from"] = "/metadata/labels"
        elif op != "remove":
            operation["value"] = value
        return operation

    def _delete(self, resource: Resource) -> Call:
        path = self._object(resource)
        body, query = None, ()
        if self._maybe(0.6):
            body = json.dumps(self._delete_options(path))
        elif self._maybe(0.3):
            options = (
                ("gracePeriodSeconds", "0"),
                ("gracePeriodSeconds", "x"),
                ("propagationPolicy", "Foreground"),
                ("propagationPolicy", "Wrong"),
                ("dryRun", "All"),
            )
            query = (self.random.choice(options),)
        return Call("delete", "DELETE", path, query, body, subject=path,
                    plural=resource.kind.plural)  # fmt: skip

    def _delete_collection(self, resource: Resource) -> Call:
        body = None
        if self._maybe(0.5):
            body = json.dumps(self._delete_options(self._object(resource)))
        query = [("labelSelector", f"run={self.namespace},tier=none")]
        if self._maybe(0.3):
            query.append(("limit", "1"))
        return Call("delete collection", "DELETE", self._collection(resource), tuple(query), body,
                    plural=resource.kind.plural)  # fmt: skip

    def _get(self, resource: Resource) -> Call:
        query: tuple[tuple[str, str], ...] = ()
        if self._maybe(0.3):
            versions = ("0", "1", "abc", "-1", "99999999", "1.5", "@version:list@")
            query = (("resourceVersion", self.random.choice(versions)),)
        return Call("get", "GET", self._object(resource), query, plural=resource.kind.plural)

    def _list(self, resource: Resource) -> Call:
        query: list[tuple[str, str]] = [("labelSelector", self._label_selector())]
        if self._maybe(0.35):
            query.append(("fieldSelector", self._field_selector()))
        if self._maybe(0.35):
            query.append(("limit", self.random.choice(("1", "2", "0", "-1", "x"))))
        if self._maybe(0.15):
            query.append(("continue", self.random.choice(("@continue@", "wrong", ""))))
        if self._maybe(0.35):
            query.append(("resourceVersion", self._version()))
        if self._maybe(0.25):
            query.append(("resourceVersionMatch", self._match()))
        if self._maybe(0.08):
            query.append(("sendInitialEvents", self.random.choice(("true", "false"))))
        if self._maybe(0.05):
            query.append(("timeoutSeconds", self.random.choice(("1", "x"))))
        return Call("list", "GET", self._collection(resource), tuple(query),
                    plural=resource.kind.plural)  # fmt: skip

    def _label_selector(self) -> str:
        run = f"run={self.namespace}"
        return self.random.choice(
            (
                run, run, run, run, f"{run},app=x", f"{run},app!=x", f"{run},app in (x,y)",
                f"{run},app notin (x)", f"{run},app", f"{run},!app", f"{run},app=", f"{run},=x",
                f"{run},app in x", f"{run},bad key=x", f"{run},a>1",
            )
        )  # fmt: skip

    def _field_selector(self) -> str:
        return self.random.choice(
            (
                f"metadata.name={self.namespace}-0", f"metadata.name!={self.namespace}-0",
                f"metadata.namespace={self.namespace}", "spec.nodeName=", "spec.nodeName=n",
                "status.phase=Pending", "spec.unschedulable=true", "spec.schedulerName=mine",
                "spec.driver=example.com", "spec.nodeName!=n", "spec.wrong=1",
                "metadata.name", "metadata.name in (a)", "type=Opaque", "",
            )
        )  # fmt: skip

    def _version(self) -> str:
        return self.random.choice(("0", "@version:list@", "@version:list@", "abc", "-1", ""))

    def _match(self) -> str:
        return self.random.choice(("Exact", "NotOlderThan", "NotOlderThan", "Wrong", ""))

    def _watch(self, resource: Resource) -> Call:
        query = [("watch", self.random.choice(("1", "true", "true"))), ("timeoutSeconds", "1")]
        query.append(("labelSelector", f"run={self.namespace}"))
        if self._maybe(0.5):
            query.append(("sendInitialEvents", self.random.choice(("true", "true", "false"))))
        if self._maybe(0.5):
            query.append(("allowWatchBookmarks", self.random.choice(("true", "true", "false"))))
        if self._maybe(0.6):
            query.append(("resourceVersion", self._version()))
        if self._maybe(0.45):
            query.append(("resourceVersionMatch", self._match()))
        if self._maybe(0.1):
            query.append(("fieldSelector", self._field_selector()))
        return Call("watch", "GET", self._collection(resource), tuple(query),
                    plural=resource.kind.plural)  # fmt: skip

    def _sub(self, resource: Resource, name: str) -> Resource:
        having = [it for it in self._resources if name in it.subresources]
        return resource if name in resource.subresources else self.random.choice(having)

    def _status(self, resource: Resource) -> Call:
        resource = self._sub(resource, "status")
        path = self._object(resource)
        if self._maybe(0.1):
            return Call("get", "GET", f"{path}/status", plural=resource.kind.plural)
        body = {"status": self.random.choice(STATUSES.get(resource.kind.plural, ({},)))}
        if self._maybe(0.3):
            self._spiced(resource, body, 1)
        if self._maybe(0.35):
            whole = {**self._plain(resource, path.rpartition("/")[2]), **body}
            return Call("update status", "PUT", f"{path}/status", self._write_options(),
                        self._text(resource, whole), subject=path,
                        plural=resource.kind.plural)  # fmt: skip
        kind = self.random.choice(("merge", "strategic"))
        return Call("patch status", "PATCH", f"{path}/status", self._write_options(),
                    self._text(resource, body), PATCHES[kind], subject=path,
                    plural=resource.kind.plural)  # fmt: skip

    def _scale(self, resource: Resource) -> Call:
        resource = self._sub(resource, "scale")
        path = self._object(resource)
        common = {"subject": path, "plural": resource.kind.plural}
        if self._maybe(0.25):
            return Call("scale", "GET", f"{path}/scale", **common)
        replicas = self.random.choice((0, 1, 5, -1, "3", None))
        body: Data = {"spec": {"replicas": replicas}}
        if self._maybe(0.4):
            return Call("scale", "PATCH", f"{path}/scale", self._write_options(),
                        json.dumps(body), PATCHES["merge"], **common)  # fmt: skip
        name = path.rpartition("/")[2]
        body |= {
            "apiVersion": self.random.choice(("autoscaling/v1", "autoscaling/v1", "v1")),
            "kind": self.random.choice(("Scale", "Scale", "Deployment")),
            "metadata": {"name": name, "namespace": self.namespace},
        }
        if self._maybe(0.4):
            body["metadata"] |= self._preconditions(path)
        return Call("scale", "PUT", f"{path}/scale", self._write_options(), json.dumps(body),
                    **common)  # fmt: skip

    def _binding(self, _: Resource) -> Call:
        path = self._object(self._named("pods"))
        name = path.rpartition("/")[2]
        metadata: Data = {"name": self.random.choice((name, name, name, "another", None))}
        if self._maybe(0.4):
            metadata |= {"uid": self.random.choice((f"@uid:{path}@", "another"))}
        if self._maybe(0.2):
            metadata["namespace"] = self.random.choice((self.namespace, "default"))
        if self._maybe(0.1):
            metadata["resourceVersion"] = self.random.choice((f"@version:{path}@", "1"))
        target = self.random.choice(
            (
                {"kind": "Node", "name": "n"}, {"name": "n"}, {"kind": "Node", "name": "n"},
                {"kind": "Pod", "name": "n"}, {"kind": "Node"}, {}, {"kind": "", "name": "n"},
                {"kind": "Node", "name": "Bad_"}, None,
            )
        )  # fmt: skip
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        if self._maybe(0.1):
            body["kind"] = "Pod"
        where = f"{path}/binding"
        if self._maybe(0.15):
            where = f"/api/v1/namespaces/{self.namespace}/bindings"
        return Call("binding", "POST", where, self._write_options(), json.dumps(body),
                    subject=path, plural="pods")  # fmt: skip

    def _eviction(self, _: Resource) -> Call:
        path = self._object(self._named("pods"))
        name = path.rpartition("/")[2]
        metadata: Data = {"name": self.random.choice((name, name, name, "another", None))}
        if self._maybe(0.2):
            metadata["namespace"] = self.random.choice((self.namespace, "default"))
        body: Data = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        if self._maybe(0.6):
            body["deleteOptions"] = self._delete_options(path)
        if self._maybe(0.1):
            body["kind"] = "Pod"
        if self._maybe(0.1):
            body["apiVersion"] = "policy/v1beta2"
        return Call("eviction", "POST", f"{path}/eviction", self._write_options(),
                    json.dumps(body), subject=path, plural="pods")  # fmt: skip

    def _wrong_path(self, resource: Resource) -> Call:
        path = self._object(resource)
        version = resource.version
        paths = (
            path.replace(f"/{version}/", "/v9/"),
            f"{path}/unheard",
            f"{self._collection(resource)}s",
            f"{path}/status/more",
            self._collection(resource).replace(self.namespace, "missing"),
            path.replace("/api", "/apj", 1),
            f"/apis/unheard.example.com/v1/{resource.kind.plural}",
        )
        method = self.random.choice(("GET", "GET", "DELETE"))
        return Call("wrong path", method, self.random.choice(paths), plural=resource.kind.plural)

    def _wrong_method(self, resource: Resource) -> Call:
        path = self._object(resource)
        where, method = self.random.choice(
            (
                (path, "POST"), (self._collection(resource), "PUT"),
                (self._collection(resource), "PATCH"), (f"{path}/status", "DELETE"),
                (f"{path}/status", "POST"), (f"{path}/binding", "GET"), (f"{path}/eviction", "PUT"),
            )
        )  # fmt: skip
        return Call("wrong method", method, where, body="{}", plural=resource.kind.plural)

    def _malformed(self, resource: Resource) -> Call:
        made = self._create(resource) if self._maybe(0.5) else self._patch(resource)
        text = made.body or ""
        body = self.random.choice(("", "{", text[:-1], "[]", "null", '"x"', f"{text} x", "7"))
        if self._maybe(0.3):
            types = ("text/plain", "application/xml", "application/json-patch+json", "")
            return replace(made, sort="malformed", content_type=self.random.choice(types))
        return replace(made, sort="malformed", body=body)


STATUSES: dict[str, tuple[Data, ...]] = {
    "resourceclaims": CLAIM_STATUSES,
    "pods": (
        {"phase": "Running"},
        {"phase": "Failed", "reason": "Why"},
        {"phase": "Wrong"},
        {"nominatedNodeName": "n"},
        {"nominatedNodeName": "Bad_"},
        {"conditions": [{"type": "Ready", "status": "True"}]},
        {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
        {"conditions": [{"type": "Ready", "status": "Perhaps"}]},
        {"conditions": [{"status": "True"}]},
    ),
    "nodes": (
        {"capacity": {"cpu": "2000m"}, "allocatable": {"cpu": "1.50"}},
        {"allocatable": {"cpu": "x"}},
        {"conditions": [{"type": "Ready", "status": "True"}]},
        {"allocatable": {"cpu": "-1"}},
    ),
    "persistentvolumeclaims": ({"phase": "Bound", "capacity": {"storage": "1024Mi"}},),
    "persistentvolumes": ({"phase": "Available"}, {"phase": "Bound"}),
    "replicasets": ({"replicas": 3}, {"replicas": -1}),
    "deployments": ({"replicas": 3, "readyReplicas": 2}, {"replicas": 1, "readyReplicas": 2}),
    "statefulsets": ({"replicas": 3},),
    "daemonsets": ({"numberReady": 1},),
    "poddisruptionbudgets": (
        {"disruptionsAllowed": 1, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1},
        {"disruptionsAllowed": -1},
    ),
}


def _compact(body: Any) -> str:
    """Without blanks: kube-apiserver keeps those in parameters of drivers, and stumbles on them."""
    return json.dumps(body, separators=(",", ":"))


def _is_tried_elsewhere(resource: Resource, field: Path) -> bool:
    """Metadata with pods and nodes, templates of pods with deployments: the rules are the same."""
    plural = resource.kind.plural
    return (field[0] == "metadata" and plural not in ("pods", "nodes", "resourceslices")) or (
        field[:3] == ("spec", "template", "spec") and plural not in ("deployments", "jobs")
    )


def _is_older(resource: Resource) -> bool:
    return resource.conversion is not None and resource.group == GROUP


def _has_group(resource: Resource) -> bool:
    """Events are served in two shapes; the one of the core group is asked for."""
    return resource.kind.plural != "events" and bool(resource.kind.group)


def _set(body: Data, path: Path, value: Any) -> None:
    """Put the value there, if what is on the way allows it."""
    place: Any = body
    for part, following in pairwise(path):
        if isinstance(part, int):
            if not isinstance(place, list):
                return
            if len(place) <= part:
                place.append({"name": "c"})
            place = place[part]
            continue
        if not isinstance(place, dict):
            return
        if place.get(part) is None:
            place[part] = [] if isinstance(following, int) else {}
        place = place[part]
    if isinstance(place, dict):
        place[path[-1]] = deepcopy(value)


def _dig(body: Any, path: Path) -> Any:
    for part in path:
        body = body.get(part) if isinstance(body, dict) else None
    return body


def _places(value: Any, known: Message) -> Iterator[tuple[Data, Message]]:
    if not isinstance(value, dict):
        return
    yield value, known
    for key, inner in value.items():
        field = known.by_name.get(key)
        found = message(field.type) if field is not None and len(field.type) > 1 else None
        if field is None or found is None or not found.by_name:
            continue
        members = inner if field.flag == "*" and isinstance(inner, list) else [inner]
        for member in members:
            if field.flag != "%":
                yield from _places(member, found)


def _with_duplicate(text: str, random: Random) -> str:
    """The same object with one of its keys said twice."""
    at = random.choice([n for n, char in enumerate(text) if char == "{" and text[n + 1] == '"'])
    key = text[at + 1 : text.index(":", at)]
    return f'{text[: at + 1]}{key}: "twice", {text[at + 1 :]}'
