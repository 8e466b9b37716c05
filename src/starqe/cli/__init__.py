"""The command line: parse, call, print. Packages are imported inside the commands, so that help is fast."""
