"""What several plugins need; nothing here knows a plugin."""
