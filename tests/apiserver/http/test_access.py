"""Who may come in: tokens, hosts and origins, and the reviews that other servers ask for."""

from __future__ import annotations

import hmac
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from stowplan.apiserver.http.auth import Authenticator, User, read_tokens
from stowplan.apiserver.http.reviews import issue_token
from stowplan.apiserver.http.reviews import review as review_of
from stowplan.errors import InputError, Invalid
from tests.apiserver.http.serving import PODS, Served, serve

TOKEN = "a-token-of-some-length"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS = "/apis/authorization.k8s.io/v1"


@pytest.fixture
async def guarded() -> AsyncIterator[Served]:
    served = await serve(
        Authenticator({TOKEN: User("ann", "7", ("admins",)), "second-one": User("bob")})
    )
    yield served
    await served.close()


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", TOKEN]
)
async def test_without_a_token_nobody_comes_in(guarded: Served, header: str) -> None:
    for method, path in (("GET", PODS), ("GET", "/version"), ("GET", "/nope"), ("DELETE", PODS)):
        answer = await guarded.ask(method, path, Authorization=header)
        assert answer.status() == (401, "Unauthorized", "Unauthorized")
        assert answer.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize("header", [f"Bearer {TOKEN}", f"bearer  {TOKEN}", "Bearer second-one"])
async def test_with_a_token(guarded: Served, header: str) -> None:
    assert (await guarded.get(PODS, Authorization=header)).code == 200


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
async def test_health_is_for_everybody(guarded: Served, path: str) -> None:
    answer = await guarded.get(path)

    assert (answer.code, answer.body) == (200, b"ok")


