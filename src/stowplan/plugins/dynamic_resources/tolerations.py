"""Which taints of a device a request tolerates."""

from __future__ import annotations

from stowplan.objects.devices import DeviceTaint, DeviceToleration


def all_tolerated(
    taints: tuple[DeviceTaint, ...], tolerations: list[DeviceToleration] | None
) -> bool:
    return not taints or all(
        any(_tolerates(it, taint) for it in tolerations or ()) for taint in taints
    )


def _tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"
