"""``starqe demo``: the whole story on the embedded graph."""

import typer


def demo(seed: int = typer.Option(0, help="Decides everything that is random.")) -> None:
    """Show what starqe does, on the embedded graph, in about a minute."""
    from starqe.cli.story import tell

    tell(seed)
