"""Kubernetes objects as typed structs, and pure functions over them."""
