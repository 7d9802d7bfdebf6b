"""What the end-to-end tests stand on: processes, clusters under test, a plain client.

Nothing here imports `stowplan`: what checks the program must not share its mistakes.
"""
