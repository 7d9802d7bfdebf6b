"""The port's clients: reflectors and informers."""
