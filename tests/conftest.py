"""Settings for every test: hypothesis profiles."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

# No deadline: a slow machine is not a wrong program.
settings.register_profile("default", deadline=None)
settings.register_profile(
    "ci",
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
# To notice a planted bug is enough (tests/mutants): no time goes into the smallest example.
settings.register_profile(
    "mutants",
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
