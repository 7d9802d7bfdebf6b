"""Traces, and what is done with them."""
