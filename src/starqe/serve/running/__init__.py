"""Operation of the service: connections, guards, batches, workers, memory, metrics."""
