"""Addresses and node ports of Services, as kube-apiserver hands them out.

Nothing listens there: clients wait until a Service has its address (`helm --wait`), and other
objects name it.  A number that no other write has makes the address, so that a run repeats
exactly; one that a client asks for itself is taken as it is.  Pure, on JSON data.
"""

from __future__ import annotations

import ipaddress
from typing import Any

Data = dict[str, Any]

ADDRESSES = ipaddress.ip_network("10.96.0.0/12")
NODE_PORTS = range(30000, 32768)

_ALLOCATED = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "healthCheckNodePort")


def with_addresses(data: Data, number: int) -> Data:
    """A new Service with what it does not say itself; `number` is of this write alone."""
    spec = data.get("spec")
    if not isinstance(spec, dict) or spec.get("type") == "ExternalName":
        return data
    address = spec.get("clusterIP") or next(iter(spec.get("clusterIPs") or ()), "")
    if not address:
        address = str(ADDRESSES[1 + number % (ADDRESSES.num_addresses - 2)])
    family = "IPv6" if ":" in address else "IPv4"
    filled = {
        "clusterIP": address,
        "clusterIPs": [address],
        "ipFamilies": [family],
        "ipFamilyPolicy": "SingleStack",
        **spec,
    }
    if spec.get("type") in ("NodePort", "LoadBalancer"):
        filled["ports"] = [
            {"nodePort": NODE_PORTS[(number + n) % len(NODE_PORTS)], **port}
            for n, port in enumerate(spec.get("ports") or ())
        ]
    return {**data, "spec": filled}


def keep_addresses(body: Data, current: Data) -> Data:
    """An update that does not speak of addresses does not give them back."""
    before = current.get("spec") or {}
    spec = body.get("spec") or {}
    if "ExternalName" in (spec.get("type"), before.get("type")):
        return body
    kept = {name: before[name] for name in _ALLOCATED if name in before and not spec.get(name)}
    ports = {port.get("port"): port.get("nodePort") for port in before.get("ports") or ()}
    if spec.get("type") in ("NodePort", "LoadBalancer"):
        kept["ports"] = [
            {**port, "nodePort": port.get("nodePort") or ports[port.get("port")]}
            if ports.get(port.get("port"))
            else port
            for port in spec.get("ports") or ()
        ]
    return {**body, "spec": {**spec, **kept}}
