"""Before the start: an API server that is not there, or does not let us work, is one line."""

from __future__ import annotations

import io
import ssl
from typing import Any

import pytest

from stowplan.clock import VirtualClock
from stowplan.errors import ApiError, Forbidden, NotFound, Unauthorized, Unavailable
from stowplan.objects.kinds import NODE, POD, POD_GROUP_BETA
from stowplan.runtime.log import Log
from stowplan.runtime.preflight import check_rights, needed_rights, reach, served_groups

LEASE = ("kube-system", "my-lease")


class Server:
    """Answers reviews; what is in `denied` ("verb resource") may not be done."""

    server = "https://api:6443"

    def __init__(self, *denied: str, failures: list[ApiError] | None = None) -> None:
        self.denied = set(denied)
        self.failures = failures or []
        self.refuses_reviews: ApiError | None = None
        self.asked: list[dict[str, str]] = []

    async def text(self, path: str) -> str:
        assert path == "/readyz"
        if self.failures:
            raise self.failures.pop(0)
        return "ok"

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        assert (method, path) == ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
        if self.refuses_reviews is not None:
            raise self.refuses_reviews
        wanted = body["spec"]["resourceAttributes"]
        self.asked.append(wanted)
        resource = "/".join(filter(None, (wanted["resource"], wanted.get("subresource"))))
        return {"status": {"allowed": f"{wanted['verb']} {resource}" not in self.denied}}


async def check(server: Server, timeout_s: float = 60.0) -> float:
    """How long it took."""
    clock = VirtualClock()

    async def sleep(seconds: float) -> None:
        clock.advance(seconds)

    wanted = needed_rights([NODE, POD], LEASE)
    log = Log(clock, stream=io.StringIO())
    await reach(server, timeout_s, clock=clock, log=log, sleep=sleep)
    await check_rights(server, wanted)
    return clock.now()


async def test_everything_that_scheduling_takes_is_asked_for() -> None:
    server = Server()
    assert await check(server) == 0.0

    asked = {
        (right["verb"], right["resource"], right.get("subresource", ""), right.get("group", ""))
        for right in server.asked
    }
    assert asked == {
        ("list", "nodes", "", ""),
        ("watch", "nodes", "", ""),
        ("list", "pods", "", ""),
        ("watch", "pods", "", ""),
        ("get", "pods", "", ""),
        ("create", "pods", "binding", ""),
        ("patch", "pods", "status", ""),
        ("get", "pods", "", ""),
        ("delete", "pods", "", ""),
        ("patch", "persistentvolumes", "", ""),
        ("patch", "persistentvolumeclaims", "", ""),
        ("get", "resourceclaims", "", "resource.k8s.io"),
        ("create", "resourceclaims", "", "resource.k8s.io"),
        ("update", "resourceclaims", "", "resource.k8s.io"),
        ("patch", "resourceclaims", "", "resource.k8s.io"),
        ("delete", "resourceclaims", "", "resource.k8s.io"),
        ("update", "resourceclaims", "status", "resource.k8s.io"),
        ("patch", "resourceclaims", "status", "resource.k8s.io"),
        ("update", "resourceclaims", "binding", "resource.k8s.io"),
        ("patch", "resourceclaims", "binding", "resource.k8s.io"),
        ("create", "events", "", "events.k8s.io"),
        ("patch", "events", "", "events.k8s.io"),
        ("create", "leases", "", "coordination.k8s.io"),
        ("get", "leases", "", "coordination.k8s.io"),
        ("update", "leases", "", "coordination.k8s.io"),
    }
    named = [right["name"] for right in server.asked if right.get("name")]
    assert named == ["my-lease", "my-lease"]


def test_without_election_no_lease_is_needed() -> None:
    assert not any(right.kind.plural == "leases" for right in needed_rights([NODE], None))


async def test_missing_rights_are_named_by_verb_and_resource() -> None:
    with pytest.raises(Forbidden) as caught:
        await check(Server("watch nodes", "create pods/binding", "update leases"))

    assert caught.value.problem == (
        "rights are missing at https://api:6443: watch nodes, create pods/binding, "
        "update leases.coordination.k8s.io kube-system/my-lease"
    )
    assert caught.value.hint


