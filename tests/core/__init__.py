"""The room `core`: the machine, and what it decides."""
