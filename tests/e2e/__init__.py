"""End to end: the installed command as real processes, on the embedded server and a real one."""
