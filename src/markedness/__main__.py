"""The command line, also as ``python -m markedness``: a stage of DVC runs in the warm process, all else here."""

import sys


def main() -> None:
    """Exit status: see `markedness.cli.main`."""
    from markedness.warm import hand_over

    status = hand_over(sys.argv)
    if status is None:
        from markedness.cli import main as command_line

        return command_line()
    sys.exit(status)


if __name__ == "__main__":
    main()
