"""Settings for every test: hypothesis profiles."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# No deadline: a slow machine is not a wrong program.
settings.register_profile("default", deadline=None)
settings.register_profile(
    "ci",
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
