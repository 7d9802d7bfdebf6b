"""What stands in `examples/` works, and does what the documents say."""
