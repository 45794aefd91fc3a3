"""Stands in for ComfyUI's newer interface of nodes."""
