"""Tests of the machine: the whole scheduler under virtual time, and its parts."""
