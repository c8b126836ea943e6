{#-
Functions that load four neighbours of operand `x` as a vec4<Staged>, and their twins for the last tile
along K, which give zero past its end. `along` says which axis is contiguous in memory:

  "k"      load_x(line_start, k): x[line][k..k+3], where `line_start` is the first element of a line
           (a row of A, a column of B), held inside the matrix by the caller
  "outer"  load_x(start, k, i): x[i..i+3][k] of the matrix that starts at `start`; lines past the end
           repeat the last ones and are never stored

`size` is the number of lines, `ld` the elements of a row in memory.
-#}
{% macro load(x, along, size, ld) %}
//# if along == "k" and vector == 4
// {{ x | upper }}: four neighbours along k move as one vec4.
fn load_{{ x }}(line_start: u32, k: u32) -> vec4<Staged> {
    return vec4<Staged>({{ x }}[(line_start + k) / 4u]);
}

fn load_{{ x }}_tail(line_start: u32, k: u32) -> vec4<Staged> {
    if (k >= sizes.k) { return vec4<Staged>(); }
    return load_{{ x }}(line_start, k);
}
//# elif along == "k"
// {{ x | upper }}: four neighbours along k, one by one.
fn load_{{ x }}(line_start: u32, k: u32) -> vec4<Staged> {
    let i = line_start + k;
    return vec4<Staged>(Staged({{ x }}[i]), Staged({{ x }}[i + 1u]), Staged({{ x }}[i + 2u]), Staged({{ x }}[i + 3u]));
}

fn load_{{ x }}_tail(line_start: u32, k: u32) -> vec4<Staged> {
    let i = line_start + k;
    var quad = vec4<Staged>();
    if (k < sizes.k) { quad.x = Staged({{ x }}[i]); }
    if (k + 1u < sizes.k) { quad.y = Staged({{ x }}[i + 1u]); }
    if (k + 2u < sizes.k) { quad.z = Staged({{ x }}[i + 2u]); }
    if (k + 3u < sizes.k) { quad.w = Staged({{ x }}[i + 3u]); }
    return quad;
}
//# else
//# if vector == 4
// {{ x | upper }}: four neighbours across k move as one vec4; past the end, the last ones again.
fn load_{{ x }}(start: u32, k: u32, i: u32) -> vec4<Staged> {
    return vec4<Staged>({{ x }}[(start + k * {{ ld }} + min(i, {{ size }} - 4u)) / 4u]);
}
//# else
// {{ x | upper }}: four neighbours across k, one by one; past the end, the last one again.
fn load_{{ x }}(start: u32, k: u32, i: u32) -> vec4<Staged> {
    let row_start = start + k * {{ ld }};
    let last = {{ size }} - 1u;
    return vec4<Staged>(
        Staged({{ x }}[row_start + min(i, last)]),
        Staged({{ x }}[row_start + min(i + 1u, last)]),
        Staged({{ x }}[row_start + min(i + 2u, last)]),
        Staged({{ x }}[row_start + min(i + 3u, last)]),
    );
}
//# endif

fn load_{{ x }}_tail(start: u32, k: u32, i: u32) -> vec4<Staged> {
    if (k >= sizes.k) { return vec4<Staged>(); }
    return load_{{ x }}(start, k, i);
}
//# endif
{% endmacro %}
