"""Layouts as data: where rows and heads of Q, K, V and O lie, in elements."""

from autotune.kernels.attention.problem import AttentionProblem


def strides(p: AttentionProblem) -> dict[str, int]:
    """The strides that the kernels take as sizes, by name.

    Element i of row s of head h in entry b of the batch lies, with g = h // group the KV head, at

        q[b·q_batch + g·q_group + (h % group)·q_head + s·q_row + i]
        k[b·k_batch + g·k_head + s·k_row + i]          v likewise
        o[b·o_batch + h·o_head + s·o_row + i]

    Packed layouts add `k_start` and `v_start`, and interleaved ones `element`, by which i is multiplied.
    """
    h, g, d, e = p.heads, p.kv_heads, p.head_dim, p.v_head_dim
    if p.layout == "bhsd":
        found = {
            **_of("q", batch=h * p.seq * d, head=p.seq * d, row=d),
            **_of("k", batch=g * p.capacity * d, head=p.capacity * d, row=d),
            **_of("v", batch=g * p.capacity * e, head=p.capacity * e, row=e),
            **_of("o", batch=h * p.seq * e, head=p.seq * e, row=e),
        }
        return found | {"q_group": p.group * p.seq * d}
    out = _of("o", batch=p.seq * h * e, head=e, row=h * e)
    if p.layout == "bshd":
        return {
            **_of("q", batch=p.seq * h * d, head=d, row=h * d),
            **_of("k", batch=p.capacity * g * d, head=d, row=g * d),
            **_of("v", batch=p.capacity * g * e, head=e, row=g * e),
            **out,
            "q_group": p.group * d,
        }
    row = p.row_elements
    heads = {
        "qkv": {"q": d, "k": d, "v": e, "group": p.group * d, "k_start": h * d, "v_start": (h + g) * d},
        "qkv-interleaved": {"q": 1, "k": 1, "v": 1, "group": p.group, "k_start": h, "v_start": h + g},
        "qkv-split": {
            "q": d,
            "k": row // g,
            "v": row // g,
            "group": row // g,
            "k_start": p.group * d,
            "v_start": (p.group + 1) * d,
        },
    }[p.layout]
    found = dict(out)
    for x in "qkv":
        found |= _of(x, batch=p.seq * row, head=heads[x], row=row)
    found |= {"q_group": heads["group"], "k_start": heads["k_start"], "v_start": heads["v_start"]}
    if p.layout == "qkv-interleaved":
        found["element"] = h + 2 * g
    return found


def mask_strides(p: AttentionProblem) -> dict[str, int]:
    """Strides of the mask in elements, 0 along broadcast dimensions; none without a mask."""
    if p.mask == "none":
        return {}
    batch, heads, queries, keys = p.mask_shape()
    return {
        "mask_batch": heads * queries * keys if batch > 1 else 0,
        "mask_head": queries * keys if heads > 1 else 0,
        "mask_row": keys if queries > 1 else 0,
    }


def contiguous(p: AttentionProblem) -> bool:
    """Whether the elements of a row lie together and rows start at multiples of a vec4."""
    return p.layout != "qkv-interleaved" and p.head_dim % 4 == 0 and p.v_head_dim % 4 == 0


def _of(x: str, *, batch: int, head: int, row: int) -> dict[str, int]:
    return {f"{x}_batch": batch, f"{x}_head": head, f"{x}_row": row}