async def test_a_user_that_the_server_does_not_know() -> None:
    server = Server()
    server.refuses_reviews = Unauthorized("Unauthorized")

    with pytest.raises(Unauthorized, match="does not know who we are"):
        await check(server)


@pytest.mark.parametrize("refusal", [NotFound("no such thing"), Forbidden("not for you")])
async def test_a_server_that_cannot_be_asked_is_taken_at_its_word(refusal: ApiError) -> None:
    server = Server()
    server.refuses_reviews = refusal

    await check(server)


async def test_something_that_is_no_api_server() -> None:
    server = Server(failures=[NotFound("<html>")])
    server.refuses_reviews = ApiError("<html>", code=501)

    with pytest.raises(Unavailable) as caught:
        await check(server)

    assert caught.value.problem == "https://api:6443 does not say what we may do there: <html>"
    assert caught.value.exit_code == 3


async def test_a_server_that_comes_up_late_is_waited_for() -> None:
    failures: list[ApiError] = [Unavailable("refused"), Unavailable("refused"), ApiError("500")]

    assert await check(Server(failures=failures), timeout_s=10.0) == 3.0


async def test_a_server_that_does_not_come_up_in_time() -> None:
    server = Server(failures=[Unavailable("https://api:6443 cannot be reached: refused")] * 100)

    with pytest.raises(Unavailable) as caught:
        await check(server, timeout_s=10.0)

    assert caught.value.problem == "https://api:6443 cannot be reached: refused (tried for 10 s)"
    assert "--startup-timeout" in caught.value.hint
    assert len(server.failures) == 100 - 11


@pytest.mark.parametrize("refusal", [Unauthorized("who?"), Forbidden("no"), NotFound("no")])
async def test_a_server_that_hides_its_health_is_there(refusal: ApiError) -> None:
    assert await check(Server(failures=[refusal])) == 0.0


async def test_no_waiting_makes_a_certificate_valid() -> None:
    untrusted = Unavailable("certificate verify failed")
    untrusted.__cause__ = ssl.SSLCertVerificationError("certificate verify failed")
    server = Server(failures=[untrusted] * 2)

    with pytest.raises(Unavailable, match="certificate verify failed") as caught:
        await check(server)

    assert "certificate-authority" in caught.value.hint
    assert len(server.failures) == 1


class Discovery:
    """Serves these versions of scheduling.k8s.io, each with or without groups."""

    server = "https://api:6443"

    def __init__(self, **versions: bool) -> None:
        self._versions = versions

    async def text(self, path: str) -> str:
        raise AssertionError(path)

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        has_groups = self._versions.get(path.rpartition("/")[2])
        if has_groups is None:
            raise NotFound(path)
        names = ["priorityclasses", *(["podgroups", "podgroups/status"] if has_groups else [])]
        return {"resources": [{"name": name} for name in names]}


@pytest.mark.parametrize(
    ("versions", "condition", "implied"),
    [
        ({"v1alpha2": True}, "PodGroupScheduled", ()),
        (
            {"v1beta1": True},
            "PodGroupInitiallyScheduled",
            ("GangScheduling", "WorkloadAwarePreemption"),
        ),
        ({"v1alpha2": True, "v1beta1": False}, "PodGroupScheduled", ()),
    ],
)
async def test_groups_are_used_in_the_version_that_is_served(
    versions: dict[str, bool], condition: str, implied: tuple[str, ...]
) -> None:
    found = await served_groups(Discovery(**versions))

    assert (found.condition, found.implied_gates) == (condition, implied)


async def test_a_server_without_groups_is_named() -> None:
    with pytest.raises(Unavailable, match="serves no podgroups") as caught:
        await served_groups(Discovery(v1alpha2=False))

    assert "--runtime-config=scheduling.k8s.io/v1alpha2=true" in caught.value.hint


def test_rights_to_groups_are_asked_for_where_they_are_watched() -> None:
    asked = {str(right) for right in needed_rights([POD, POD_GROUP_BETA], None)}

    assert "patch podgroups/status.scheduling.k8s.io" in asked
    assert "watch podgroups.scheduling.k8s.io" in asked
