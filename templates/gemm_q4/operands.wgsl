// The operands. A is M×K and C M×N, row-major. W comes column by column: row n of `weights` holds the
// K codes of column n, eight a word, the lowest nibble first, and row n of `scales` a scale for every
// GROUP of them. W[k][n] = (code - 8) · scale.
alias Stored = {{ dtype }};
alias Sum = f32;
//# set load = "u32" if words == 1 else "vec%d<u32>" % words
const GROUP = {{ group }}u;
@group(0) @binding(1) var<storage, read> a: array<{{ type_a | default("vec4<Stored>") }}>;
@group(0) @binding(2) var<storage, read> weights: array<{{ load }}>;
@group(0) @binding(5) var<storage, read> scales: array<Stored>;
//# if not own_b | default(false)

// The four codes in the low half of a word, minus 8. No integer is converted, which many GPUs do at a
// fraction of their rate: put into the mantissa of 2^(23-p), the nibble at bit p counts in ones, and a
// subtraction leaves it, exactly. (After Kim et al., "Who says elephants can't run", SustaiNLP 2022.)
fn four_weights(word: u32) -> vec4<Sum> {
    let nibbles = vec4<u32>(word) & vec4<u32>(0xfu, 0xf0u, 0xf00u, 0xf000u);
    let powers = vec4<u32>(0x4b000000u, 0x49000000u, 0x47000000u, 0x45000000u);  // 2^23, 2^19, 2^15, 2^11
    return bitcast<vec4<f32>>(nibbles | powers) - vec4<f32>(8388616f, 524296f, 32776f, 2056f);  // these + 8
}
//# endif
