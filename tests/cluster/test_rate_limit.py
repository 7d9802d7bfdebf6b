"""So many calls at once, so many a second, in the order they came."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stowplan.clock import VirtualClock
from stowplan.cluster.rate_limit import RateLimiter


def test_a_burst_goes_at_once_and_the_rest_one_by_one() -> None:
    limiter = RateLimiter(VirtualClock(), qps=10.0, burst=3)

    assert [limiter.delay_s() for _ in range(6)] == [0.0, 0.0, 0.0, 0.1, 0.2, 0.3]


def test_what_is_not_used_is_saved_up_to_a_burst() -> None:
    clock = VirtualClock()
    limiter = RateLimiter(clock, qps=10.0, burst=2)
    for _ in range(2):
        limiter.delay_s()
    clock.advance(3600.0)

    assert [limiter.delay_s() for _ in range(3)] == [0.0, 0.0, 0.1]


def test_a_negative_rate_is_no_limit() -> None:
    limiter = RateLimiter(VirtualClock(), qps=-1.0, burst=1)

    assert {limiter.delay_s() for _ in range(1000)} == {0.0}


def test_a_burst_of_zero_still_lets_calls_through() -> None:
    assert RateLimiter(VirtualClock(), qps=1.0, burst=0).delay_s() == 0.0


def test_a_clock_that_is_set_back_costs_nobody_a_turn() -> None:
    clock = VirtualClock(now_s=3600.0)
    limiter = RateLimiter(clock, qps=10.0, burst=3)
    assert limiter.delay_s() == 0.0

    clock.now_s = 0.0

    assert [limiter.delay_s() for _ in range(3)] == [0.0, 0.0, 0.1]
    clock.advance(0.2)
    assert limiter.delay_s() == 0.0, "and time counts from where it was set to"


@given(
    st.floats(0.5, 100.0),
    st.integers(1, 20),
    st.lists(st.floats(0.0, 2.0), min_size=1, max_size=60),
)
def test_no_stretch_of_time_holds_more_than_its_share(
    qps: float, burst: int, gaps: list[float]
) -> None:
    clock = VirtualClock()
    limiter = RateLimiter(clock, qps, burst)
    sent = []
    for gap in gaps:
        clock.advance(gap)
        sent.append(clock.now() + limiter.delay_s())

    assert sent == sorted(sent)
    for first, start_s in enumerate(sent):
        for last in range(first, len(sent)):
            count = last - first + 1
            assert count <= burst + qps * (sent[last] - start_s) + 1e-6
