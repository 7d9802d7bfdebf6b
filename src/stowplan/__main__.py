"""`python -m stowplan` is the command `stowplan`."""

from stowplan.cli import main

if __name__ == "__main__":
    main()
