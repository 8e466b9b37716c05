"""The program ``starqe``, also as ``python -m starqe``."""

import sys


def main() -> None:
    """Loads and runs the command line; Ctrl-C while it is loading ends it as at any later moment."""
    try:
        from starqe.cli.main import main as run

        run()
    except KeyboardInterrupt:
        print("starqe: interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
