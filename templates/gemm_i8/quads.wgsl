//# for name in ["a", "b"]
//# if vector == 4
// Words k to k + 3 of the row that starts at word `start`: 16 int8 in one access. K must be a multiple of 16.
fn load_{{ name }}(start: u32, k: u32) -> vec4<u32> {
    return {{ name }}[(start + k) / 4u];
}

// The same in the last tile along K: zero past the end.
fn load_{{ name }}_tail(start: u32, k: u32) -> vec4<u32> {
    if (k >= sizes.k / 4u) { return vec4<u32>(); }
    return load_{{ name }}(start, k);
}

//# else
// Words k to k + 3 of the row that starts at word `start`, one by one: K may be any multiple of 4.
fn load_{{ name }}(start: u32, k: u32) -> vec4<u32> {
    let i = start + k;
    return vec4<u32>({{ name }}[i], {{ name }}[i + 1u], {{ name }}[i + 2u], {{ name }}[i + 3u]);
}

// The same in the last tile along K: zero past the end.
fn load_{{ name }}_tail(start: u32, k: u32) -> vec4<u32> {
    let i = start + k;
    let words = sizes.k / 4u;
    var quad = vec4<u32>();
    if (k < words) { quad.x = {{ name }}[i]; }
    if (k + 1u < words) { quad.y = {{ name }}[i + 1u]; }
    if (k + 2u < words) { quad.z = {{ name }}[i + 2u]; }
    if (k + 3u < words) { quad.w = {{ name }}[i + 3u]; }
    return quad;
}

//# endif
//# endfor
