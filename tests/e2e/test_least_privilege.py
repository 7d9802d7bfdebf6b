"""Every right of deploy/ is needed: without it, the start is refused or what fails is named."""

from __future__ import annotations

