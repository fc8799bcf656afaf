"""Whole screens and modals."""
