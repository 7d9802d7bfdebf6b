"""Kubernetes objects as typed structs, and pure functions over them.

Start with `pod` and `node` (the structs), then `resources` and `labels` (what plugins ask of
them); `manifests` is how a user's files become objects, `workload_pods` what controllers make of
workloads, `codec` how objects are written back whole.  Nothing here reads a clock, a file or the
network, or needs NumPy.
"""
