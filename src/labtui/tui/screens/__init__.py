"""The screens and modal screens."""
