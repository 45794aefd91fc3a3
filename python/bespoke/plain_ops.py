"""Modules without the operators that LibTorch 1.13 lacks or cannot differentiate.

Newer PyTorch fuses attention and RMS normalisation into operators of their own. Bespoke also runs
with LibTorch 1.13, so while a module is exported these are replaced by plain, equal formulas.
"""

import contextlib
import math
import sys
from typing import List, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

# Operators of PyTorch 2.0 to 2.11 that a network may hold and 1.13 has not.
MISSING_IN_1_13 = frozenset("aten::" + name for name in """
    scaled_dot_product_attention _scaled_dot_product_flash_attention
    _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_efficient_attention
    _scaled_dot_product_cudnn_attention _scaled_dot_product_fused_attention_overrideable
    _scaled_dot_product_attention_math_for_mps _flash_attention_forward
    _efficient_attention_forward _fused_sdp_choice _safe_softmax rms_norm _fused_rms_norm
    _native_batch_norm_legit _native_batch_norm_legit_functional
    _native_batch_norm_legit_no_training _batch_norm_with_update _batch_norm_no_update
    _batch_norm_with_update_functional _prelu_kernel _unsafe_index _unsafe_index_put
    _unsafe_masked_index _unsafe_masked_index_put_accumulate _int_mm _mixed_dtypes_linear
    _scaled_mm _scaled_mm_v2 _grouped_mm _scaled_grouped_mm _scaled_grouped_mm_v2
    _weight_int8pack_mm _weight_int4pack_mm _weight_int4pack_mm_for_cpu
    _weight_int4pack_mm_with_scales_and_zeros _convert_weight_to_int4pack
    _convert_weight_to_int4pack_for_cpu _dyn_quant_matmul_4bit _dyn_quant_pack_4bit_weight
    _wrapped_linear_prepack _chunk_cat _is_all_true _is_any_true _assert_scalar
    _functional_assert_scalar _functional_assert_async _print _lazy_clone empty_permuted
    nonzero_static slice_inverse linalg__powsum _linalg_eigvals hash_tensor get_autocast_dtype
    rrelu_with_noise_functional sym_constrain_range sym_constrain_range_for_size
    _jagged_to_padded_dense_forward _padded_dense_to_jagged_forward _nested_view_from_jagged
""".split())

# The fast paths of nn.MultiheadAttention and nn.TransformerEncoderLayer have no derivative.
WITHOUT_DERIVATIVE = frozenset(["aten::_native_multi_head_attention",
                                "aten::_transformer_encoder_layer_fwd"])


def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor,
                                 attn_mask: Optional[Tensor] = None, dropout_p: float = 0.0,
                                 is_causal: bool = False, scale: Optional[float] = None,
                                 enable_gqa: bool = False) -> Tensor:
    """softmax(scale Q K^T + mask) V over [..., length, channels], as PyTorch's own.

    A boolean mask is true where attention is allowed. Dropout is left out: it is for training.
    """
    if enable_gqa:
        groups = query.size(-3) // key.size(-3)
        key = key.repeat_interleave(groups, -3)
        value = value.repeat_interleave(groups, -3)
    # A power of the size rather than math.sqrt, which a trace would warn about.
    factor = query.size(-1) ** -0.5 if scale is None else scale
    scores = torch.matmul(query * factor, key.transpose(-2, -1))
    if is_causal:
        # Made of the scores: a new tensor of ones would fix the device in a trace.
        future = torch.triu(scores * 0 + 1, 1) > 0
        scores = scores.masked_fill(future, -math.inf)
    if attn_mask is not None:
        if attn_mask.dtype == torch.bool:
            scores = scores.masked_fill(torch.logical_not(attn_mask), -math.inf)
        else:
            scores = scores + attn_mask
    return torch.matmul(torch.softmax(scores, -1), value)


def rms_norm(input: Tensor, normalized_shape: List[int], weight: Optional[Tensor] = None,
             eps: Optional[float] = None) -> Tensor:
    """x / sqrt(mean x^2 + eps), times the weight, as F.rms_norm for float32."""
    axes = [-1 - i for i in range(len(normalized_shape))]
    least = 1.1920928955078125e-07 if eps is None else eps
    scaled = input * torch.rsqrt((input * input).mean(axes, keepdim=True) + least)
    return scaled if weight is None else scaled * weight


