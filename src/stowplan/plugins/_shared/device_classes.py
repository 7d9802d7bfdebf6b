"""Extended resources that a device class stands for: `nvidia.com/gpu` may be had as devices.

A class may name a resource, and always has one made of its own name.  DynamicResources allocates
such resources where no device plugin offers them; NodeResourcesFit leaves them alone there.
Mirrors kube-scheduler's `dynamicresources/extended/device_class_cache.go`.
"""

from __future__ import annotations

from collections.abc import Mapping

from stowplan.objects.devices import DeviceClass
from stowplan.objects.resources import is_extended
from stowplan.objects.times import parse_time
from stowplan.state.object_index import ObjectIndex

IMPLICIT_PREFIX = "deviceclass.resource.kubernetes.io/"


def may_be_devices(resource: str) -> bool:
    """Whether the name is one that a class could stand for."""
    return "/" in resource and (resource.startswith(IMPLICIT_PREFIX) or is_extended(resource))


class ResourceClasses:
    """Which class stands for which resource."""

    def __init__(self, objects: ObjectIndex) -> None:
        self._objects = objects
        self._classes = objects.all(DeviceClass)
        self._version = 0
        self._by_resource: Mapping[str, DeviceClass] = {}

    @property
    def version(self) -> int:
        """Grows with every change of a class."""
        return self._objects.version(DeviceClass)

    @property
    def by_resource(self) -> Mapping[str, DeviceClass]:
        version = self._objects.version(DeviceClass)
        if version != self._version:
            self._version = version
            self._by_resource = classes_by_resource(self._classes)
        return self._by_resource


def classes_by_resource(classes: Mapping[str, DeviceClass]) -> dict[str, DeviceClass]:
    """As if they had come in the order of their names.

    The younger of two that name the same resource has it, then the one with the smaller name.  As
    upstream has it, a class that finds its resource taken loses its implicit name as well.
    """
    found: dict[str, DeviceClass] = {}
    for name in sorted(classes):
        one = classes[name]
        resource = one.spec.extended_resource_name
        if resource:
            known = found.get(resource)
            if known is not None and not _precedes(one, known):
                continue
            found[resource] = one
        found[IMPLICIT_PREFIX + name] = one
    return found


def _precedes(one: DeviceClass, other: DeviceClass) -> bool:
    mine, theirs = _created_s(one), _created_s(other)
    return mine > theirs if mine != theirs else one.metadata.name < other.metadata.name


def _created_s(one: DeviceClass) -> float:
    created = one.metadata.creation_timestamp
    return parse_time(created) if created else 0.0
