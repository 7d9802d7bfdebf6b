"""Errors say what, where and what next, and an API answer finds its class."""

from __future__ import annotations

import pytest

from stowplan import errors
from stowplan.errors import ApiError, ConfigError, InputError, InternalError, StowplanError


def test_all_parts_are_shown_in_the_order_a_reader_wants_them() -> None:
    error = ConfigError("unknown plugin 'Fit'", where="a.yaml:14", hint="did you mean 'NodeFit'?")

    assert str(error) == "a.yaml:14: unknown plugin 'Fit'\n  hint: did you mean 'NodeFit'?"


def test_what_is_not_known_is_not_shown() -> None:
    assert str(InputError("no pods")) == "no pods"


@pytest.mark.parametrize(
    ("kind", "exit_code"),
    [(StowplanError, 1), (ConfigError, 2), (InputError, 2), (ApiError, 3), (InternalError, 70)],
)
def test_exit_code(kind: type[StowplanError], exit_code: int) -> None:
    assert kind("x").exit_code == exit_code


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        pytest.param(404, "NotFound", errors.NotFound, id="by-reason"),
        pytest.param(409, "Conflict", errors.Conflict, id="lost-race"),
        pytest.param(409, "AlreadyExists", errors.AlreadyExists, id="same-code-other-reason"),
        pytest.param(409, "", errors.Conflict, id="409-without-reason"),
        pytest.param(410, "Expired", errors.Gone, id="expired"),
        pytest.param(410, "Gone", errors.Gone, id="gone"),
        pytest.param(504, "", errors.Timeout, id="by-code"),
        pytest.param(500, "ServerTimeout", errors.Timeout, id="server-timeout-comes-as-500"),
        pytest.param(418, "Teapot", ApiError, id="unheard-of"),
    ],
)
def test_an_answer_finds_its_class(code: int, reason: str, kind: type[ApiError]) -> None:
    error = errors.api_error(code, reason, "words", retry_after_s=2.0)

    assert type(error) is kind
    assert (error.code, error.message, error.retry_after_s) == (code, "words", 2.0)
    assert error.reason == (reason or kind.default_reason)


def test_a_class_knows_its_own_code_and_reason() -> None:
    error = errors.NotFound('pods "a" not found')

    assert (error.code, error.reason) == (404, "NotFound")


def test_every_error_is_exported_and_drawn_in_the_tree() -> None:
    kinds = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, StowplanError)
    }

    assert kinds | {"api_error"} == set(errors.__all__)
    assert all(kind in (errors.__doc__ or "") for kind in kinds)
