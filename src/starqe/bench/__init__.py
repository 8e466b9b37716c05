"""How fast it is: every speed claim, measured on the spot, as ratios."""
