"""What keeps the service alive: connections, guards, batches, workers, memory, metrics."""
