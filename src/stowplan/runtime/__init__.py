"""The shell around the machine: informers in, effects out, live or simulated."""
