"""``python -m starqe`` is the command line."""

from starqe.cli.main import main

main()
