"""The attention problems that kernels are tested with."""

from typing import get_args

import numpy as np
from hypothesis import strategies as st

from autotune.kernels.attention import ATTENTION, AttentionProblem
from autotune.kernels.attention.problem import Broadcast, Layout, Mask


def problem(**changes):
    return AttentionProblem(**{"heads": 2, "seq": 20, "head_dim": 8, **changes})


FEATURES = {
    "plain": {},
    "causal": {"causal": True, "seq": 19, "kv_seq": 37},
    "more queries than keys": {"causal": True, "seq": 37, "kv_seq": 20, "lse": True},
    "window": {"causal": True, "window": 5, "seq": 35, "kv_seq": 40},
    "window both ways": {"window": 6, "seq": 35, "kv_seq": 35},
    "softcap and scale": {"softcap": 3.0, "scale": 0.7},
    "bias for all": {"mask": "bias", "mask_broadcast": "bhq", "kv_seq": 45},
    "bias of queries": {"mask": "bias", "mask_broadcast": "bh", "kv_seq": 45, "causal": True, "batch": 2},
    "bias of heads": {"mask": "bias", "mask_broadcast": "q", "batch": 2, "seq": 21},
    "boolean": {"mask": "bool", "mask_broadcast": "none", "batch": 2, "kv_seq": 35, "lse": True},
    "boolean of entries": {"mask": "bool", "mask_broadcast": "hq", "batch": 3, "causal": True},
    "alibi": {"alibi": True, "causal": True, "heads": 3},
    "alibi both ways and sinks": {"alibi": True, "sinks": True, "kv_seq": 33, "lse": True},
    "lengths": {"lengths": True, "batch": 3, "causal": True, "sinks": True, "kv_seq": 50},
    "groups": {"heads": 14, "kv_heads": 2, "seq": 5, "kv_seq": 33},
    "cache": {"seq": 3, "kv_seq": 35, "capacity": 40, "layout": "bhsd", "batch": 2, "causal": True},
    "shared cache": {"seq": 3, "kv_seq": 35, "capacity": 40, "batch": 2, "causal": True, "kv_heads": 1},
    "columns": {"head_dim": 12, "v_head_dim": 20, "kv_seq": 33},
    "packed": {"layout": "qkv", "heads": 4, "kv_heads": 2, "batch": 2, "v_head_dim": 4},
    "split": {"layout": "qkv-split", "heads": 4, "kv_heads": 2, "batch": 2, "v_head_dim": 4, "lse": True},
}  # fmt: skip
ODD = {
    "head dim 1": {"head_dim": 1},
    "head dims 5 and 7": {"head_dim": 5, "v_head_dim": 7, "layout": "bhsd", "capacity": 25, "batch": 2},
    "interleaved": {"layout": "qkv-interleaved", "heads": 4, "kv_heads": 2, "batch": 2},
}
"""Problems whose rows do not come in vec4s."""


@st.composite
def problems(draw):
    """Small problems of all kinds."""
    group, kv_heads = draw(st.sampled_from([1, 2, 3])), draw(st.integers(1, 3))
    layout = draw(st.sampled_from(get_args(Layout)))
    seq = draw(st.integers(1, 35))
    kv_seq = seq if layout.startswith("qkv") else draw(st.integers(1, 50))
    head_dim = draw(st.integers(1, 3)) * draw(st.sampled_from([1, 4, 4, 4]))
    return AttentionProblem(
        batch=draw(st.integers(1, 3)),
        heads=group * kv_heads,
        kv_heads=kv_heads,
        seq=seq,
        kv_seq=kv_seq,
        capacity=kv_seq + (0 if layout.startswith("qkv") else draw(st.integers(0, 5))),
        head_dim=head_dim,
        layout=layout,
        causal=draw(st.booleans()),
        window=draw(st.sampled_from([0, 0, 1, 7, 20])),
        softcap=draw(st.sampled_from([0.0, 0.0, 2.0])),
        mask=draw(st.sampled_from(get_args(Mask))),
        mask_broadcast=draw(st.sampled_from(get_args(Broadcast))),
        alibi=draw(st.booleans()),
        lengths=draw(st.booleans()),
        sinks=draw(st.booleans()),
        lse=draw(st.booleans()),
    )


UNSEEN = {"batch": 2, "mask": "bool", "mask_broadcast": "bh", "lengths": True, "lse": True, "kv_seq": 40}
"""Queries that see nothing, once some of the mask and the lengths are taken away."""


def assert_unseen_queries_are_0(runtime, asked, config):
    """Run a problem with `UNSEEN` on outputs that held something else; gives the data, O and LSE."""
    plan = ATTENTION.plan(asked, config, specialize=False)
    data = ATTENTION.inputs(asked, 1, integers=False)
    kept = data["mask"].view(np.uint8).reshape(20, 40)
    kept[3] = 0
    kept[5, :39] = 0  # the only key that is left lies in the last tile
    kept[5, 39] = 1
    data["lengths"][:] = (40, 0)
    types = {"o": data["q"].dtype, "lse": np.dtype(np.float32)}
    nothing = {name: np.full(asked.elements()[name], 7, types[name]).tobytes() for name in types}
    runtime.load({name: values.tobytes() for name, values in data.items()} | nothing)
    found = runtime.run(runtime.compile(plan))
    o = np.frombuffer(found["o"], types["o"]).reshape(2, 20, 2, 8)
    lse = np.frombuffer(found["lse"], types["lse"]).reshape(2, 2, 20)
    assert np.all(o[1] == 0)
    assert np.all(o[0, 3] == 0)
    assert np.all(lse[1] == np.float32(-1e30))
    return data, o, lse
