{#-
Functions that load four neighbours of operand `x` as a vec4<Staged>, and their twins for the last tile
along K, which give zero past its end. `along` says which axis is contiguous in memory:

  "k"      load_x(at): four neighbours of a line (a row of A, a column of B) from element `at` of x on
  "outer"  load_x(row, i): lines i to i+3 of the row of x that starts at element `row`; lines past the end,
           of `size` lines, repeat the last ones and are never stored

The twins load_x_tail take k, too.
-#}
{% macro load(x, along, size) %}
//# if along == "k" and vector == 4
// {{ x | upper }}: four neighbours along k move as one vec4.
fn load_{{ x }}(at: u32) -> vec4<Staged> {
    return vec4<Staged>({{ x }}[at / 4u]);
}

fn load_{{ x }}_tail(at: u32, k: u32) -> vec4<Staged> {
    if (k >= sizes.k) { return vec4<Staged>(); }
    return load_{{ x }}(at);
}
//# elif along == "k"
// {{ x | upper }}: four neighbours along k, one by one.
fn load_{{ x }}(at: u32) -> vec4<Staged> {
    return vec4<Staged>(Staged({{ x }}[at]), Staged({{ x }}[at + 1u]), Staged({{ x }}[at + 2u]), Staged({{ x }}[at + 3u]));
}

fn load_{{ x }}_tail(at: u32, k: u32) -> vec4<Staged> {
    var quad = vec4<Staged>();
    if (k < sizes.k) { quad.x = Staged({{ x }}[at]); }
    if (k + 1u < sizes.k) { quad.y = Staged({{ x }}[at + 1u]); }
    if (k + 2u < sizes.k) { quad.z = Staged({{ x }}[at + 2u]); }
    if (k + 3u < sizes.k) { quad.w = Staged({{ x }}[at + 3u]); }
    return quad;
}
//# else
//# if vector == 4
// {{ x | upper }}: four neighbours across k move as one vec4; past the end, the last ones again.
fn load_{{ x }}(row: u32, i: u32) -> vec4<Staged> {
    return vec4<Staged>({{ x }}[(row + min(i, {{ size }} - 4u)) / 4u]);
}
//# else
// {{ x | upper }}: four neighbours across k, one by one; past the end, the last one again.
fn load_{{ x }}(row: u32, i: u32) -> vec4<Staged> {
    let last = {{ size }} - 1u;
    return vec4<Staged>(
        Staged({{ x }}[row + min(i, last)]),
        Staged({{ x }}[row + min(i + 1u, last)]),
        Staged({{ x }}[row + min(i + 2u, last)]),
        Staged({{ x }}[row + min(i + 3u, last)]),
    );
}
//# endif

fn load_{{ x }}_tail(row: u32, i: u32, k: u32) -> vec4<Staged> {
    if (k >= sizes.k) { return vec4<Staged>(); }
    return load_{{ x }}(row, i);
}
//# endif
{% endmacro %}
