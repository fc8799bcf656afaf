"""What stands in for TensorFlow, PyTorch and NumPy in a practice job: everything is recorded, nothing is computed."""
