"""How good it is: scores become filtered ranks, ranks become metrics, metrics become tables beside the paper's."""
