// The operands, row-major in memory: A is {{ "K×M (transposed)" if transpose_a else "M×K" }}, B is {{ "N×K (transposed)" if transpose_b else "K×N" }}, C is M×N{{ ", one of each for every entry of the batch" if batched else "" }}.
// `Stored` is the element type of A and B, `Sum` the type that sums are kept in{{ ", and
// `Staged` the type held in workgroup memory" if staged is defined else "" }}.
alias Stored = {{ dtype }};
alias Sum = {{ accumulate }};
//# if staged is defined
alias Staged = {{ accumulate if staged == "accumulator" else dtype }};
//# endif
@group(0) @binding({{ binding_a }}) var<storage, {{ mode_a }}> a: array<{{ element_a | default("vec4<Stored>" if vector_a == 4 else "Stored") }}>;
@group(0) @binding({{ binding_b }}) var<storage, {{ mode_b }}> b: array<{{ element_b | default("vec4<Stored>" if vector_b == 4 else "Stored") }}>;
//# if packs and batched

// Rows of what has been packed{{ ", with zeros past K" if depth_step > 1 }}.
fn packed_depth() -> u32 {
    return {{ "sizes.k" if depth_step == 1 else "(sizes.k + %du) / %du * %du" % (depth_step - 1, depth_step, depth_step) }};
}
//# endif
//# for x in packs

// {{ x | upper }} has been packed: its rows are a multiple of {{ pack_step }} elements.
fn pitch_{{ x }}() -> u32 {
    return (sizes.{{ "m" if x == "a" else "n" }} + {{ pack_step - 1 }}u) / {{ pack_step }}u * {{ pack_step }}u;
}
//# endfor
