"""How it is driven: parse, call, print. Rooms are imported inside the commands, so that help is instant."""
