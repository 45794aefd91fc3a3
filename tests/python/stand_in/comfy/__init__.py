"""A stand-in for what the nodes use of ComfyUI: what its parts compute, written anew."""
