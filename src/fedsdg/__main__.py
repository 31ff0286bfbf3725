"""`python -m fedsdg` is `fedsdg`."""

from fedsdg.cli import main

if __name__ == "__main__":
    main()
