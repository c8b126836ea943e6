{#-
The buffers of attention, where rows and heads lie in them, and loads of four neighbours of a row. `uses`
names what the pass binds; `vector` is 4 where rows come in whole vec4s, else 1; `guard_d` and `guard_v` tell
whether loads may reach past the end of a row of Q and K, or of V.
-#}
//# set access = "vec4<Stored>" if vector == 4 else "Stored"
//# set name = {"q": "qkv", "k": "qkv", "v": "qkv"} if packed else {"q": "q", "k": "k", "v": "v"}
alias Stored = {{ dtype }};
//# if packed and "q" in uses or packed and "v" in uses
@group(0) @binding(1) var<storage, read> qkv: array<{{ access }}>;
//# elif not packed
//# for x in ["q", "k", "v"]
//# if x in uses
@group(0) @binding({{ loop.index }}) var<storage, read> {{ x }}: array<{{ access }}>;
//# endif
//# endfor
//# endif
//# if "o" in uses
@group(0) @binding(4) var<storage, read_write> o: array<{{ access }}>;
//# endif
//# if "mask" in uses
@group(0) @binding(5) var<storage, read> mask: array<{{ "u32" if mask == "bool" else "Stored" }}>;
//# endif
//# if "lengths" in uses
@group(0) @binding(6) var<storage, read> lengths: array<u32>;
//# endif
//# if "head_terms" in uses
@group(0) @binding(7) var<storage, read> head_terms: array<f32>;  // {{ "slopes" if alibi }}{{ ", then " if alibi and sinks }}{{ "sinks" if sinks }}, one a head
//# endif
//# if "lse" in uses
@group(0) @binding(8) var<storage, read_write> lse: array<f32>;
//# endif

const HEAD_DIM = {{ head_dim }}u;
const V_HEAD_DIM = {{ v_head_dim }}u;

// Where a row begins: for an entry of the batch, a head (of Q or of K and V), and a row.
//# if "q" in uses
fn q_row(batch: u32, head: u32, row: u32) -> u32 {
    return batch * sizes.q_batch + head / sizes.group * sizes.q_group + head % sizes.group * sizes.q_head + row * sizes.q_row;
}
//# endif
//# if "k" in uses
fn k_start(batch: u32, kv_head: u32) -> u32 {
    return {{ "sizes.k_start + " if packed }}batch * sizes.k_batch + kv_head * sizes.k_head;
}
//# endif
//# if "v" in uses
fn v_start(batch: u32, kv_head: u32) -> u32 {
    return {{ "sizes.v_start + " if packed }}batch * sizes.v_batch + kv_head * sizes.v_head;
}
//# endif
//# if "o" in uses
fn o_row(batch: u32, head: u32, row: u32) -> u32 {
    return batch * sizes.o_batch + head * sizes.o_head + row * sizes.o_row;
}
//# endif

// Keys that an entry of the batch has.
fn keys_of(batch: u32) -> u32 {
    return {{ "min(lengths[batch], sizes.kv_seq)" if lengths and "lengths" in uses else "sizes.kv_seq" }};
}
{% macro load(x, dim, guard) %}
//# if x in uses
//# if vector == 4
// Four neighbours of a row of {{ x | upper }}{{ "; zeros past its end" if guard }}.
fn load_{{ x }}(start: u32, i: u32) -> vec4<Stored> {
//# if guard
    if (i >= {{ dim }}) { return vec4<Stored>(); }
//# endif
    return {{ name[x] }}[(start + i) / 4u];
}
//# else
//# set at = "(i%s) * sizes.element" if interleaved else "i%s"
// Four neighbours of a row of {{ x | upper }}, one by one; zeros past its end.
fn load_{{ x }}(start: u32, i: u32) -> vec4<Stored> {
    var quad = vec4<Stored>();
//# for c in "xyzw"
//# set plus = " + %du" % loop.index0 if loop.index0 else ""
    if (i{{ plus }} < {{ dim }}) { quad.{{ c }} = {{ name[x] }}[start + {{ at % plus }}]; }
//# endfor
    return quad;
}
//# endif
//# endif
{% endmacro %}

{{ load("q", "HEAD_DIM", guard_d) }}

{{ load("k", "HEAD_DIM", guard_d) }}

{{ load("v", "V_HEAD_DIM", guard_v) }}

//# if "o" in uses
// Writes columns i to i + 3 of a row of O, as far as there are any.
fn store_o(start: u32, i: u32, value: vec4<f32>) {
//# if vector == 4
    if (i < V_HEAD_DIM) { o[(start + i) / 4u] = vec4<Stored>(value); }
//# else
//# for c in "xyzw"
    if (i{{ " + %du" % loop.index0 if loop.index0 }} < V_HEAD_DIM) { o[start + i{{ " + %du" % loop.index0 if loop.index0 }}] = Stored(value.{{ c }}); }
//# endfor
//# endif
}
//# endif
