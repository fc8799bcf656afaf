"""Plots, tables and decks from the same results and charts as the screen; heavy libraries are imported when used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labtui.export.lab import ExportReport, export_lab

__all__ = ["ExportReport", "export_lab"]


def __getattr__(name: str) -> Any:
    """`export_lab` and `ExportReport`, loaded when they are first used."""
    if name in __all__:
        from labtui.export import lab

        return getattr(lab, name)
    raise AttributeError(name)
