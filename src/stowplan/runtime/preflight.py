"""Before anything starts: is the API server there, and may we do what scheduling takes?

A scheduler without the right to list nodes would wait for them in silence; one without the right
to bind would decide and fail for every pod.  Both are said in one line before the start instead.
`runtime.live` calls `check_cluster`.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from stowplan.clock import Clock
from stowplan.errors import ApiError, Forbidden, NotFound, Unauthorized, Unavailable
from stowplan.objects.kinds import (
    EVENT,
    GROUP_KINDS,
    LEASE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    RESOURCE_CLAIM,
    Kind,
)
from stowplan.objects.pod_groups import GROUP_VERSIONS, GroupVersion
from stowplan.runtime.log import Log

TRY_EVERY_S = 1.0

_REVIEW = "SelfSubjectAccessReview"
_GROUP = "authorization.k8s.io"

_CLAIM_VERBS = ("get", "create", "update", "patch", "delete")

Sleep = Callable[[float], Awaitable[None]]


class Asked(Protocol):
    """The part of a client that is needed here."""

    @property
    def server(self) -> str: ...

    async def ask(self, method: str, path: str, body: Any = None) -> Any: ...

    async def text(self, path: str) -> str: ...


@dataclass(frozen=True, slots=True)
class Right:
    verb: str
    kind: Kind
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        resource = "/".join(filter(None, (self.kind.plural, self.subresource)))
        group = f".{self.kind.group}" if self.kind.group else ""
        named = f" {self.namespace}/{self.name}" if self.name else ""
        return f"{self.verb} {resource}{group}{named}"

    def attributes(self) -> dict[str, str]:
        found = {
            "verb": self.verb,
            "group": self.kind.group,
            "version": self.kind.version,
            "resource": self.kind.plural,
            "subresource": self.subresource,
            "namespace": self.namespace,
            "name": self.name,
        }
        return {name: value for name, value in found.items() if value}


def needed_rights(watched: Iterable[Kind], lease: tuple[str, str] | None) -> list[Right]:
    """`lease` is the namespace and name of the lease to hold, if one is."""
    kinds = [*watched]
    rights = [Right(verb, kind) for kind in kinds for verb in ("list", "watch")]
    rights += [
        Right("get", POD),
        Right("create", POD, "binding"),
        Right("patch", POD, "status"),
        Right("delete", POD),
        Right("patch", PERSISTENT_VOLUME),
        Right("patch", PERSISTENT_VOLUME_CLAIM),
        *(Right(verb, RESOURCE_CLAIM) for verb in _CLAIM_VERBS),
        # The second to write allocations and reservations.
        *(Right(verb, RESOURCE_CLAIM, "status") for verb in ("update", "patch")),
        *(Right(verb, RESOURCE_CLAIM, "binding") for verb in ("update", "patch")),
        Right("create", EVENT),
        Right("patch", EVENT),
    ]
    rights += [Right("patch", kind, "status") for kind in kinds if kind in GROUP_KINDS]
    if lease is not None:
        namespace, name = lease
        rights.append(Right("create", LEASE, namespace=namespace))
        rights += [Right(verb, LEASE, namespace=namespace, name=name) for verb in ("get", "update")]
    return rights


async def check_rights(client: Asked, rights: list[Right]) -> None:
    """Raises an error in one line when the scheduler could not work."""
    missing = [*map(str, await missing_rights(client, rights))]
    if missing:
        raise Forbidden(
            f"rights are missing at {client.server}: {', '.join(missing)}",
            hint="grant the roles of deploy/ to this user; docs/operations.md lists them",
        )


async def missing_rights(client: Asked, rights: list[Right]) -> list[Right]:
    """Those that we do not have; an error if that cannot be found out."""
    try:
        answers = await asyncio.gather(*(_may(client, right) for right in rights))
    except Unauthorized as error:
        raise Unauthorized(
            f"{client.server} does not know who we are: {error.message}",
            hint="check the user in the kubeconfig: its token or certificate may have expired",
        ) from None
    except ApiError as error:
        raise Unavailable(
            f"{client.server} does not say what we may do there: {error.message}",
            hint="is it the address of an API server?",
        ) from error
    return [right for right, allowed in zip(rights, answers, strict=True) if not allowed]


async def unserved(client: Asked, kinds: Iterable[Kind]) -> list[Kind]:
    """The kinds that the API server does not have."""
    kinds = [*kinds]
    versions = {kind.api_version: kind.group for kind in kinds}
    served: dict[str, set[str]] = {}
    for version, group in versions.items():
        try:
            answer = await client.ask("GET", f"/{'apis' if group else 'api'}/{version}")
        except NotFound:
            answer = {}
        served[version] = {it.get("name", "") for it in answer.get("resources") or ()}
    return [kind for kind in kinds if kind.plural not in served[kind.api_version]]


async def served_groups(client: Asked) -> GroupVersion:
    """The version in which the API server has pod groups; an error if it has none."""
    for version in GROUP_VERSIONS:
        try:
            answer = await client.ask("GET", f"/apis/{version.api_version}")
        except NotFound:
            continue
        if any(resource.get("name") == "podgroups" for resource in answer.get("resources") or ()):
            return version
    versions = " or ".join(version.api_version for version in reversed(GROUP_VERSIONS))
    raise Unavailable(
        f"{client.server} serves no podgroups ({versions}), and GenericWorkload is on",
        hint="start kube-apiserver with --feature-gates=GenericWorkload=true and "
        f"--runtime-config={GROUP_VERSIONS[-1].api_version}=true, or leave the gate off",
    )


async def reach(
    client: Asked,
    timeout_s: float,
    *,
    clock: Clock,
    log: Log,
    sleep: Sleep = asyncio.sleep,
) -> None:
    """Wait until the API server is there, so long at most."""
    give_up_s = clock.now() + timeout_s
    level = 0
    while True:
        try:
            # Not just there: one that has just started knows nobody's rights yet.
            await client.text("/readyz")
            return
        except (Unauthorized, Forbidden, NotFound):
            return  # It is there; what we may is asked next.
        except ApiError as error:
            if _is_about_trust(error):
                raise Unavailable(
                    error.message, hint="check certificate-authority in the kubeconfig"
                ) from error
            if clock.now() + TRY_EVERY_S > give_up_s:
                raise Unavailable(
                    f"{error.message} (tried for {timeout_s:g} s)",
                    hint="check the server's address in the kubeconfig, or raise --startup-timeout",
                ) from error
            log.info(level, "Waiting for the API server", server=client.server, err=error.message)
            level = 1  # Said once: whoever started it should know what it waits for.
        await sleep(TRY_EVERY_S)


def _is_about_trust(error: ApiError) -> bool:
    """No waiting makes a certificate valid."""
    return isinstance(error.__cause__, ssl.SSLCertVerificationError)


async def _may(client: Asked, right: Right) -> bool:
    body = {
        "apiVersion": f"{_GROUP}/v1",
        "kind": _REVIEW,
        "spec": {"resourceAttributes": right.attributes()},
    }
    try:
        answer = await client.ask("POST", f"/apis/{_GROUP}/v1/selfsubjectaccessreviews", body)
    except (NotFound, Forbidden):
        return True  # Not to be had here: what is missing shows when it is used.
    return bool((answer.get("status") or {}).get("allowed"))
