"""Steps of training: how gradients become new weights, in one process or several."""
