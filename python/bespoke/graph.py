"""Reading and changing the graphs of TorchScript modules."""

import torch


def operators(module):
    """The names of all operators in a TorchScript module's forward."""
    graph = module.inlined_graph  # held: its nodes end with it
    found, blocks = set(), [graph]
    while blocks:
        for node in blocks.pop().nodes():
            found.add(node.kind())
            blocks.extend(node.blocks())
    return found


def follow_device(traced):
    """A trace fixes the device of the tensors it makes; lets them follow the inputs' instead.

    Returns the modules where that cannot be done because they have no tensor to follow.
    """
    stuck = []
    for name, module in traced.named_modules():
        for method in module._c._method_names():
            graph = module._c._get_method(method).graph
            constants = [node for node in graph.findAllNodes("prim::Constant")
                         if node.output().type().kind() == "DeviceObjType"]
            tensors = [value for value in graph.inputs() if value.type().kind() == "TensorType"]
            if constants and not tensors:
                stuck.append(name or "the module")
            elif constants:
                device = graph.create("prim::device", [tensors[0]])
                device.output().setType(torch._C.DeviceObjType.get())
                graph.prependNode(device)
                for constant in constants:
                    constant.output().replaceAllUsesWith(device.output())
    return stuck