def test_tokens_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them, each as a digest of one length, also after the right one was found."""
    compared: list[tuple[bytes, bytes]] = []
    real = hmac.compare_digest

    def watched(left: bytes, right: bytes) -> bool:
        compared.append((left, right))
        return real(left, right)

    monkeypatch.setattr(hmac, "compare_digest", watched)
    users = {f"token-number-{number}": User(str(number)) for number in range(5)}
    found = Authenticator(users).user_of("token-number-0")

    assert found == User("0")
    assert len(compared) == 5
    assert {len(part) for pair in compared for part in pair} == {32}


def test_tokens_do_not_show() -> None:
    assert TOKEN not in repr(vars(Authenticator({TOKEN: User("ann")})))


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8001", "127.0.0.1.evil.example"])
async def test_a_name_that_was_bent_to_this_machine(server: Served, host: str) -> None:
    """A web page can make its own name point here; its requests carry that name."""
    assert (await server.get(PODS, Host=host)).status()[:2] == (403, "Forbidden")


@pytest.mark.parametrize("origin", ["https://evil.example", "null"])
async def test_pages_of_other_sites(server: Served, origin: str) -> None:
    answer = await server.ask("DELETE", PODS, Origin=origin)

    assert answer.status()[:2] == (403, "Forbidden")


@pytest.mark.parametrize("host", ["localhost", "localhost:8001", "127.0.0.1", "[::1]:8001"])
async def test_names_of_this_machine(server: Served, host: str) -> None:
    assert (await server.get(PODS, Host=host, Origin=f"http://{host}")).code == 200


# -- reviews ------------------------------------------------------------------------------


async def review(server: Served, path: str, spec: Any) -> Any:
    return await server.post(path, {"spec": spec}, Authorization=f"Bearer {TOKEN}")


async def test_token_reviews(guarded: Served) -> None:
    known = (await review(guarded, REVIEWS, {"token": TOKEN})).data
    unknown = (await review(guarded, REVIEWS, {"token": "wrong"})).data

    assert (known["kind"], known["apiVersion"]) == ("TokenReview", "authentication.k8s.io/v1")
    assert known["status"] == {
        "authenticated": True,
        "user": {"username": "ann", "uid": "7", "groups": ["admins"]},
    }
    assert not unknown["status"]["authenticated"]


async def test_may_a_user_do_that(guarded: Served) -> None:
    path = f"{ACCESS}/subjectaccessreviews"
    attributes = {"resourceAttributes": {"verb": "get", "resource": "pods"}}
    ann = await review(guarded, path, {"user": "ann", **attributes})
    stranger = await review(guarded, path, {"user": "system:anonymous", **attributes})
    nobody = await review(guarded, path, attributes)

    assert ann.code == 201
    assert ann.data["status"]["allowed"] is True
    assert stranger.data["status"]["allowed"] is False
    assert nobody.status()[0] in (400, 422)


async def test_who_am_i(guarded: Served) -> None:
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    found = (await review(guarded, path, {})).data

    assert found["status"]["userInfo"]["username"] == "ann"
    allowed = (await review(guarded, f"{ACCESS}/selfsubjectaccessreviews", {})).data
    assert allowed["status"]["allowed"] is True


@pytest.mark.parametrize("spec", [5, [], {"token": 5}, {}, {"token": ""}])
async def test_reviews_of_nothing(guarded: Served, spec: Any) -> None:
    assert (await review(guarded, REVIEWS, spec)).status()[0] in (400, 422)


def test_the_rules_for_everybody_are_no_secret() -> None:
    open_house, guarded = Authenticator(), Authenticator({TOKEN: User("ann")})

    def status(plural: str, spec: Any, asked: Authenticator) -> Any:
        return review_of(plural, {"spec": spec}, User("ann"), asked)["status"]

    everything = status("selfsubjectrulesreviews", {}, guarded)
    assert not everything["incomplete"]
    assert everything["resourceRules"] == [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
    assert everything["nonResourceRules"] == [{"verbs": ["*"], "nonResourceURLs": ["*"]}]
    for asked, allowed in ((open_house, True), (guarded, False)):
        for plural in ("subjectaccessreviews", "localsubjectaccessreviews"):
            for spec in ({"user": "system:anonymous"}, {"groups": ["system:unauthenticated"]}):
                assert status(plural, spec, asked)["allowed"] is allowed
            assert status(plural, {"groups": ["devs"]}, asked)["allowed"]
    audiences = {"token": TOKEN, "audiences": ["one"]}
    assert status("tokenreviews", audiences, guarded)["audiences"] == ["one"]
    assert "audiences" not in status("tokenreviews", {"token": TOKEN}, guarded)


# -- tokens of service accounts ---------------------------------------------------------------


def test_a_token_is_good_until_its_time_is_up() -> None:
    now_s = 1000.0
    asked = Authenticator({TOKEN: User("ann")}, now=lambda: now_s)
    made = issue_token({"kind": "TokenRequest"}, "default", "robot", asked)
    token = made["status"]["token"]

    assert made["kind"] == "TokenRequest"
    assert made["metadata"] == {"name": "robot", "namespace": "default"}
    assert made["spec"] == {
        "audiences": ["https://kubernetes.default.svc"],
        "expirationSeconds": 3600,
    }
    assert made["status"]["expirationTimestamp"] == "1970-01-01T01:16:40Z"
    robot = User(
        "system:serviceaccount:default:robot",
        groups=(
            "system:serviceaccounts",
            "system:serviceaccounts:default",
            "system:authenticated",
        ),
    )
    assert asked.user_of(token) == robot
    assert asked.user_of(TOKEN) == User("ann")
    assert asked.user_of(token + "x") is None
    now_s = 4600.0
    assert asked.user_of(token) == robot
    now_s = 4600.5
    assert asked.user_of(token) is None
    assert asked.user_of(TOKEN) == User("ann")


@pytest.mark.parametrize(
    ("seconds", "taken"),
    [(599, False), (600, True), (2**32, True), (2**32 + 1, False), (0, False)],
)
def test_how_long_a_token_may_live(seconds: int, taken: bool) -> None:
    body = {"spec": {"expirationSeconds": seconds, "audiences": ["mine"]}}
    if not taken:
        with pytest.raises(Invalid, match="may not specify a duration less than 10 minutes"):
            issue_token(body, "default", "robot", Authenticator())
        return
    made = issue_token(body, "default", "robot", Authenticator())
    assert made["spec"] == body["spec"]


def test_of_too_many_tokens_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stowplan.apiserver.http.auth.ISSUED_MAX", 2)
    asked = Authenticator({TOKEN: User("ann")})
    tokens = [asked.issue(User(name), 10.0)[0] for name in "abc"]

    assert [asked.user_of(token) for token in tokens] == [None, User("b"), User("c")]
    assert len({*tokens}) == 3


# -- the file -----------------------------------------------------------------------------


def test_a_token_file(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text('# ours\nfirst-token\n\nsecond-token,ann,7,"admins,devs"\n')

    assert read_tokens(path) == {
        "first-token": User("admin", "", ("system:masters", "system:authenticated")),
        "second-token": User("ann", "7", ("admins", "devs", "system:authenticated")),
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", "there is no token in this file"),
        (b"# nothing\n\n", "there is no token in this file"),
        (b"short\n", "a token needs at least 8 characters"),
        (b"\xff\xfe\x00\x01", "the token file is not text"),
    ],
)
def test_token_files_that_are_none(tmp_path: Path, text: bytes, problem: str) -> None:
    path = tmp_path / "tokens"
    path.write_bytes(text)

    with pytest.raises(InputError) as caught:
        read_tokens(path)
    assert caught.value.problem == problem
    assert caught.value.where.startswith(str(path))
