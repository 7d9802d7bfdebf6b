"""All cases: importing their modules registers them."""

from __future__ import annotations

from tests.e2e.devices import cases_choosing as _choosing
from tests.e2e.devices import cases_combining as _combining
from tests.e2e.devices import cases_extended as _extended
from tests.e2e.devices import cases_preparing as _preparing
from tests.e2e.devices import cases_refusing as _refusing
from tests.e2e.devices import cases_sharing as _sharing
from tests.e2e.devices import cases_writing as _writing
from tests.e2e.devices.case import CASES, Case

MODULES = (_choosing, _sharing, _refusing, _writing, _extended, _combining, _preparing)

__all__ = ["CASES", "MODULES", "Case"]
