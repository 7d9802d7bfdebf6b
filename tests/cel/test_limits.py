"""Whatever an expression says, it ends soon, with an answer or one clear error."""

from __future__ import annotations

import pytest

from stowplan.cel import LENGTH_MAX, CompileError, Device, EvaluationError, compile_expression
from stowplan.cel.parser import NESTING_MAX

DEVICE = Device("d", {"text": "a" * 64, "number": 1})
COST = "operation cancelled: actual cost limit exceeded"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("(" * 5000 + "true" + ")" * 5000, id="parentheses"),
        pytest.param("[" * 5000 + "]" * 5000, id="lists"),
        pytest.param("1" + "+1" * 5000 + " > 0", id="sum"),
        pytest.param("size(" * 1500 + "[]" + ")" * 1500, id="calls"),
        pytest.param("device" + ".a" * 5000, id="selections"),
        pytest.param("true?true:" * 1000 + "true", id="conditionals"),
        pytest.param("!(" * 3000 + "true" + ")" * 3000, id="negations"),
        pytest.param("[1].all(x," * 500 + "true" + ")" * 500, id="loops"),
        pytest.param("{1:" * 2000 + "1" + "}" * 2000, id="maps"),
    ],
)
def test_deep_nesting_is_refused(text: str) -> None:
    with pytest.raises(CompileError, match="recursion limit exceeded"):
        compile_expression(text)


def test_nesting_up_to_the_limit_is_evaluated() -> None:
    depth = NESTING_MAX - 1

    assert compile_expression("(" * depth + "true" + ")" * depth).matches(DEVICE)
    assert compile_expression("1" + "+1" * (depth - 1) + f" == {depth}").matches(DEVICE)


def test_pairs_that_cancel_out_and_long_alternatives_are_not_deep() -> None:
    assert compile_expression("!" * 5000 + "true").matches(DEVICE)
    assert compile_expression("false" + "||false" * 1400 + "||true").matches(DEVICE)


def test_length() -> None:
    longest = "true" + " " * (LENGTH_MAX - 4)

    assert compile_expression(longest).matches(DEVICE)
    with pytest.raises(CompileError, match="longer than 10240 bytes"):
        compile_expression(f"{longest} ")


def test_macros_that_repeat_their_operand_are_bounded() -> None:
    text = "optional.of(1)" + ".optMap(x, x)" * 60 + ".hasValue()"

    with pytest.raises(CompileError, match="parts once its macros are written out"):
        compile_expression(text)


DOUBLED = "".join(f"cel.bind(v{n + 1}, v{n} + v{n}, " for n in range(40))
NESTED = "".join(f"cel.bind(v{n + 1}, [v{n}, v{n}], " for n in range(30))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("lists.range(9223372036854775807).size() == 1", id="range"),
        pytest.param(
            "lists.range(2000).all(x, lists.range(2000).all(y, x + y >= 0))", id="loop-in-loop"
        ),
        pytest.param(f"cel.bind(v0, [1], {DOUBLED} v40.size() == 0{')' * 41}", id="lists-doubled"),
        pytest.param(f'cel.bind(v0, "a", {DOUBLED} v40 == ""{")" * 41}', id="texts-doubled"),
        pytest.param(f"cel.bind(v0, 1, {NESTED} v30 == [v29, v29]{')' * 31}", id="shared-parts"),
        pytest.param(f'cel.bind(v0, 1, {NESTED} "%s".format([v30]) == ""{")" * 31}', id="as-text"),
        pytest.param(
            '"a"' + '.replace("", "bbbbbbbbbbbbbbbb")' * 60 + ".size() == 1", id="replaced"
        ),
        pytest.param(
            "cel.bind(a, lists.range(1000), [" + "a, " * 999 + "a].flatten().map(x, x)) == []",
            id="flattened",
        ),
    ],
)
def test_growth_meets_the_cost_limit(text: str) -> None:
    with pytest.raises(EvaluationError, match=COST):
        compile_expression(text).matches(DEVICE)


def test_nothing_makes_up_for_the_cost_limit() -> None:
    expression = compile_expression("lists.range(9999999).size() == 1 || true")

    with pytest.raises(EvaluationError, match=COST):
        expression.matches(DEVICE)


def test_values_that_fail_are_worked_out_once() -> None:
    """Bindings of bindings would double the work at each level."""
    levels = "".join(f"cel.bind(v{n + 1}, v{n} || v{n}, " for n in range(40))
    text = f"cel.bind(v0, 1 / 0 == 1, {levels} v40{')' * 41}"

    with pytest.raises(EvaluationError, match="division by zero"):
        compile_expression(text).matches(DEVICE)


@pytest.mark.parametrize("pattern", ["(a*)*b", "(a|aa)+$", "(a|a)*c", "(.*)*(.*)*(.*)*x"])
def test_patterns_that_make_other_engines_run_for_ever(pattern: str) -> None:
    text = f'(device.attributes["d"].text + "!").matches("{pattern}")'

    assert compile_expression(text).matches(DEVICE) is False


@pytest.mark.parametrize("pattern", [r"(?=a)", r"(a)\\1", r"a{1001}", r"\\C", "(?<=a)b"])
def test_patterns_that_re2_does_not_have_are_refused(pattern: str) -> None:
    with pytest.raises(CompileError, match="invalid matches argument"):
        compile_expression(f'device.driver.matches("{pattern}")')
