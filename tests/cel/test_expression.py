"""What the spec says of device selectors, beyond what is recorded."""

from __future__ import annotations

import subprocess
import sys

import pytest

from stowplan.cel import CompileError, Device, EvaluationError, Version, compile_expression

GPU = Device(
    "gpu.example.com",
    {"model": "T4", "index": 2, "version": Version("1.2.3"), "vendor.org/numa": 0},
    {"memory": "40Gi"},
    allow_multiple_allocations=True,
)


@pytest.mark.parametrize(
    "text",
    [
        'device.attributes["gpu.example.com"].model == "T4"',
        'device.attributes["vendor.org"].numa == 0',
        'device.attributes["nope"].size() == 0 && has(device.attributes.nope)',
        '!("nope" in device.attributes) && device.attributes.size() == 2',
        'device.attributes[?"nope"].hasValue()',
        'device.attributes["gpu.example.com"].version.compareTo(semver("1.2.3")) == 0',
        'device.capacity["gpu.example.com"].memory == quantity("40960Mi")',
        'device.attributes["nope"].x == 1 || device.allowMultipleAllocations',
    ],
)
def test_true_of_the_gpu(text: str) -> None:
    assert compile_expression(text).matches(GPU) is True


def test_an_attribute_that_is_no_version_fails_every_expression() -> None:
    device = Device("d", {"version": Version("1.2")})

    with pytest.raises(EvaluationError, match="attribute version: parse semantic version: No Maj"):
        compile_expression("true").matches(device)


def test_an_attribute_that_is_an_int_is_no_answer() -> None:
    text = 'device.attributes["gpu.example.com"].index'

    with pytest.raises(EvaluationError, match="type int could not be converted to bool"):
        compile_expression(text).matches(GPU)


def test_a_refusal_is_one_line_and_the_details_point_at_the_place() -> None:
    with pytest.raises(CompileError) as caught:
        compile_expression("device.driver ==\n  3")

    assert str(caught.value) == (
        "compilation failed: ERROR: <input>:1:15: found no matching overload for '_==_' applied to "
        "'(string, int)'"
    )
    assert caught.value.details.endswith("\n | device.driver ==\n | ..............^")


def test_all_problems_are_told_in_the_order_of_the_text() -> None:
    with pytest.raises(CompileError) as caught:
        compile_expression("one && two")

    lines = caught.value.details.splitlines()
    assert [it for it in lines if "ERROR" in it] == [
        "compilation failed: ERROR: <input>:1:1: undeclared reference to 'one' (in container '')",
        "ERROR: <input>:1:8: undeclared reference to 'two' (in container '')",
    ]


def test_true_is_not_one() -> None:
    device = Device("d", {"flag": True})

    assert not compile_expression('device.attributes["d"].flag in [1, 2]').matches(device)
    assert not compile_expression('device.attributes["d"].flag == 1').matches(device)
    assert compile_expression("{true: 1, false: 2}[true] == 1").matches(device)


def test_what_the_api_server_finds_too_complex_still_has_an_answer() -> None:
    expression = compile_expression('["a", "b"].join("/") == "a/b"')

    assert expression.too_complex
    assert expression.matches(GPU) is True


def test_re2_is_loaded_only_for_patterns() -> None:
    script = """
import sys
from stowplan.cel import Device, compile_expression
compile_expression('device.driver == "x"').matches(Device("x"))
print("re2" in sys.modules)
compile_expression('device.driver.matches("x")')
print("re2" in sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert run.stdout.split() == ["False", "True"]
