"""Run the command line as ``python -m markedness``."""

from markedness.cli import main

if __name__ == "__main__":
    main()
