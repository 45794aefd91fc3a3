"""The same nodes by ComfyUI's newer interface, which has a schema for each."""

from comfy_api.latest import ComfyExtension, io

from .nodes import NODE_CLASS_MAPPINGS, NODE_DISPLAY_NAME_MAPPINGS

KINDS = {"MODEL": io.Model, "CONDITIONING": io.Conditioning, "LATENT": io.Latent,
         "GUIDER": io.Guider, "SAMPLER": io.Sampler, "SIGMAS": io.Sigmas, "INT": io.Int,
         "FLOAT": io.Float, "STRING": io.String}


def _input(name, kind, options=None):
    if isinstance(kind, (list, tuple)):
        return io.Combo.Input(name, options=list(kind), **(options or {}))
    return KINDS[kind].Input(name, **(options or {}))


def _schema(node_id, node):
    names = getattr(node, "RETURN_NAMES", node.RETURN_TYPES)
    outputs = [KINDS[kind].Output(display_name=name, tooltip=tooltip)
               for kind, name, tooltip in zip(node.RETURN_TYPES, names, node.OUTPUT_TOOLTIPS)]
    return io.Schema(
        node_id=node_id, display_name=NODE_DISPLAY_NAME_MAPPINGS[node_id], category=node.CATEGORY,
        description=node.DESCRIPTION, outputs=outputs,
        inputs=[_input(name, *given) for name, given in node.INPUT_TYPES()["required"].items()],
        is_output_node=getattr(node, "OUTPUT_NODE", False))


def schema_node(node_id, node):
    """The node as a class of the newer interface."""
    def define_schema(cls):
        return _schema(node_id, node)

    def execute(cls, **inputs):
        found = getattr(node(), node.FUNCTION)(**inputs)
        return io.NodeOutput.from_dict(found) if isinstance(found, dict) else io.NodeOutput(*found)

    return type(node_id, (io.ComfyNode,), {"__doc__": node.__doc__, "__module__": __name__,
                                           "define_schema": classmethod(define_schema),
                                           "execute": classmethod(execute)})


class BespokeExtension(ComfyExtension):
    """All nodes of this folder."""

    async def get_node_list(self):
        """Asked by ComfyUI once, as it starts."""
        return [schema_node(node_id, node) for node_id, node in NODE_CLASS_MAPPINGS.items()]


async def comfy_entrypoint():
    """Where ComfyUI begins."""
    return BespokeExtension()
