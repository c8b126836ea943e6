//# if splits > 1 and not reducing
// K is split: each split writes a matrix of partial sums, and a second pass adds them up.
//# set element = "vec4<Sum>" if store_vector == 4 else "Sum"
@group(0) @binding(4) var<storage, read_write> sums: array<{{ element }}>;

// The place of a matrix of partial sums among those of all splits{{ " and batches" if batched else "" }}.
fn c_start(split: u32, entry: u32) -> u32 {
    return (split * {{ "sizes.batch" if batched else "1u" }} + entry) * sizes.m * sizes.n;
}

fn put(start: u32, row: u32, col: u32, sum: {{ element }}) {
    sums[(start + row * sizes.n + col){{ " / 4u" if store_vector == 4 else "" }}] = sum;
}
//# else
//# set wide = "vec4<f32>" if store_vector == 4 else "f32"
//# set out_type = "vec4<%s>" % output if store_vector == 4 else output
//# set element = "vec4<Sum>" if store_vector == 4 else "Sum"
@group(0) @binding(3) var<storage, read_write> c: array<{{ out_type }}>;
//# if bias
@group(0) @binding(5) var<storage, read> bias: array<{{ "vec4<Stored>" if store_vector == 4 else "Stored" }}>;
//# endif
//# if residual
@group(0) @binding(6) var<storage, read> residual: array<{{ out_type }}>;
//# endif

// The first element of C{{ " of an entry of the batch" if batched else "" }}.
fn c_start(split: u32, entry: u32) -> u32 {
    return {{ "entry * sizes.m * " ~ ldc if batched else "0u" }};
}

//# if activation == "gelu"
// GELU in its tanh form (Hendrycks and Gimpel, 2016). The argument is bounded, since tanh is ±1 there anyway.
fn activate(x: {{ wide }}) -> {{ wide }} {
    let inner = 0.7978845608 * (x + 0.044715 * x * x * x);
    return 0.5 * x * (1.0 + tanh(clamp(inner, {{ wide }}(-10.0), {{ wide }}(10.0))));
}

//# elif activation == "silu"
// SiLU: x times its sigmoid. The exponent is bounded, so that it stays finite.
fn activate(x: {{ wide }}) -> {{ wide }} {
    return x / (1.0 + exp(min(-x, {{ wide }}(80.0))));
}

//# elif activation == "relu"
fn activate(x: {{ wide }}) -> {{ wide }} {
    return max(x, {{ wide }}());
}

//# endif
// The epilogue, on its way to memory.
fn put(start: u32, row: u32, col: u32, sum: {{ element }}) {
    let i = (start + row * {{ ldc }} + col){{ " / 4u" if store_vector == 4 else "" }};
//# if plain
    c[i] = {{ out_type }}(sum);
//# else
    var x = {{ wide }}(sum){{ " * sizes.alpha" if "alpha" in scalar_values else "" }};
//# if "beta" in scalar_values
    x += sizes.beta * {{ wide }}(c[i]);
//# endif
//# if bias
    x += {{ wide }}(bias[col{{ " / 4u" if store_vector == 4 else "" }}]);
//# endif
//# if activation != "none"
    x = activate(x);
//# endif
//# if residual
    x += {{ wide }}(residual[i]);
//# endif
    c[i] = {{ out_type }}(x);
//# endif
}
//# endif

//# if quads
// C[row][col..col+3] where it exists.
fn store_c(start: u32, row: u32, col: u32, sum: vec4<Sum>) {
//# if store_vector == 4
    if (row < sizes.m && col < sizes.n) { put(start, row, col, sum); }
//# else
    if (row >= sizes.m) { return; }
    if (col < sizes.n) { put(start, row, col, sum.x); }
    if (col + 1u < sizes.n) { put(start, row, col + 1u, sum.y); }
    if (col + 2u < sizes.n) { put(start, row, col + 2u, sum.z); }
    if (col + 3u < sizes.n) { put(start, row, col + 3u, sum.w); }
//# endif
}
//# endif
