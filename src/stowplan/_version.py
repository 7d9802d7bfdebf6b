"""The version, in the one place that the build, the command and the metrics read it from."""

__version__ = "0.1.0"
