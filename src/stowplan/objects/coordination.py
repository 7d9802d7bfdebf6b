"""Lease (who leads) and Event (what happened), both written by the scheduler itself."""

from __future__ import annotations

from stowplan.objects.base import KubeObject, ObjectReference, Struct


class LeaseSpec(Struct, frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(KubeObject, frozen=True):
    spec: LeaseSpec = LeaseSpec()


class EventSeries(Struct, frozen=True):
    count: int = 0
    last_observed_time: str | None = None


class Event(KubeObject, frozen=True):
    """events.k8s.io/v1."""

    event_time: str | None = None
    series: EventSeries | None = None
    reporting_controller: str = ""
    reporting_instance: str = ""
    action: str = ""
    reason: str = ""
    regarding: ObjectReference | None = None
    related: ObjectReference | None = None
    note: str = ""
    type: str = ""
