"""Tests mirror the rooms; beside them `conformance`, `simulation`, `e2e`, and `house` rules."""
