"""The versions, in the one place that the build, the command and the metrics read them from."""

__version__ = "0.1.0"

KUBERNETES_VERSION = "1.36.4"
"""The kube-scheduler whose decisions, metrics and flags these are."""
