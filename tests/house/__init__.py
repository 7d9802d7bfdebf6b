"""The house itself: its rules, and the small rooms everybody uses."""
