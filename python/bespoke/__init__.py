"""Python side of Bespoke: bring a PyTorch model to the solver compiler."""

from bespoke.adapters import DiffusersUNet
from bespoke.exporting import Export, ExportError, export_model

__all__ = ["DiffusersUNet", "Export", "ExportError", "export_model"]
