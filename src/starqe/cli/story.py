"""The demo's story, told step by step."""


def tell(seed: int) -> None:
    """Tells what starqe can do, on the embedded graph."""
    from starqe.kg import embedded_graph

    graph = embedded_graph()
    print(graph, seed)
