"""The machine: events in, effects out."""
