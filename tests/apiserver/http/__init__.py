"""Tests of the REST API: a real server on a loopback port, in the process of the test."""
