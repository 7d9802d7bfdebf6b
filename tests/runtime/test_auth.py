"""Who asks and whether they may: what the cluster is asked, and for how long it is believed."""

from __future__ import annotations

import io
from typing import Any

import pytest

from stowplan.apiserver.http.auth import Authenticator
from stowplan.apiserver.http.auth import User as ApiUser
from stowplan.apiserver.http.reviews import review
from stowplan.clock import VirtualClock
from stowplan.errors import ApiError, Forbidden, Unauthorized
from stowplan.runtime.auth import (
    CACHED_MAX,
    AuthSettings,
    ClusterReviews,
    Gatekeeper,
    Reviews,
    User,
    user_of_certificate,
)
from stowplan.runtime.log import Log
from tests.runtime.surfaces import ADMIN, VIEWER, FakeReviews

METRICS = "/metrics"


class Gate:
    def __init__(self, reviews: Reviews | None = None, **settings: Any) -> None:
        self.clock = VirtualClock(1000.0)
        self.reviews = FakeReviews()
        self.out = io.StringIO()
        log = Log(self.clock, stream=self.out)
        self.keeper = Gatekeeper(reviews or self.reviews, self.clock, log, AuthSettings(**settings))

    async def admit(self, token: str = "", path: str = METRICS, method: str = "GET") -> User:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return await self.keeper.admit(method, path, headers)

    @property
    def asked(self) -> int:
        count = len(self.reviews.asked)
        self.reviews.asked.clear()
        return count


async def test_an_answer_is_kept_for_ten_seconds() -> None:
    gate = Gate()
    await gate.admit(ADMIN)
    assert gate.asked == 2, "who, and whether they may"

    gate.clock.advance(9.9)
    await gate.admit(ADMIN)
    assert gate.asked == 0

    gate.clock.advance(0.2)
    await gate.admit(ADMIN)
    assert gate.asked == 2


async def test_refusals_are_kept_too() -> None:
    gate = Gate()
    for _ in range(3):
        with pytest.raises(Unauthorized):
            await gate.admit("bad-token")
    assert gate.asked == 1
    for _ in range(3):
        with pytest.raises(Forbidden):
            await gate.admit(VIEWER)
    assert gate.asked == 2


async def test_each_duration_can_be_set() -> None:
    gate = Gate(token_cache_s=100.0, allowed_cache_s=0.0, denied_cache_s=5.0)
    await gate.admit(ADMIN)
    await gate.admit(ADMIN)
    assert gate.asked == 3, "the token once, the permission each time"

    with pytest.raises(Forbidden):
        await gate.admit(VIEWER)
    gate.clock.advance(6.0)
    with pytest.raises(Forbidden):
        await gate.admit(VIEWER)
    assert gate.asked == 3


async def test_a_permission_is_for_one_path_and_one_verb() -> None:
    gate = Gate()
    gate.reviews.allowed = lambda user, verb, path: (verb, path) == ("get", METRICS)
    await gate.admit(ADMIN)

    for path, method in ((METRICS, "DELETE"), ("/metrics/", "GET"), ("/configz", "GET")):
        with pytest.raises(Forbidden, match=f'cannot {method.lower()} path "{path}"'):
            await gate.admit(ADMIN, path, method)


async def test_what_cannot_be_asked_is_not_remembered() -> None:
    gate = Gate()
    gate.reviews.broken = True
    with pytest.raises(Unauthorized):
        await gate.admit(ADMIN)
    with pytest.raises(ApiError, match="Internal Server Error"):
        await gate.admit()

    gate.reviews.broken = False

    assert (await gate.admit(ADMIN)).name == "admin"


async def test_no_more_than_a_bounded_number_is_remembered() -> None:
    gate = Gate()
    for n in range(CACHED_MAX + 100):
        with pytest.raises(Unauthorized):
            await gate.admit(f"bad-token-{n}")

    assert len(gate.keeper._users._entries) == CACHED_MAX
    assert not any(ADMIN in str(key) for key in gate.keeper._users._entries)


async def test_open_paths_are_exact_unless_they_end_in_a_star() -> None:
    gate = Gate(always_allowed=("/healthz", "/debug/*"))

    for path in ("/healthz", "/debug/queue", "/debug/"):
        assert (await gate.admit(path=path)).name == "system:anonymous"
    for path in ("/healthz/", "/healthz/ping", "/debug", "/livez"):
        with pytest.raises(Forbidden):
            await gate.admit(path=path)


async def test_masters_may_do_everything_without_asking() -> None:
    gate = Gate()
    gate.reviews.users["root-token"] = User("root", groups=("system:masters",))

    user = await gate.admit("root-token")

    assert user.groups == ("system:masters", "system:authenticated")
    assert gate.asked == 1


async def test_whoever_is_known_is_authenticated() -> None:
    gate = Gate()
    await gate.admit(ADMIN)

    asked_as = gate.reviews.asked[1][0]

    assert asked_as == User("admin", "1", ("ops", "system:authenticated"))


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer  ", "Basic YTpi", ADMIN])
async def test_other_credentials_are_none(header: str) -> None:
    gate = Gate()

    with pytest.raises(Forbidden, match="system:anonymous"):
        await gate.keeper.admit("GET", METRICS, {"Authorization": header})


def test_a_certificate_names_user_and_groups() -> None:
    subject = (
        (("organizationName", "ops"),),
        (("organizationName", "dev"),),
        (("commonName", "ann"),),
    )

    user = user_of_certificate({"subject": subject})

    assert (user.name, user.groups) == ("ann", ("ops", "dev", "system:authenticated"))
    with pytest.raises(Unauthorized):
        user_of_certificate({"subject": ()})


# -- what is asked of a cluster -------------------------------------------------------------


class EmbeddedCluster:
    """Answers as the embedded API server does, without HTTP."""

    def __init__(self, authenticator: Authenticator) -> None:
        self.authenticator = authenticator
        self.bodies: list[Any] = []

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        assert method == "POST"
        self.bodies.append(body)
        return review(path.rpartition("/")[2], body, ApiUser("scheduler"), self.authenticator)


async def test_the_questions_are_reviews_of_the_api() -> None:
    cluster = EmbeddedCluster(Authenticator({"token-of-ann": ApiUser("ann", "7", ("ops",))}))
    gate = Gate(ClusterReviews(cluster))

    await gate.admit("token-of-ann")

    token, access = cluster.bodies
    assert token == {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": "token-of-ann"},
    }
    assert access == {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": "ann",
            "uid": "7",
            "groups": ["ops", "system:authenticated"],
            "extra": {},
            "nonResourceAttributes": {"path": METRICS, "verb": "get"},
        },
    }


async def test_an_embedded_cluster_without_tokens_lets_everybody_in() -> None:
    gate = Gate(ClusterReviews(EmbeddedCluster(Authenticator())))

    assert (await gate.admit()).name == "system:anonymous"


async def test_an_embedded_cluster_with_tokens_does_not() -> None:
    authenticator = Authenticator({"token-of-ann": ApiUser("ann")})
    gate = Gate(ClusterReviews(EmbeddedCluster(authenticator)))

    with pytest.raises(Forbidden):
        await gate.admit()
    with pytest.raises(Unauthorized):
        await gate.admit("another-token")
