"""The program ``starqe``, also as ``python -m starqe``."""

import contextlib
import os
import sys

INTERRUPTED = (130, 143)
"""The exit codes after Ctrl-C and SIGTERM."""


def main() -> None:
    """Loads and runs the command line; Ctrl-C while it is loading ends it as at any later moment."""
    try:
        from starqe.cli.main import main as run

        run()
    except KeyboardInterrupt:
        print("starqe: interrupted", file=sys.stderr)
        _end(130)
    except SystemExit as stop:
        if stop.code in INTERRUPTED:
            _end(int(stop.code))
        raise


def _end(code: int) -> None:
    """Ends at once: libraries that were interrupted while they were loading may abort when the interpreter takes them down."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
