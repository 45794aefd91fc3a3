"""Bespoke solvers in ComfyUI: put this folder into custom_nodes."""

try:
    from .extension import comfy_entrypoint  # noqa: F401

    __all__ = ["comfy_entrypoint"]
except ImportError:  # a ComfyUI from before it had schemas
    from .nodes import NODE_CLASS_MAPPINGS, NODE_DISPLAY_NAME_MAPPINGS

    __all__ = ["NODE_CLASS_MAPPINGS", "NODE_DISPLAY_NAME_MAPPINGS"]
