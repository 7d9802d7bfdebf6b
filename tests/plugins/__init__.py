"""The room `plugins`: a file per plugin, examples from the spec and random clusters."""
