"""Arbitrary input at every door: a clear error, no crash, no hang, no unbounded memory.

`inputs` makes the input: noise, JSON of any shape, and good documents with something broken in
them.  Each test names the errors that its door may answer with; anything else fails it.
"""
