"""The room `cli`: what users type, and what they read."""
