"""The practice cluster's Pillow: it is there, and nobody opens an image."""
