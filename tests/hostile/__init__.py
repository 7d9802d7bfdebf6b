"""What an ordinary user may send to make things slow for everybody."""
