// The operands, with K contiguous in both: A is M×K, B is N×K, C is M×N. A word holds four int8 along K,
// the first in its lowest byte, so a row is K / 4 words{{ ", read four at a time" if vector == 4 else "" }}.
//# set access = "vec4<u32>" if vector == 4 else "u32"
@group(0) @binding(1) var<storage, read> a: array<{{ type_a | default(access) }}>;
@group(0) @binding(2) var<storage, read> b: array<{{ type_b | default(access) }}>;
@group(0) @binding(3) var<storage, read> scale_a: array<f32>;
@group(0) @binding(4) var<storage, read> scale_b: array<f32>;
@group(0) @binding(5) var<storage, read_write> c: array<{{ "vec4<f32>" if store_vector | default(1) == 4 else "f32" }}>;
