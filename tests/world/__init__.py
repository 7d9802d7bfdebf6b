"""The public face."""
