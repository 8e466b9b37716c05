"""Published data sets: the catalogue, downloads, and the copies on this machine."""
