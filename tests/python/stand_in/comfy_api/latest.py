"""As much of it as the nodes use."""

import types


class ComfyExtension:
    """What offers nodes."""


class _Kind:
    """A kind of value; its inputs and outputs remember what was said of them."""

    def __init__(self, io_type):
        self.io_type = io_type

    def Input(self, id, **options):
        return types.SimpleNamespace(id=id, io_type=self.io_type, options=options)

    def Output(self, display_name=None, tooltip=None):
        return types.SimpleNamespace(io_type=self.io_type, display_name=display_name,
                                     tooltip=tooltip)


class _NodeOutput(types.SimpleNamespace):
    def __init__(self, *result, ui=None):
        super().__init__(result=result, ui=ui)

    @classmethod
    def from_dict(cls, found):
        return cls(*found["result"], ui=found["ui"])


class _ComfyNode:
    @classmethod
    def GET_SCHEMA(cls):
        return cls.define_schema()


io = types.SimpleNamespace(
    ComfyNode=_ComfyNode, NodeOutput=_NodeOutput, Schema=types.SimpleNamespace,
    **{name: _Kind(name.upper()) for name in ("Model", "Conditioning", "Latent", "Guider", "Sampler",
                                              "Sigmas", "Int", "Float", "String", "Combo")})