def _attention_forward(self, query: Tensor, key: Tensor, value: Tensor,
                       key_padding_mask: Optional[Tensor] = None, need_weights: bool = True,
                       attn_mask: Optional[Tensor] = None, average_attn_weights: bool = True,
                       is_causal: bool = False) -> Tuple[Tensor, Optional[Tensor]]:
    """nn.MultiheadAttention.forward without its fast path.

    is_causal is only a hint that attn_mask is causal, which the plain computation does not need.
    """
    swap = self.batch_first and query.dim() == 3
    if swap:
        query, key, value = query.transpose(0, 1), key.transpose(0, 1), value.transpose(0, 1)
    output, weights = F.multi_head_attention_forward(
        query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias,
        self.bias_k, self.bias_v, self.add_zero_attn, 0.0, self.out_proj.weight,
        self.out_proj.bias, training=False, key_padding_mask=key_padding_mask,
        need_weights=need_weights, attn_mask=attn_mask,
        use_separate_proj_weight=not self._qkv_same_embed_dim, q_proj_weight=self.q_proj_weight,
        k_proj_weight=self.k_proj_weight, v_proj_weight=self.v_proj_weight,
        average_attn_weights=average_attn_weights)
    return output.transpose(0, 1) if swap else output, weights


def _encoder_layer_forward(self, src: Tensor, src_mask: Optional[Tensor] = None,
                           src_key_padding_mask: Optional[Tensor] = None,
                           is_causal: bool = False) -> Tensor:
    """nn.TransformerEncoderLayer.forward without its fast path."""
    x = src
    if self.norm_first:
        x = x + self._sa_block(self.norm1(x), src_mask, src_key_padding_mask)
        return x + self._ff_block(self.norm2(x))
    x = self.norm1(x + self._sa_block(x, src_mask, src_key_padding_mask))
    return self.norm2(x + self._ff_block(x))


@contextlib.contextmanager
def plain_operators(module):
    """While it lasts, PyTorch computes with the plain formulas above; afterwards all is as before.

    `module` is what is exported: the Python modules its classes come from are searched for
    functions that were imported by name. The replacement is seen by every thread.
    """
    with contextlib.ExitStack() as stack:
        for owner, name, plain in list(_replacements(module)):
            stack.enter_context(_attribute(owner, name, plain))
        stack.enter_context(_empty_script_caches())
        yield


def _replacements(module):
    """(owner, attribute, replacement) for everything this PyTorch has of it."""
    yield torch.nn.MultiheadAttention, "forward", _attention_forward
    yield torch.nn.TransformerEncoderLayer, "forward", _encoder_layer_forward
    for part in module.modules():
        # Nested tensors exist only for the fast path.
        for name in ("enable_nested_tensor", "use_nested_tensor"):
            if isinstance(part, torch.nn.TransformerEncoder) and hasattr(part, name):
                yield part, name, False
    homes = {sys.modules.get(type(part).__module__) for part in module.modules()} - {None}
    for name, plain in (("scaled_dot_product_attention", scaled_dot_product_attention),
                        ("rms_norm", rms_norm)):
        fused = getattr(F, name, None)
        if fused is None:
            continue
        for owner in {F, torch._C._nn} | homes:
            for alias in [key for key, value in vars(owner).items() if value is fused]:
                yield owner, alias, plain


@contextlib.contextmanager
def _attribute(owner, name, value):
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextlib.contextmanager
def _empty_script_caches():
    """torch.jit.script compiles anew what it met before: a cached function holds the fused
    operators, and what is compiled now must not be met later."""
    functions = torch.jit._state._jit_caching_layer
    before = dict(functions)
    functions.clear()
    try:
        with _attribute(torch.jit._recursive, "concrete_type_store",
                        torch.jit._recursive.ConcreteTypeStore()):
            yield
    finally:
        functions.clear()
        functions.update(before)
